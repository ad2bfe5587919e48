"""One daemon thread that makes all store calls of an exchange.

A store call can block past any timeout (a stopped server, a lost network). The thread that trains
must not be in it then, so it only waits for the result, in slices, up to the deadline.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from .. import clock
from ..deadline import Deadline
from ..errors import StoreError

__all__ = ["Cancelled", "Ticket", "Worker"]

T = TypeVar("T")

_SLICE_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 0.6


class Cancelled(BaseException):
    """The caller has gone; the job ends at its next step."""


class Ticket:
    """A job: what it does, whether it is still wanted, and what came of it.

    Attributes:
        later: what is left to do when the caller has its result; best effort.
    """

    def __init__(self, job: Callable[[Ticket], Any]) -> None:
        self.cancelled = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.later: Callable[[], None] | None = None
        self._job = job
        # A bare lock, released once: an Event does the same in twice the time.
        self._done = threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        try:
            if not self.cancelled:
                self.result = self._job(self)
        except clock.OverrunError:
            return  # as a thread that never comes back
        except BaseException as error:  # noqa: BLE001  (handed to the caller)
            self.error = error
        self._done.release()
        if self.later is not None:
            with contextlib.suppress(BaseException):  # the thread must live for the next job
                self.later()

    def wait(self, seconds: float) -> bool:
        """Whether the job ends within `seconds`; for one caller, until it has returned True."""
        return self._done.acquire(timeout=seconds)

    def check(self) -> None:
        """Raise `Cancelled` when nobody waits for the result any more."""
        if self.cancelled:
            raise Cancelled


class Worker:
    """Runs jobs one after another in its own thread, which starts with the first of them."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._dead: str | None = None

    def run(self, job: Callable[[Ticket], T], deadline: Deadline, what: str) -> T:
        """Run a job and wait for its result.

        Raises:
            StoreError: the store did not answer by the deadline, now or in an earlier call.
        """
        if self._dead is not None:
            raise StoreError(f"{self._dead}; attach() a new store to go on")
        ticket = Ticket(job)
        end = clock.monotonic() + deadline.left() + _GRACE_SECONDS
        self._post(ticket, end)
        try:
            while not ticket.wait(min(_SLICE_SECONDS, max(0.0, end - clock.monotonic()))):
                if clock.monotonic() >= end:
                    self._dead = f"the store did not answer within {deadline.seconds:g} s ({what})"
                    raise StoreError(f"{self._dead}; is its host alive? attach() a store to go on")
        finally:
            ticket.cancelled = True
        if ticket.error is not None:
            raise ticket.error
        result: T = ticket.result
        return result

    def _post(self, ticket: Ticket, end: float) -> None:
        simulation = clock.simulation.get()
        if simulation is not None:
            simulation.run_until(end, ticket.run)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="synchist-store", daemon=True)
            self._thread.start()
        self._jobs.put(ticket)

    @property
    def dead(self) -> bool:
        """Whether a store call overran its deadline, so that the thread may never come back."""
        return self._dead is not None

    def stop(self) -> None:
        """End the thread once it is idle; does not wait."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread = None

    def _loop(self) -> None:
        while (ticket := self._jobs.get()) is not None:
            ticket.run()
            del ticket
