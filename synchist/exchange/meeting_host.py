"""Rank 0's side of a meeting: it challenges, judges the answers, and acknowledges them."""

from __future__ import annotations

import hashlib
from typing import Final

from ..deadline import Deadline
from ..stores.guard import GuardedStore
from .keys import Keys
from .meeting import (
    FAILED,
    OK,
    REFUSED,
    Answer,
    Meeting,
    Met,
    claimed,
    do_not_fit,
    met_of,
    nobody_came,
    over,
)
from .notes import names_of, pack, unpack
from .protocol import Judge
from .tidying import Tidier
from .waiting import Reminder, wait_until

__all__ = ["Host"]

_LINGER_SECONDS: Final = 1.0


class Host(Meeting):
    """Rank 0. Keeps its challenge, and the answers it has seen, over retries."""

    def __init__(
        self,
        store: GuardedStore,
        keys: Keys,
        world_size: int,
        label: str,
        token: str,
        tidier: Tidier,
    ) -> None:
        super().__init__(store, keys, 0, world_size, label, token)
        self._tidier = tidier

    def _start_afresh(self) -> None:
        super()._start_afresh()
        self._answers: dict[int, Answer] = {}

    def awaited(self) -> list[int]:
        return [rank for rank in range(1, self._world) if rank not in self._answers]

    def give_up(self, reason: str) -> None:
        self._post_challenge()
        self._refuse(FAILED, reason, 0, _LINGER_SECONDS)

    def _post_challenge(self) -> bytes:
        mine = pack(self.nonce, self._label)
        self._store.set(self._keys.challenge, mine)
        return mine

    def _try(self, facts: bytes, judge: Judge, deadline: Deadline) -> Met:
        keys, store = self._keys, self._store
        mine = self._post_challenge()
        self._tidier.load(store)  # while the others are still on their way
        ranks = range(1, self._world)

        def ready() -> list[str]:
            for rank in self._read_answers():
                objection = judge(facts, self._answers[rank].facts, rank)
                if objection is not None:
                    self._refuse(REFUSED, objection, rank, deadline.left())
                    raise do_not_fit(objection, rank)
            return [keys.answer(self.nonce, rank) for rank in self.awaited()]

        def late() -> str | None:
            missing = self.awaited()
            return names_of(missing) if missing else None

        reminder = Reminder(0, "to come to the meeting", late)

        def probe(waited: float) -> None:
            reminder.tick(waited)
            stopped = self._read_stop()
            if stopped is not None:
                why, rank, reason = stopped
                self._refuse(why, reason, rank, deadline.left())
                raise over(why, rank, reason)
            theirs = store.look(keys.challenge)
            if theirs is not None and theirs != mine:
                reason = claimed(0)
                self._stop(unpack(theirs, keys.challenge, str, str)[0], REFUSED, reason)
                self._refuse(REFUSED, reason, 0, deadline.left())
                raise do_not_fit(reason, 0)

        if not wait_until(store, ready, probe, deadline):
            raise nobody_came(self.awaited(), deadline)
        answers = [Answer(self.nonce, self._token, facts), *(self._answers[r] for r in ranks)]
        sha = hashlib.sha256()
        for answer in answers:
            sha.update(pack(answer.nonce, answer.token, answer.facts))
        attempt = sha.hexdigest()[:32]
        # Only now: a rank that was slow may have been reading the last attempt until it answered.
        # And this attempt is known already where an earlier try left word of it, and then failed.
        self._tidier.tidy(store, keep=self.nonce)
        self._tidier.note(store, self.nonce, attempt, self._world, 0)
        ack = pack(OK, attempt, 0, [[a.nonce, a.token, a.facts] for a in answers])
        store.set(keys.ack(self.nonce), ack)
        return met_of(self.nonce, attempt, answers, ack)

    def _read_answers(self) -> list[int]:
        """Read answers that have come since, and return their ranks."""
        new = []
        for rank in range(1, self._world):
            key = self._keys.answer(self.nonce, rank)
            if rank in self._answers:
                continue
            data = self._store.look(key)
            if data is not None:
                self._answers[rank] = Answer(*unpack(data, key, str, str, bytes, str)[:3])
                new.append(rank)
        return new

    def _refuse(self, why: str, reason: str, rank: int, seconds: float) -> None:
        """Tell those who have answered, and for a moment those who still come within `seconds`.

        A refusal counts only for the nonces in it, like everything in a meeting: the next run may
        find it, and must not take it for its own.
        """
        self._tidier.note(self._store, self.nonce, "", self._world, 0)

        def ready() -> list[str]:
            told = len(self._answers)
            self._read_answers()
            if told != len(self._answers) or told == 0:
                answers = [[a.nonce, a.token, b""] for a in self._answers.values()]
                self._store.set(self._keys.ack(self.nonce), pack(why, reason, rank, answers))
            keys = [self._keys.answer(self.nonce, r) for r in range(1, self._world)]
            return keys[len(self._answers) :]

        told = [[a.nonce, a.token, b""] for a in self._answers.values()]
        self._store.set(self._keys.ack(self.nonce), pack(why, reason, rank, told))
        wait_until(self._store, ready, lambda _: None, Deadline(min(_LINGER_SECONDS, seconds)))
        self._start_afresh()
