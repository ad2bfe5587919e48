"""Rank, world size and store from the environment variables that torchrun sets."""

from __future__ import annotations

import os
from datetime import timedelta

from torch.distributed.rendezvous import rendezvous

from synchist import UsageError
from synchist_torch.c10d import PrefixStore, Store
from synchist_torch.connecting import connected

__all__ = ["environment_store", "place"]

_PREFIX = "synchist"
_PLACE = ("RANK", "WORLD_SIZE")
_SERVER = ("MASTER_ADDR", "MASTER_PORT")

# One per server, rank and process. Kept for good: rank 0 may host the server.
_stores: dict[tuple[object, ...], Store] = {}


def place() -> tuple[int, int] | None:
    """`(rank, world_size)` from RANK and WORLD_SIZE, or None unless both are set.

    Raises:
        UsageError: they are not numbers.
    """
    values = [os.environ.get(name) for name in _PLACE]
    if None in values:
        return None
    try:
        rank, world_size = (int(str(value)) for value in values)
    except ValueError:
        raise UsageError(
            f"RANK={values[0]!r} and WORLD_SIZE={values[1]!r} must be numbers"
        ) from None
    return rank, world_size


def environment_store(rank: int, world_size: int, timeout: float) -> Store:
    """Torch's `env://` store, under a prefix of ours; the same object at every call.

    Under torchrun it is the agent's store. Otherwise rank 0 hosts it at MASTER_ADDR:MASTER_PORT, in
    a way that `init_process_group` in the same process can share.

    Raises:
        UsageError: MASTER_ADDR or MASTER_PORT is not set.
        StoreError: no store could be reached within `timeout` seconds.
    """
    missing = [name for name in _SERVER if not os.environ.get(name)]
    if missing:
        raise UsageError(
            f"this is rank {rank} of {world_size}, but {' and '.join(missing)} is not set: start "
            "with torchrun, call init_process_group first, or give store="
        )
    host, port = (os.environ[name] for name in _SERVER)
    key = (host, port, rank, world_size, os.getpid())
    if key not in _stores:

        def connect(use_libuv: bool) -> Store:
            url = "env://" if use_libuv else "env://?use_libuv=0"
            store: Store
            store, _, _ = next(
                rendezvous(url, rank, world_size, timeout=timedelta(seconds=timeout))
            )
            return store

        where = f"{host}:{port} (MASTER_ADDR:MASTER_PORT)"
        _stores[key] = PrefixStore(_PREFIX, connected(connect, timeout, where=where))
    return _stores[key]
