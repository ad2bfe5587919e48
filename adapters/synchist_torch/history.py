"""A history that takes its place among the ranks from torch.distributed."""

from __future__ import annotations

from typing import Any, cast

import torch.distributed as dist

from synchist import History, Store, UsageError
from synchist_torch._default_store import default_store
from synchist_torch.environment import environment_store, place

__all__ = ["distributed_history"]


def distributed_history(
    *,
    store: Store | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    timeout: float = 1800.0,
    **options: Any,
) -> History:
    """The `History` of this rank; enter it with `with`.

    What is not given comes from the first of these that there is:

    1. the initialised default process group: its rank, its size, and its store under a prefix;
    2. `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`, which torchrun sets;
    3. nothing: then it is a local history, and `sync()` does nothing.

    May be called again in the same process; all ranks then make their histories in the same order.
    The ranks meet on entering the history, not here, but connecting to the store may block.

        with distributed_history(reduce={"loss": "mean"}) as h:
            ...

    Args:
        store: any store, a `torch.distributed` store too.
        rank: the global rank.
        world_size: the number of ranks.
        timeout: how many seconds connecting may take, and the history's own timeout.
        options: whatever else `History` takes, such as `reduce=` and `name=`.

    Raises:
        UsageError: only a part is given and the rest is nowhere to be found.
        StoreError: the store could not be reached within `timeout`.
    """
    initialised = dist.is_initialized()
    found = (dist.get_rank(), dist.get_world_size()) if initialised else place()
    if found is None:
        if store is None and rank is None and world_size in (None, 1):
            return History(timeout=timeout, **options)
        if rank is None or world_size is None:
            raise UsageError(
                "no process group is initialised and RANK and WORLD_SIZE are not set: give both "
                "rank= and world_size=, start with torchrun, or call init_process_group first"
            )
        found = (rank, world_size)
    rank = found[0] if rank is None else rank
    world_size = found[1] if world_size is None else world_size
    if store is None:
        if world_size == 1:
            return History(timeout=timeout, **options)
        if initialised:
            store = cast(Store, default_store(timeout))
        else:
            store = cast(Store, environment_store(rank, world_size, timeout))
    return History(store=store, rank=rank, world_size=world_size, timeout=timeout, **options)
