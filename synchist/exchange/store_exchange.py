"""The exchange over a store."""

from __future__ import annotations

import logging
import os
import secrets
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from ..deadline import Deadline
from ..errors import SynchistError, UsageError
from ..stores.guard import GuardedStore
from ..stores.protocol import Store
from .connection import own_connection
from .keys import Keys
from .meeting import Meeting, Met
from .meeting_guest import Guest
from .meeting_host import Host
from .notes import pack
from .protocol import Judge
from .rounds import Rounds
from .tidying import Tidier
from .waiting import wait_until
from .worker import Cancelled, Worker

__all__ = ["StoreExchange"]

T = TypeVar("T")

_GIVE_UP_SECONDS: Final = 2.0
_TOKEN: Final = secrets.token_hex(8)

_log = logging.getLogger("synchist")


class StoreExchange:
    """Meets and exchanges bytes through a store. See `Exchange` for the methods.

    All store calls run in one daemon thread, on a connection of its own where the store can
    `clone()`. With one rank there is neither thread nor store call.

    Args:
        store: any store.
        rank: this rank.
        world_size: number of ranks.
        label: which history this is; the same on every rank.
        namespace: prefix of all keys.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        world_size: int,
        *,
        label: str = "",
        namespace: str = "synchist",
    ) -> None:
        self.rank = rank
        self.world_size = world_size
        self._given = store
        self._label = label
        self._keys = Keys(namespace)
        self._pid = os.getpid()
        self._worker = Worker()
        # A history that is dropped without close() must not leave its thread behind.
        weakref.finalize(self, self._worker.stop).atexit = False
        self._store: GuardedStore | None = None
        self._meeting: Meeting | None = None
        self._met: Met | None = None
        self._rounds: Rounds | None = None
        self._tidier = Tidier(self._keys, label)
        self._ended: str | None = None
        self._failed = False
        # A process has one token, but ranks that are threads of one process differ.
        self._token = f"{_TOKEN}-{rank}"

    @property
    def attempt(self) -> str | None:
        return None if self._met is None else self._met.attempt

    @property
    def round(self) -> int:
        return 1 if self._rounds is None else self._rounds.number

    def meet(self, facts: bytes, judge: Judge, deadline: Deadline) -> list[bytes]:
        if self.world_size == 1:
            return [facts]

        def job() -> Met:
            store = self._open()
            if self._meeting is None:
                self._meeting = self._new_meeting(store)
            met = self._meeting.meet(facts, judge, deadline)
            if self._rounds is None:
                self._rounds = Rounds(store, self._keys, self.rank, met, self._label, self._tidier)
                self._met = met
            return met

        return self._run(job, deadline, "meeting", missing=self._absent).facts

    def gather(self, payload: bytes, deadline: Deadline) -> list[bytes]:
        if self.world_size == 1:
            return [payload]
        rounds = self._rounds
        if rounds is None:
            raise UsageError("gather() before meet()")
        return self._run(
            lambda: rounds.gather(payload, deadline),
            deadline,
            f"round {rounds.number}",
            later=partial(rounds.tidy, rounds.number),
            missing=rounds.missing,
        )

    def advance(self) -> None:
        if self._rounds is not None:
            self._rounds.advance()

    def abort(self, reason: str) -> None:
        if self.world_size == 1 or self._ended is not None:
            return

        def job() -> None:
            store = self._open()
            if self._met is not None:
                key = self._keys.stop(self._met.attempt)
                if not store.there([key]):
                    store.set(key, pack("failed", self.rank, reason))
            else:
                (self._meeting or self._new_meeting(store)).give_up(reason)

        self._best_effort(job, _GIVE_UP_SECONDS, "aborting")
        self._ended = "aborted"
        self._failed = True

    def close(self, timeout: float) -> None:
        met = self._met
        if self.world_size == 1 or self._ended == "closed":
            return
        if met is not None and not self._worker.dead:
            if self._failed:
                timeout = min(timeout, _GIVE_UP_SECONDS)
            deadline = Deadline(timeout)
            self._best_effort(lambda: self._leave(met, deadline), timeout, "closing")
        self._ended = "closed"
        self.retire()

    def retire(self) -> None:
        """Send no more messages; the thread ends once it is idle. Does not block."""
        self._ended = self._ended or "replaced"
        self._worker.stop()

    def _leave(self, met: Met, deadline: Deadline) -> None:
        store, keys = self._open(), self._keys
        store.set(keys.left(met.attempt), b"")
        # Last, because rank 0 tidies up as soon as it has seen it from everybody.
        store.set(keys.bye(met.attempt, self.rank), b"")
        if self.rank != 0:
            return
        stop = keys.stop(met.attempt)
        byes = [keys.bye(met.attempt, rank) for rank in range(1, self.world_size)]
        stopped = False

        def ready() -> list[str]:
            return [] if stopped else [key for key in byes if not store.there([key])]

        def probe(_: float) -> None:
            nonlocal stopped
            stopped = store.there([stop])

        came = wait_until(store, ready, probe, deadline)
        late = [rank for rank, key in enumerate(byes, 1) if not store.there([key])]
        if late and not came:
            _log.warning(
                "rank 0 closes its history; rank %s had not closed it after %g s",
                ", ".join(map(str, late)), deadline.seconds,
            )  # fmt: skip
        if not late:
            self._tidier.tidy(store)
            store.delete(keys.last(self._label))
            for rank in range(self.world_size):
                store.delete(keys.where(rank))
            challenge = store.look(keys.challenge)
            if challenge is not None and met.challenge.encode() in challenge:
                store.delete(keys.challenge)  # else another history has met since

    # -- running -------------------------------------------------------------------------------

    def _run(self, job: Callable[[], T], deadline: Deadline, what: str, **more: Any) -> T:
        if os.getpid() != self._pid:
            raise UsageError(
                "this history was made in another process (before a fork): attach() a store that "
                "this process opened itself"
            )
        if self._ended is not None:
            raise UsageError(f"this exchange was {self._ended}")
        try:
            return self._worker.run(job, deadline, what, **more)
        except SynchistError:
            self._failed = True
            raise

    def _best_effort(self, job: Callable[[], Any], seconds: float, what: str) -> None:
        if os.getpid() != self._pid or self._worker.dead:
            return
        try:
            self._worker.run(job, Deadline(seconds), what)
        except (SynchistError, Cancelled) as error:
            _log.debug("%s: %s", what, error)

    def _new_meeting(self, store: GuardedStore) -> Meeting:
        if self.rank == 0:
            return Host(store, self._keys, self.world_size, self._label, self._token, self._tidier)
        return Guest(store, self._keys, self.rank, self.world_size, self._label, self._token)

    def _absent(self) -> Sequence[int]:
        return [] if self._meeting is None else self._meeting.awaited()

    def _open(self) -> GuardedStore:
        """The store, opened by the thread that uses it."""
        if self._store is None:
            self._store = GuardedStore(own_connection(self._given), self._worker.step)
        return self._store
