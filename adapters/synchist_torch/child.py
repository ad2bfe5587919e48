"""A launched process: calls the function as one rank, reports, and leaves."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import connection, parent_process
from typing import Any, NoReturn

import torch.distributed as dist

from synchist import UsageError
from synchist_torch.c10d import TCPStore
from synchist_torch.connecting import with_or_without_libuv
from synchist_torch.messages import FAILED, RETURNED, STARTED, Failure

__all__ = ["main"]


def main(
    pipe: connection.Connection[bytes, bytes],
    rank: int,
    world_size: int,
    port: int,
    backend: str,
) -> NoReturn:
    """Receive the function, call it within a process group, send what came of it."""
    _become_a_group()
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    pipe.send_bytes(STARTED)
    message, code = _outcome(pipe.recv_bytes(), rank, world_size, port, backend)
    with suppress(BrokenPipeError, ConnectionResetError):  # the launcher has given up on us
        pipe.send_bytes(message)
    pipe.close()
    _leave(code)


def _outcome(
    packed: bytes, rank: int, world_size: int, port: int, backend: str
) -> tuple[bytes, int]:
    """The message to send, and the exit code."""
    try:
        value = _call(packed, rank, world_size, port, backend)
    except SystemExit as error:
        if error.code in (None, 0):
            return RETURNED + pickle.dumps(None), 0
        code = error.code if isinstance(error.code, int) else 1
        return _failed(Failure.of(error, rank)), code
    except BaseException as error:  # noqa: BLE001  (KeyboardInterrupt too is reported)
        return _failed(Failure.of(error, rank)), 1
    try:
        return RETURNED + pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 0
    except Exception as error:  # noqa: BLE001  (pickling runs code of the value)
        reason = f"returned a value that cannot be pickled: {type(error).__name__}: {error}"
        return _failed(Failure(reason, time.time())), 1


def _failed(failure: Failure) -> bytes:
    return FAILED + pickle.dumps(tuple(failure))


def _call(packed: bytes, rank: int, world_size: int, port: int, backend: str) -> Any:
    try:
        fn, args = pickle.loads(packed)  # noqa: S301  (from our own launcher)
    except Exception as error:
        raise UsageError(
            f"a process that launch() started cannot import the function or rebuild its arguments: "
            f"{type(error).__name__}: {error}"
        ) from error
    store = with_or_without_libuv(
        lambda libuv: TCPStore("127.0.0.1", port, wait_for_workers=False, use_libuv=libuv)
    )
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    value = fn(*args)
    if dist.is_initialized():
        dist.destroy_process_group()
    return value


def _become_a_group() -> None:
    """Lead a process group, so that what this rank starts can be ended with it.

    Ctrl-C at a terminal then reaches the launcher alone, which ends the ranks in order.
    """
    if sys.platform != "win32":
        os.setpgid(0, 0)
        # The launcher started us with SIGINT blocked. Forget one that has come since: it was
        # meant for the launcher, which heard it as well.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, handler)


def _end_with_the_parent() -> None:
    """Be gone when the launcher is, however it went."""
    parent = parent_process()
    assert parent is not None
    # The sentinel stays silent while another process of the launcher has inherited its other end.
    while not connection.wait([parent.sentinel], timeout=1.0):
        if sys.platform != "win32" and os.getppid() != parent.pid:
            break
    if sys.platform != "win32":
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _leave(code: int) -> NoReturn:
    """Do what the interpreter does at exit, except for tearing down C++.

    Processes that used DistributedDataParallel on the CPU abort there now and then ("terminate
    called without an active exception"), after all work is done.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are not daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or not there at all
            stream.flush()
    os._exit(code)
