"""A store from its address."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import cast
from urllib.parse import urlsplit

from synchist import DirectoryStore, Store, StoreError, UsageError
from synchist_torch import c10d
from synchist_torch.connecting import connected

__all__ = ["open_store"]

_FORMS = (
    "an address is tcp://host:port (rank 0 runs on that host), file://path or dir://path (on a "
    "file system that all ranks share)"
)

# The server lives as long as the object that hosts it, and histories talk through clones of that.
_hosted: list[c10d.Store] = []


def open_store(address: str, *, rank: int, world_size: int, timeout: float = 300.0) -> Store:
    """Open a store that `world_size` processes share; every one of them calls this.

    - `tcp://host:port`: torch's `TCPStore`. Rank 0 hosts it, for as long as its process lives; the
      others connect, and wait for it if they come first. An IPv6 address stands in brackets. It
      listens on all interfaces and knows no passwords: use it in networks you trust.
    - `file://path`: torch's `FileStore`, one file. The file only ever grows. A file that a killed
      run left is read as if it were alive, which a meeting of histories sees through; one torn in
      the middle of a record, or that another program wrote, hangs torch and with it the process.
      Give every run a new path.
    - `dir://path`: `synchist.DirectoryStore`, one file per key. Has none of these limits.

    Paths are taken literally, relative ones too (`dir://run/store`); on Windows both
    `dir://C:/run` and `dir:///C:/run` work.

    Args:
        address: where the store is.
        rank: this process's rank.
        world_size: the number of processes.
        timeout: how many seconds opening may take, and how long the store's `get` waits.

    Raises:
        UsageError: the address has another form, or rank and world size do not fit.
        StoreError: the store could not be opened within `timeout`; the port is taken.
    """
    if not 0 <= rank < world_size:
        raise UsageError(f"rank must be in 0..world_size - 1, got {rank} of {world_size}")
    scheme, separator, rest = address.partition("://")
    if not separator or not rest:
        raise UsageError(f"cannot open {address!r}: {_FORMS}")
    match scheme.lower():
        case "tcp":
            return cast(Store, _tcp(address, rank, world_size, timeout))
        case "file":
            return cast(Store, _file(_path(rest), world_size, timeout))
        case "dir":
            return DirectoryStore(_path(rest), timeout=timeout)
    raise UsageError(f"cannot open {address!r}: {_FORMS}")


def _tcp(address: str, rank: int, world_size: int, timeout: float) -> c10d.Store:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"cannot open {address!r}: {error}; {_FORMS}") from None
    if host is None or port is None or parts.path.strip("/") or parts.query or parts.username:
        raise UsageError(f"cannot open {address!r}: {_FORMS}")
    if port == 0 and world_size > 1:
        raise UsageError(
            f"cannot open {address!r}: port 0 means any free port, and the other ranks could not "
            "know which; choose one"
        )

    def connect(use_libuv: bool) -> c10d.Store:
        return c10d.TCPStore(
            host,
            port,
            world_size,
            is_master=rank == 0,
            timeout=timedelta(seconds=timeout),
            wait_for_workers=False,
            multi_tenant=True,  # opened again by this process, it is the same server
            use_libuv=use_libuv,
        )

    store = connected(connect, timeout, where=f"{host}:{port}")
    if rank == 0:
        _hosted.append(store)
    return store


def _file(path: str, world_size: int, timeout: float) -> c10d.Store:
    folder = os.path.dirname(os.path.abspath(path))
    # In these cases torch tries again for minutes and cannot be interrupted.
    if not os.path.isdir(folder):
        raise StoreError(f"cannot open the store file {path}: there is no folder {folder}")
    if os.path.isdir(path):
        raise StoreError(f"cannot open the store file {path}: it is a folder; use dir:// for one")
    store = c10d.FileStore(path, world_size)
    store.set_timeout(timedelta(seconds=timeout))
    return store


def _path(rest: str) -> str:
    """The path of `file:///C:/x` has a slash too many on Windows."""
    return rest[1:] if os.name == "nt" and re.match(r"/[A-Za-z]:", rest) else rest
