"""Functions that tests launch as ranks. Started processes import this file."""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from synchist import RankFailedError


def report(size: int) -> dict[str, Any]:
    """What a rank sees, with a return value of `size` bytes that does not compress away."""
    total = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(total)
    names = (
        "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SYNCHIST_JOB OMP_NUM_THREADS "
        "GLOO_SOCKET_IFNAME MASTER_ADDR TORCHELASTIC_RUN_ID"
    )
    return {
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "total": total,
        "pid": os.getpid(),
        "threads": torch.get_num_threads(),
        "environ": {name: os.environ.get(name) for name in names.split()},
        "large": os.urandom(size),
    }


def add(a: int, b: int) -> int:
    return a + b + dist.get_rank()


class Unkind(Exception):
    """Can be pickled, but not rebuilt."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


class NotPicklable(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


def _write_pid(folder: str) -> None:
    """Appears whole or not at all."""
    path = Path(folder, f"{dist.get_rank()}.tmp")
    path.write_text(str(os.getpid()))
    path.rename(path.with_suffix(".pid"))


def _sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(60)


def fail_in(how: str, folder: str) -> None:
    """Rank 1 fails once all ranks are there; rank 0 would wait for ever."""
    _write_pid(folder)
    dist.barrier()
    if dist.get_rank() == 1:
        _fail(how)
        return
    if how == "quietly killed":
        return
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how in ("collective", "kill"):
        dist.all_reduce(torch.ones(1))
    _sleep_for_ever()


def _fail(how: str) -> None:
    match how:
        case "raise" | "collective" | "deaf":
            raise ValueError(f"the reason: {how}")
        case "kill" | "quietly killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "unkind":
            raise Unkind(1, 2)
        case "not picklable":
            raise NotPicklable("the reason: a lock")
        case "abort at exit":
            atexit.register(os.abort)
        case "code at exit":
            atexit.register(os._exit, 7)


def wait_for_ever(folder: str) -> None:
    """With a process of its own, as a DataLoader has."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(folder, f"{dist.get_rank()}.child").write_text(str(sleeper.pid))
    _write_pid(folder)
    _sleep_for_ever()


def return_lock() -> object:
    return threading.Lock()


class OnlyThere:
    """Can be pickled everywhere and rebuilt only in a rank."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, ()


def _rebuild() -> OnlyThere:
    if multiprocessing.parent_process() is None:
        raise RuntimeError("not here")
    return OnlyThere()


def return_only_there() -> OnlyThere:
    return OnlyThere()


def leave_late(folder: str) -> str:
    """Leaves a thread, a pool, an exit handler and output behind, and a C++ exit that aborts."""
    from concurrent.futures import ThreadPoolExecutor

    rank = dist.get_rank()

    def note(what: str) -> None:
        Path(folder, f"{rank}.{what}").touch()

    def thread() -> None:
        main = threading.main_thread()
        main.join()  # until the interpreter shuts down
        note("thread")

    threading.Thread(target=thread).start()
    ThreadPoolExecutor(1).submit(note, "pool")  # never shut down
    atexit.register(note, "atexit")
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
    sys.stdout.write(f"<written by rank {rank}>")  # and not flushed
    if rank == 1:
        sys.exit(0)
    return "returned"


def fail_and_be_told() -> None:
    """As in a history: a rank tells the others that it fails, cleans up, and then raises."""
    if dist.get_rank() == 0:
        raise RankFailedError("rank 1 failed", rank=1)
    time.sleep(1)
    raise ValueError("the reason")
