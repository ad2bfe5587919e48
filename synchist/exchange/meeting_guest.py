"""The side of all other ranks in a meeting: they answer the newest challenge."""

from __future__ import annotations

import itertools
from typing import Any, Final

from ..deadline import Deadline
from ..errors import CorruptDataError, SyncTimeoutError
from ..stores.guard import GuardedStore
from .keys import Keys
from .meeting import (
    FAILED,
    OK,
    REFUSED,
    Meeting,
    Met,
    answers_in,
    claimed,
    do_not_fit,
    met_of,
    nobody_came,
    over,
)
from .notes import names_of, pack, unpack
from .protocol import Judge
from .waiting import Reminder, wait_until

__all__ = ["Guest"]

_LOOK_EVERY: Final = 2


class Guest(Meeting):
    """A rank that is not 0.

    Attributes:
        challenge: the challenge that it has answered last.
    """

    def __init__(
        self, store: GuardedStore, keys: Keys, rank: int, world_size: int, label: str, token: str
    ) -> None:
        self.challenge: str | None = None
        self._spent: set[str] = set()  # challenges of meetings that are over
        self._elsewhere: str | None = None  # the other history that rank 0 met in last
        super().__init__(store, keys, rank, world_size, label, token)

    def _start_afresh(self) -> None:
        super()._start_afresh()
        if self.challenge is not None:
            self._spent.add(self.challenge)
        self.challenge = None
        self._posted: bytes | None = None
        self._heard: str | None = None  # what is said under a challenge, but not to this rank

    def awaited(self) -> list[int]:
        return [0]

    def give_up(self, reason: str) -> None:
        challenge = self._read_challenge()
        if challenge is not None:
            self._stop(challenge[0], FAILED, reason)

    def _try(self, facts: bytes, _: Judge, deadline: Deadline) -> Met:
        keys, store = self._keys, self._store
        mine = pack(self.nonce, self._token, facts, self._label)
        found: list[Any] = []
        turn = itertools.count()

        def ready() -> list[str]:
            # Now and then: what was found may be an old challenge, and rank 0 still on its way.
            if next(turn) % _LOOK_EVERY == 0 or self.challenge is None:
                self._look_for_challenge(mine)
            if self.challenge is None:
                return [keys.challenge]
            key = keys.ack(self.challenge)
            data = store.look(key)
            if data is None:
                return [key]
            verdict, text, rank, fields = unpack(data, key, str, str, int, list)
            answers = answers_in(fields, key)
            if self.nonce in [answer.nonce for answer in answers]:
                found[:] = verdict, text, rank, answers, data
                return []
            if verdict == OK:  # left by an earlier run
                self._spent.add(self.challenge)
                self.challenge = None
            else:
                self._heard = text
            return [key]

        reminder = Reminder(self._rank, "to come to the meeting", lambda: names_of(self._absent()))

        def probe(waited: float) -> None:
            reminder.tick(waited)
            stopped = self._read_stop()
            if stopped is not None:
                self._start_afresh()
                raise over(*stopped)
            if self.challenge is not None:
                self._check_answer(keys.answer(self.challenge, self._rank), mine)

        if self.challenge is not None and self._posted != mine:
            self._post(mine)
        if not wait_until(store, ready, probe, deadline):
            raise self._incomplete(deadline)
        verdict, text, rank, answers, data = found
        challenge = self.challenge or ""
        if verdict != OK:
            self._start_afresh()
            raise over(verdict, rank, text)
        if len(answers) != self._world:
            raise do_not_fit(f"rank 0 met {len(answers)} ranks, this rank expects {self._world}", 0)
        return met_of(challenge, text, answers, data)

    def _read_challenge(self) -> tuple[str, str] | None:
        key = self._keys.challenge
        data = self._store.look(key)
        if data is None:
            return None
        nonce, label = unpack(data, key, str, str)
        return nonce, label

    def _look_for_challenge(self, mine: bytes) -> None:
        try:
            found = self._read_challenge()
        except CorruptDataError as error:  # rank 0 will overwrite it
            self._heard = str(error)
            return
        if found is None:
            return
        nonce, label = found
        self._elsewhere = label if label != self._label else None
        if nonce not in self._spent and nonce != self.challenge:
            if self.challenge is not None:  # nobody will read what was said to an older one
                self._store.delete(self._keys.answer(self.challenge, self._rank))
            self.challenge = nonce
            self._heard = None
            self._post(mine)

    def _post(self, mine: bytes) -> None:
        if self.challenge is not None:
            self._store.set(self._keys.answer(self.challenge, self._rank), mine)
            self._posted = mine

    def _check_answer(self, key: str, mine: bytes) -> None:
        """Raise when another process overwrote this rank's answer."""
        theirs = self._store.look(key)
        if theirs is None:  # an earlier history of this rank tidied up behind itself
            self._post(mine)
            return
        if theirs == mine:
            return
        nonce = unpack(theirs, key, str, str, bytes, str)[0]
        if nonce == self.nonce:
            return
        reason = claimed(self._rank)
        self._stop(nonce, REFUSED, reason)
        if self.challenge is not None:
            self._stop(self.challenge, REFUSED, reason)
        self._start_afresh()
        raise do_not_fit(reason, self._rank)

    def _incomplete(self, deadline: Deadline) -> SyncTimeoutError:
        challenge = self.challenge
        if self._heard is not None:
            more = f"; what it left in this store says: {self._heard}"
            return nobody_came([0], deadline, more)
        if self._elsewhere is not None:
            more = f"; it last met in another history, {self._elsewhere!r}"
            return nobody_came([0], deadline, more)
        if challenge is None:
            more = "; the store only holds what an earlier run left" if self._spent else ""
            return nobody_came([0], deadline, more)
        return nobody_came(self._absent(), deadline)

    def _absent(self) -> list[int]:
        """Who keeps the meeting from going on, as far as this rank can see."""
        challenge = self.challenge
        if challenge is None or self._elsewhere is not None:
            return [0]
        others = [rank for rank in range(1, self._world) if rank != self._rank]
        keys = self._keys
        absent = [r for r in others if not self._store.there([keys.answer(challenge, r)])]
        return absent or [0]
