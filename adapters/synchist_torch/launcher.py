"""Run a function as the ranks of a process group, in new processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, TypeVar, TypeVarTuple

from synchist import RankFailedError, UsageError
from synchist_torch import child
from synchist_torch.c10d import Store, TCPStore
from synchist_torch.connecting import with_or_without_libuv
from synchist_torch.importable import pack
from synchist_torch.ranks import Rank, end, watch

__all__ = ["launch"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LOOPBACK = ("lo", "lo0")  # Linux, macOS and BSD
# What these say describes the group that the launching process is in, if any.
_OTHER_GROUP = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_")

_environment_lock = threading.Lock()


def launch(
    fn: Callable[[*Ts], T],
    *args: *Ts,
    world_size: int = 2,
    backend: str = "gloo",
    timeout: float | None = None,
) -> list[T]:
    """Call `fn(*args)` in `world_size` new processes that form a process group; wait for all.

    Every process initialises the default process group, calls `fn` (the rank is
    `torch.distributed.get_rank()`), and destroys the group. No port has to be chosen. Standard
    output and error pass through. With gloo the ranks talk over the loopback interface, unless
    `GLOO_SOCKET_IFNAME` is set. `OMP_NUM_THREADS` is 1 in the ranks, unless it is set. `RANK`,
    `WORLD_SIZE`, `LOCAL_RANK` and `LOCAL_WORLD_SIZE` are set as torchrun sets them, and
    `SYNCHIST_JOB` to a name that is new with every launch. With several GPUs `fn` chooses its own
    (`torch.cuda.set_device(torch.distributed.get_rank())`).

    The processes import the file that was started as a script, so that file must call `launch` only
    under `if __name__ == "__main__":`. They end when this process ends, in whatever way.

    Args:
        fn: a function at the top level of a module; a `functools.partial` of one will do.
        args: what to call it with; can be pickled.
        world_size: how many processes.
        backend: of the process group.
        timeout: how many seconds all of it may take; None for no limit.

    Returns:
        What the ranks returned, in rank order. `sys.exit(0)` in a rank counts as returning None.

    Raises:
        UsageError: another process could not import `fn` or rebuild `args`.
        RankFailedError: a rank raised, was killed, or left with an exit code; the error of the
            first such rank, with its traceback as text and, where it can be pickled, its exception
            as the cause. The others have been ended.
        SyncTimeoutError: `timeout` passed; all ranks have been ended.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise UsageError(
            "launch() was called while a process that launch() had started was importing this "
            'file; put the call under `if __name__ == "__main__":`'
        )
    if type(world_size) is not int or world_size < 1:
        raise UsageError(f"world_size must be an int of 1 or more, got {world_size!r}")
    packed = pack(fn, args)
    server = with_or_without_libuv(_server)
    assert isinstance(server, TCPStore)
    ranks: list[Rank] = []
    try:
        job = secrets.token_hex(8)
        for rank in range(world_size):
            with _environment(rank, world_size, backend, job):
                ranks.append(_start(rank, world_size, server.port, backend))
        watch(ranks, packed, timeout)
    finally:
        end(ranks)
        del server
    return [_value(rank) for rank in ranks]


def _start(rank: int, world_size: int, port: int, backend: str) -> Rank:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=child.main,
        args=(theirs, rank, world_size, port, backend),
        name=f"rank {rank}",
    )
    try:
        with _ctrl_c_held_back():
            process.start()
    finally:
        theirs.close()  # so that ours ends when the process does
    return Rank(rank, process, ours)


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """A process that is started meanwhile starts with SIGINT blocked.

    It lets go once it leads its own group. Until then, which is while it imports torch, Ctrl-C at a
    terminal would reach it too, and it would fill the screen with the traceback of an import.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # starting it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _value(rank: Rank) -> Any:
    assert rank.returned is not None
    try:
        return pickle.loads(rank.returned)  # noqa: S301  (from our own child)
    except Exception as error:
        raise RankFailedError(
            f"rank {rank.rank} returned a value that cannot be rebuilt here: "
            f"{type(error).__name__}: {error}",
            rank=rank.rank,
            reason=str(error),
        ) from error


def _server(use_libuv: bool) -> Store:
    """The store the ranks meet on: in this process, so that it outlives every rank."""
    host, port, listener = "127.0.0.1", 0, None
    if sys.platform != "win32":
        # By itself it would listen on all interfaces.
        bound = socket.create_server((host, port))
        port, listener = bound.getsockname()[1], bound.detach()
    return TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener,
        use_libuv=use_libuv,
    )


@contextmanager
def _environment(rank: int, world_size: int, backend: str, job: str) -> Iterator[None]:
    """The environment of a process that is started meanwhile.

    Set here and not in the process, because OpenMP reads its variable when torch is loaded, and
    torch is loaded before any line of ours runs.
    """
    changes = {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world_size),
        "SYNCHIST_JOB": job,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    if "gloo" in backend and "GLOO_SOCKET_IFNAME" not in os.environ:
        # Otherwise gloo resolves the host's name, which on laptops and in containers often fails.
        loopback = [name for _, name in socket.if_nameindex() if name in _LOOPBACK]
        if loopback:
            changes["GLOO_SOCKET_IFNAME"] = loopback[0]
    with _environment_lock:
        before = dict(os.environ)
        for name in before:
            if name.startswith(_OTHER_GROUP):
                del os.environ[name]
        os.environ.update(changes)
        try:
            yield
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)
