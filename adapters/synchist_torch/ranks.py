"""The launcher's view of its processes: watch them, say which failed first, end them."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.context import SpawnProcess

from synchist import RankFailedError, SyncTimeoutError
from synchist_torch.messages import FAILED, RETURNED, STARTED, Failure

__all__ = ["Rank", "end", "watch"]

_SLICE = 0.5  # seconds between looks at exit codes
_GRACE = 0.5  # seconds in which another failure may turn out to be the first
_BLAME_GRACE = 3.0  # the same, while all failures are said to be another rank's
_TERMINATE = 2.0  # seconds between asking a process to end and killing it


class Rank:
    """One process, and what is known of it.

    Attributes:
        rank: its rank.
        returned: the pickled return value, once there.
        failure: why it failed, once known.
        ended: whether the process is gone.
    """

    def __init__(
        self, rank: int, process: SpawnProcess, pipe: connection.Connection[bytes, bytes]
    ) -> None:
        self.rank = rank
        self.process = process
        self.returned: bytes | None = None
        self.failure: Failure | None = None
        self.ended = False
        self._started = False
        self._pipe: connection.Connection[bytes, bytes] | None = pipe

    def sources(self) -> list[connection.Connection[bytes, bytes] | int]:
        """What becomes ready when there is news."""
        pipes = [] if self._pipe is None else [self._pipe]
        return [*pipes, *([] if self.ended else [self.process.sentinel])]

    def look(self, packed: bytes) -> None:
        """Take in all news; blocks only while the rank is in the middle of a message."""
        ended = self.process.exitcode is not None  # first, so that its last message is in the pipe
        while self._pipe is not None and self._receive(packed):
            pass
        if ended and not self.ended:
            self.ended = True
            self.close()
            if self.failure is None and (self.returned is None or self.process.exitcode):
                self.failure = Failure(self._death(), time.time())
            if self.failure is not None:
                self.signal_group("SIGKILL")  # what it had started; nobody else will

    def _receive(self, packed: bytes) -> bool:
        """Take in one message; False when there is none."""
        assert self._pipe is not None
        try:
            if not self._pipe.poll():
                return False
            message = self._pipe.recv_bytes()
            kind, content = message[:1], message[1:]
            if kind == STARTED:
                self._started = True
                self._pipe.send_bytes(packed)
            elif kind == RETURNED:
                self.returned = content
            elif kind == FAILED:
                self.failure = Failure(*pickle.loads(content))  # noqa: S301  (our own child)
        except (EOFError, OSError):  # it died; its exit code will tell
            self.close()
        return True

    def close(self) -> None:
        """Listen no longer."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def _death(self) -> str:
        code = self.process.exitcode
        assert code is not None
        if code < 0:
            try:
                how = f"was killed by {signal.Signals(-code).name}"
            except ValueError:
                how = f"was killed by signal {-code}"
        else:
            how = f"left with exit code {code}"
        if not self._started and code >= 0:
            return (
                f"{how} before it could call the function; its own message is in its output. (A "
                'script that calls launch() outside of `if __name__ == "__main__":` does this.)'
            )
        return f"{how} {'after' if self.returned is not None else 'before'} it had returned"

    def signal_group(self, name: str) -> None:
        """Send a signal to the process and to all that it started."""
        if sys.platform == "win32":
            self.process.kill()
            return
        assert self.process.pid is not None
        number = getattr(signal, name)
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            # It does not lead a group yet, or nothing of it is left.
            with suppress(ProcessLookupError):
                if self.process.exitcode is None:
                    os.kill(self.process.pid, number)


def watch(ranks: Sequence[Rank], packed: bytes, timeout: float | None) -> None:
    """Wait until every rank has returned and is gone.

    Raises:
        RankFailedError: one failed; the others may still be running.
        SyncTimeoutError: `timeout` seconds passed.
    """
    end_at = float("inf") if timeout is None else time.monotonic() + timeout
    while running := [rank for rank in ranks if not rank.ended]:
        left = end_at - time.monotonic()
        if left <= 0:
            late = [rank.rank for rank in running]
            raise SyncTimeoutError(
                f"after {timeout:g} s launch() was still waiting for rank "
                f"{', '.join(map(str, late))}; all ranks have been ended",
                missing=late,
            )
        _look(running, packed, left)
        if any(rank.failure for rank in ranks):
            break
    if any(rank.failure for rank in ranks):
        _wait_for_an_earlier_failure(ranks, packed)
        raise _error(ranks)


def _look(ranks: Sequence[Rank], packed: bytes, seconds: float) -> None:
    sources = [source for rank in ranks for source in rank.sources()]
    connection.wait(sources, timeout=min(seconds, _SLICE))
    for rank in ranks:
        rank.look(packed)


def _wait_for_an_earlier_failure(ranks: Sequence[Rank], packed: bytes) -> None:
    """A peer of a rank that dies may be quicker to say so than the operating system."""
    began = time.monotonic()
    while running := [rank for rank in ranks if not rank.ended and rank.failure is None]:
        blaming = all(rank.failure.blames is not None for rank in ranks if rank.failure)
        left = began + (_BLAME_GRACE if blaming else _GRACE) - time.monotonic()
        if left <= 0:
            break
        _look(running, packed, left)


def _error(ranks: Sequence[Rank]) -> RankFailedError:
    failed = [(rank.rank, rank.failure) for rank in ranks if rank.failure is not None]
    # Dying without a word is no consequence of another's failure; an error may be.
    failed.sort(
        key=lambda item: (item[1].blames is not None, item[1].traceback != "", item[1].when)
    )
    rank, first = failed[0]
    message = _sentence(rank, first)
    if first.traceback:
        message += f"\n\n{first.traceback}"
    for other, failure in failed[1:]:
        message += f"\n\nthen {_sentence(other, failure)}"
    error = RankFailedError(message, rank=rank, reason=first.reason)
    error.__cause__ = first.exception
    return error


def _sentence(rank: int, failure: Failure) -> str:
    return f"rank {rank} {'failed: ' if failure.traceback else ''}{failure.reason}"


def end(ranks: Sequence[Rank]) -> None:
    """End every process that still runs, and wait until it is gone."""
    try:
        running = [rank for rank in ranks if rank.process.exitcode is None]
        for rank in running:
            rank.signal_group("SIGTERM")
        end_at = time.monotonic() + _TERMINATE
        for rank in running:
            rank.process.join(max(0.0, end_at - time.monotonic()))
    finally:  # a second Ctrl-C too leaves nothing behind
        for rank in ranks:
            if rank.process.exitcode is None:
                rank.signal_group("SIGKILL")
        for rank in ranks:
            rank.process.join()
            rank.close()
