"""Time as everything that waits sees it.

A simulated world (`synchist.testing.World`) puts its own time in place for the threads that it
runs; everywhere else this is the machine's monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

__all__ = ["OverrunError", "Simulation", "monotonic", "simulation", "sleep"]


class OverrunError(BaseException):
    """In simulated time, what a thread does that nobody waits for any more."""


class Simulation(Protocol):
    """Time for the threads of a simulated world."""

    def monotonic(self) -> float:
        """Seconds since some moment."""

    def sleep(self, seconds: float) -> None:
        """Let others run meanwhile; `OverrunError` when that would pass the end of `run_until`."""

    def run_until(self, end: float, job: Callable[[], None]) -> None:
        """Run a job, in this thread, that raises `OverrunError` if it is not done by `end`."""


simulation: ContextVar[Simulation | None] = ContextVar("synchist_simulation", default=None)
"""The simulation that this thread is in."""


def monotonic() -> float:
    """Seconds since some moment."""
    simulated = simulation.get()
    return time.monotonic() if simulated is None else simulated.monotonic()


def sleep(seconds: float) -> None:
    """Block for so many seconds."""
    simulated = simulation.get()
    if simulated is None:
        time.sleep(seconds)
    else:
        simulated.sleep(seconds)
