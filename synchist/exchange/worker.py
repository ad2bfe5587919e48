"""One daemon thread that makes all store calls of an exchange.

A store call can block past any timeout (a stopped server, a lost network). The thread that trains
must not be in it then, so it only waits for the result, in slices, up to the deadline and a little
more. If it is one store call that holds up the job then, the store is taken for dead. Otherwise it
is merely slow: the job ends at its next store call, and the caller may try again.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from .. import clock
from ..deadline import Deadline
from ..errors import StoreError, SyncTimeoutError
from .notes import names_of

__all__ = ["Cancelled", "Worker"]

T = TypeVar("T")

_SLICE_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 0.6
_CALL_SECONDS: Final = 0.5
"""How long a store call may have taken at the end of the grace, before it counts as lost."""


class Cancelled(BaseException):
    """The caller has gone; the job ends at its next store call."""


class _Ticket:
    """A job: what it does, whether it is still wanted, and what came of it."""

    def __init__(self, job: Callable[[], Any], later: Callable[[], None] | None) -> None:
        self.cancelled = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.job = job
        self.later = later
        # A bare lock, released once: an Event does the same in twice the time.
        self.done = threading.Lock()
        self.done.acquire()


class Worker:
    """Runs jobs one after another in its own thread, which starts with the first of them."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._dead: str | None = None
        self._ticket: _Ticket | None = None  # of the job that runs
        self._progress = 0.0  # when the last store call began, or should have ended

    def run(
        self,
        job: Callable[[], T],
        deadline: Deadline,
        what: str,
        *,
        later: Callable[[], None] | None = None,
        missing: Callable[[], Sequence[int]] = list,
    ) -> T:
        """Run a job and wait for its result.

        Args:
            job: what to do; calls `step` before each store call.
            deadline: by when. A job knows it too, and says more of why it was missed.
            what: what the job is for, in errors.
            later: what is left to do when the caller has its result; best effort.
            missing: ranks that had not come, as far as is known without asking.

        Raises:
            StoreError: a store call did not end by the deadline, now or earlier.
            SyncTimeoutError: the store is so slow that the job has not come to its end.
        """
        if self._dead is not None:
            raise StoreError(f"{self._dead}; attach() a new store to go on")
        ticket = _Ticket(job, later)
        end = deadline.end + _GRACE_SECONDS
        self._post(ticket, end)
        try:
            while not ticket.done.acquire(
                timeout=min(_SLICE_SECONDS, max(0.0, end - clock.monotonic()))
            ):
                if clock.monotonic() >= end:
                    raise self._overrun(deadline, what, missing())
        finally:
            ticket.cancelled = True
        if ticket.error is not None:
            raise ticket.error
        result: T = ticket.result
        return result

    def step(self, seconds: float = 0.0) -> None:
        """To be called by a job before a store call that may take so many seconds as it should.

        Raises:
            Cancelled: nobody waits for the result any more.
        """
        if self._ticket is not None and self._ticket.cancelled:
            raise Cancelled
        self._progress = clock.monotonic() + seconds

    @property
    def dead(self) -> bool:
        """Whether a store call overran its deadline, so that the thread may never come back."""
        return self._dead is not None

    def stop(self) -> None:
        """End the thread once it is idle; does not wait."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread = None

    # -- inside --------------------------------------------------------------------------------

    def _overrun(
        self, deadline: Deadline, what: str, missing: Sequence[int]
    ) -> StoreError | SyncTimeoutError:
        if clock.monotonic() - self._progress >= _CALL_SECONDS:
            self._dead = f"the store did not answer within {deadline.seconds:g} s ({what})"
            return StoreError(f"{self._dead}; is its host alive? attach() a store to go on")
        late = f"; {names_of(missing)} had not come" if missing else ""
        return SyncTimeoutError(
            f"the store answers too slowly for a timeout of {deadline.seconds:g} s ({what}{late}). "
            "The call can be repeated, with more time",
            missing=missing,
            last_seen=dict.fromkeys(missing),
        )

    def _post(self, ticket: _Ticket, end: float) -> None:
        simulation = clock.simulation.get()
        if simulation is not None:
            simulation.run_until(end, lambda: self._do(ticket))
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="synchist-store", daemon=True)
            self._thread.start()
        self._jobs.put(ticket)

    def _loop(self) -> None:
        while (ticket := self._jobs.get()) is not None:
            self._do(ticket)
            del ticket

    def _do(self, ticket: _Ticket) -> None:
        self._ticket = ticket
        try:
            self.step()
            ticket.result = ticket.job()
        except clock.OverrunError:
            return  # as a thread that is still in its call
        except BaseException as error:  # noqa: BLE001  (handed to the caller)
            ticket.error = error
        self._ticket = None
        ticket.done.release()
        if ticket.later is not None and ticket.error is None:
            with contextlib.suppress(BaseException):  # the thread must live for the next job
                ticket.later()
