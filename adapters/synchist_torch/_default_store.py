"""The one place that asks torch for the default process group's store, by a private name."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from weakref import WeakKeyDictionary

import torch.distributed as dist

from synchist import StoreError
from synchist_torch.c10d import PrefixStore, Store, TCPStore
from synchist_torch.connecting import connected, with_or_without_libuv

__all__ = ["default_store"]

_PREFIX = "synchist"

# By process group, so that all histories of a group count themselves on one object, and the next
# group (after destroy_process_group) starts anew.
_stores: WeakKeyDictionary[object, Store] = WeakKeyDictionary()


def default_store(timeout: float) -> Store:
    """The default process group's store, under a prefix of ours; the same object at every call.

    Where torch does not give its store away, the first call is collective: rank 0 hosts a store of
    our own on a free port and broadcasts the address over the group.

    Raises:
        StoreError: torch has no store for us, and rank 0 could not host one or be reached within
            `timeout` seconds.
    """
    group = dist.group.WORLD
    store = _stores.get(group)
    if store is None:
        store = PrefixStore(_PREFIX, _torch_store() or _hosted_store(timeout))
        _stores[group] = store
    return store


def _torch_store() -> Store | None:
    try:
        from torch.distributed.distributed_c10d import _get_default_store
    except ImportError:
        return None
    return _get_default_store()


def _hosted_store(timeout: float) -> Store:
    address: list[tuple[str, int] | None] = [None]
    server: Store | None = None
    failure: Exception | None = None
    if dist.get_rank() == 0:
        try:
            server = with_or_without_libuv(_host)
            assert isinstance(server, TCPStore)
            address = [(socket.gethostname(), server.port)]
        except Exception as error:  # noqa: BLE001  (the others wait for the broadcast)
            failure = error
    dist.broadcast_object_list(address, src=0)
    if address[0] is None:
        raise StoreError("rank 0 could not host a store for the history") from failure
    if server is not None:
        return server
    host, port = address[0]
    if host == socket.gethostname():
        host = "localhost"
    elif "MASTER_ADDR" in os.environ:  # more certain to be reachable than a host's own name
        host = os.environ["MASTER_ADDR"]

    def connect(use_libuv: bool) -> Store:
        return TCPStore(
            host,
            port,
            timeout=timedelta(seconds=timeout),
            wait_for_workers=False,
            use_libuv=use_libuv,
        )

    return connected(connect, timeout, where=f"{host}:{port}")


def _host(use_libuv: bool) -> Store:
    return TCPStore("localhost", 0, is_master=True, wait_for_workers=False, use_libuv=use_libuv)
