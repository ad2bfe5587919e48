"""Threads of which one runs at a time, in virtual time: the same seed gives the same run.

Each thread has a moment at which it goes on; the one whose moment comes first runs, and the clock
jumps there. So waiting costs nothing, and the order of what happens follows from how long each step
takes, which is drawn from the seed.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..clock import OverrunError, simulation

__all__ = ["Scheduler", "StuckError"]

_REAL_SECONDS: Final = 60.0


class StuckError(BaseException):
    """A thread took more steps than any sound program needs, or blocked outside virtual time.

    Not an `Exception`, so that nothing that is tested swallows it.
    """


class _Task:
    def __init__(self, number: int, body: Callable[[], Any]) -> None:
        self.number = number
        self.body = body
        self.result: Any = None
        self.end = float("inf")  # of the job it is in
        self.baton = threading.Lock()
        self.baton.acquire()


class Scheduler:
    """Runs functions as threads, one at a time. It is the `Simulation` of its threads.

    Args:
        most_steps: after so many steps in one `run`, every thread raises `StuckError`.
    """

    def __init__(self, most_steps: int) -> None:
        self.now = 1000.0  # as on a machine that has been up for a while
        self.steps = 0
        self._most = most_steps
        self._limit = most_steps
        self._queue: list[tuple[float, int, _Task]] = []
        self._running: _Task | None = None
        self._idle = threading.Lock()
        self._idle.acquire()

    def run(self, bodies: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run all to their ends; what each returned, or the exception that it raised.

        Raises:
            StuckError: they did not end.
        """
        tasks = [_Task(number, body) for number, body in enumerate(bodies)]
        if not tasks:
            return []
        self._limit = self.steps + self._most
        self._queue = [(self.now, task.number, task) for task in tasks]
        heapq.heapify(self._queue)
        for task in tasks:
            threading.Thread(target=self._thread, args=(task,), daemon=True).start()
        self._next().baton.release()
        steps = -1
        while not self._idle.acquire(timeout=_REAL_SECONDS):
            if self.steps == steps:
                raise StuckError("a thread blocks outside virtual time")
            steps = self.steps
        for task in tasks:
            if isinstance(task.result, StuckError):
                raise task.result
        return [task.result for task in tasks]

    # -- as the threads see it -----------------------------------------------------------------

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Go on in so many virtual seconds; others run meanwhile."""
        me = self._running
        assert me is not None
        self.steps += 1
        if self.steps > self._limit:
            raise StuckError(f"no end after {self._most} steps")
        wake = self.now + max(0.0, seconds)
        overrun = wake > me.end
        heapq.heappush(self._queue, (me.end if overrun else wake, me.number, me))
        following = self._next()
        if following is not me:
            following.baton.release()
            me.baton.acquire()
        if overrun:
            raise OverrunError

    def run_until(self, end: float, job: Callable[[], None]) -> None:
        """Run a job that gives up at `end`."""
        me = self._running
        assert me is not None
        before, me.end = me.end, end
        try:
            job()
        finally:
            me.end = before

    # -- inside --------------------------------------------------------------------------------

    def _next(self) -> _Task:
        wake, _, task = heapq.heappop(self._queue)
        self.now = max(self.now, wake)
        self._running = task
        return task

    def _thread(self, task: _Task) -> None:
        task.baton.acquire()
        simulation.set(self)
        try:
            task.result = task.body()
        except BaseException as error:  # noqa: BLE001  (handed to the caller)
            task.result = error
        if self._queue:
            self._next().baton.release()
        else:
            self._running = None
            self._idle.release()
