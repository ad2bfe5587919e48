"""What tests with launched processes share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def programs() -> Path:
    """The folder of the scripts."""
    return PROGRAMS


@pytest.fixture
def rank_functions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of functions to launch; started processes find it as this one does."""
    import importlib

    monkeypatch.syspath_prepend(str(PROGRAMS))
    return importlib.import_module("rank_functions")


@pytest.fixture
def await_gone() -> Callable[[Iterable[int]], None]:
    """Wait until none of the processes runs any more; fail after ten seconds."""

    def wait(pids: Iterable[int]) -> None:
        end = time.monotonic() + 10
        pids = list(pids)
        while left := [pid for pid in pids if _runs(pid)]:
            assert time.monotonic() < end, f"still running: {left}"
            time.sleep(0.02)

    return wait


def _runs(pid: int) -> bool:
    """False for a zombie too: nobody may be there to reap an orphan."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()
