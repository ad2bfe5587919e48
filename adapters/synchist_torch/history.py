"""A history that takes its place among the ranks from torch.distributed."""

from __future__ import annotations

from typing import Any

from synchist import History, Store
from synchist_torch.finding import find

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
    found = find(store, rank, world_size, timeout)
    if found.store is None:
        return History(timeout=timeout, **options)
    return History(
        store=found.store,
        rank=found.rank,
        world_size=found.world_size,
        timeout=timeout,
        **options,
    )
