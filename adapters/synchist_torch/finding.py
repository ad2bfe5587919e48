"""Where this process stands among the ranks, from torch.distributed or from the environment."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch.distributed as dist

from synchist import Store, UsageError
from synchist_torch._default_store import default_store
from synchist_torch.environment import environment_store, place

__all__ = ["Found", "find"]


class Found(NamedTuple):
    """A place among the ranks; without a store it is that of a process on its own."""

    store: Store | None
    rank: int
    world_size: int


def find(store: Store | None, rank: int | None, world_size: int | None, timeout: float) -> Found:
    """What is given, and the rest from where it is to be found. Connecting to a store may block.

    Args:
        store: any store.
        rank: the global rank.
        world_size: the number of ranks.
        timeout: how many seconds connecting may take.

    Raises:
        UsageError: only a part is given and the rest is nowhere to be found.
        StoreError: the store could not be reached within `timeout`.
    """
    initialised = dist.is_initialized()
    found = (dist.get_rank(), dist.get_world_size()) if initialised else place()
    if found is None:
        if store is None and rank is None and world_size in (None, 1):
            return Found(None, 0, 1)
        if rank is None or world_size is None:
            raise UsageError(
                "no process group is initialised and RANK and WORLD_SIZE are not set: give both "
                "rank= and world_size=, start with torchrun, or call init_process_group first"
            )
        found = (rank, world_size)
    rank = found[0] if rank is None else rank
    world_size = found[1] if world_size is None else world_size
    if store is None and world_size > 1:
        if initialised:
            store = cast(Store, default_store(timeout))
        else:
            store = cast(Store, environment_store(rank, world_size, timeout))
    return Found(store, rank, world_size)
