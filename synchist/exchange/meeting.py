"""How ranks meet, so that nothing an earlier run left in the store is ever believed.

Rank 0 posts a challenge with a fresh nonce; every other rank answers under that challenge with a
nonce of its own; rank 0 acknowledges exactly those nonces. A rank believes an acknowledgement only
if its own nonce is in it, so nothing counts that does not depend on fresh nonces from both sides.

A rank keeps its nonce, and rank 0 its challenge and the answers it has seen, until the meeting has
ended: with new ones at every try, ranks with short timeouts would miss each other for ever. While
waiting, each rank re-reads what it posted: overwritten means that another process claims its rank.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
from typing import Any, Final

import attrs

from ..deadline import Deadline
from ..errors import CorruptDataError, DivergenceError, RankFailedError, SyncTimeoutError
from ..stores.guard import GuardedStore
from .keys import Keys
from .notes import names_of, pack, unpack
from .protocol import Judge
from .tidying import Tidier
from .waiting import Reminder, wait_until
from .worker import Ticket

__all__ = ["Meeting", "Met"]

_OK = "ok"
_REFUSED = "refused"
_FAILED = "failed"

_LINGER_SECONDS: Final = 1.0
_LOOK_EVERY: Final = 4


@attrs.frozen
class Met:
    """A meeting that succeeded.

    Attributes:
        challenge: rank 0's nonce.
        attempt: identity of the meeting, derived from everybody's nonces.
        facts: what every rank said of itself.
        tokens: for every rank, the identity of its process.
    """

    challenge: str
    attempt: str
    facts: list[bytes]
    tokens: list[str]


@attrs.frozen
class Answer:
    """A rank's answer to a challenge: its nonce, its process, what it says of itself."""

    nonce: str
    token: str
    facts: bytes


class Meeting:
    """One rank's side of one meeting, over as many tries as it takes."""

    def __init__(
        self,
        store: GuardedStore,
        keys: Keys,
        rank: int,
        world_size: int,
        *,
        label: str,
        token: str,
        tidier: Tidier,
    ) -> None:
        self._store = store
        self._keys = keys
        self._rank = rank
        self._world = world_size
        self._label = label
        self._token = token
        self._tidier = tidier
        self._spent: set[str] = set()
        self._elsewhere: str | None = None
        self._met: Met | None = None
        self._fresh()

    def _fresh(self) -> None:
        self.nonce = secrets.token_hex(16)
        self.challenge: str | None = self.nonce if self._rank == 0 else None
        self._answers: dict[int, Answer] = {}
        self._posted: bytes | None = None
        self._heard: str | None = None

    def meet(self, facts: bytes, judge: Judge, deadline: Deadline, ticket: Ticket) -> Met:
        """Meet the others; may be called again after a timeout."""
        if self._met is None:
            side = self._as_host if self._rank == 0 else self._as_guest
            self._met = side(facts, judge, deadline, ticket)
        return self._met

    def give_up(self, reason: str, ticket: Ticket) -> None:
        """Tell whoever is in the meeting that this rank will not come. Best effort."""
        if self._rank == 0:
            self._post_challenge()
            self._refuse(_FAILED, reason, 0, ticket)
        elif self._store.there([self._keys.challenge]):
            challenge, _ = self._read_challenge()
            self._stop(challenge, _FAILED, reason)

    # -- rank 0 --------------------------------------------------------------------------------

    def _post_challenge(self) -> bytes:
        mine = pack(self.nonce, self._label)
        self._store.set(self._keys.challenge, mine)
        return mine

    def _as_host(self, facts: bytes, judge: Judge, deadline: Deadline, ticket: Ticket) -> Met:
        keys, store = self._keys, self._store
        mine = self._post_challenge()
        self._tidier.load(store)  # while the others are still on their way
        ranks = range(1, self._world)

        def ready() -> list[str]:
            for rank in self._read_answers():
                objection = judge(facts, self._answers[rank].facts, rank)
                if objection is not None:
                    self._refuse(_REFUSED, objection, rank, ticket)
                    raise _do_not_fit(objection, rank)
            return [keys.answer(self.nonce, rank) for rank in ranks if rank not in self._answers]

        def late() -> str | None:
            missing = [rank for rank in ranks if rank not in self._answers]
            return names_of(missing) if missing else None

        reminder = Reminder(0, "to come to the meeting", late)

        def probe(waited: float) -> None:
            reminder.tick(waited)
            stopped = self._read_stop()
            if stopped is not None:
                why, rank, reason = stopped
                self._refuse(why, reason, rank, ticket)
                raise _over(why, rank, reason)
            if store.there([keys.challenge]) and (theirs := store.get(keys.challenge)) != mine:
                reason = _claimed(0)
                self._stop(unpack(theirs, keys.challenge, str, str)[0], _REFUSED, reason)
                self._refuse(_REFUSED, reason, 0, ticket)
                raise _do_not_fit(reason, 0)

        if not wait_until(store, ready, probe, deadline, ticket):
            raise _nobody_came([rank for rank in ranks if rank not in self._answers], deadline)
        answers = [Answer(self.nonce, self._token, facts), *(self._answers[r] for r in ranks)]
        sha = hashlib.sha256()
        for answer in answers:
            sha.update(pack(answer.nonce, answer.token, answer.facts))
        attempt = sha.hexdigest()[:32]
        # Only now: a rank that was slow may have been reading the last attempt until it answered.
        self._tidier.tidy(store)
        self._tidier.note(store, self.nonce, attempt, self._world, 0)
        ack = pack(_OK, attempt, 0, [[a.nonce, a.token, a.facts] for a in answers])
        store.set(keys.ack(self.nonce), ack)
        return _met(self.nonce, attempt, answers)

    def _read_answers(self) -> list[int]:
        """Read answers that have come since, and return their ranks."""
        new = []
        for rank in range(1, self._world):
            key = self._keys.answer(self.nonce, rank)
            if rank not in self._answers and self._store.there([key]):
                fields = unpack(self._store.get(key), key, str, str, bytes)
                self._answers[rank] = Answer(*fields)
                new.append(rank)
        return new

    def _refuse(self, why: str, reason: str, rank: int, ticket: Ticket) -> None:
        """Tell those who have answered, and for a moment those who still come.

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
        wait_until(self._store, ready, lambda _: None, Deadline(_LINGER_SECONDS), ticket)
        self._spent.add(self.nonce)
        self._fresh()

    # -- the other ranks -----------------------------------------------------------------------

    def _as_guest(self, facts: bytes, _: Judge, deadline: Deadline, ticket: Ticket) -> Met:
        keys, store = self._keys, self._store
        mine = pack(self.nonce, self._token, facts)
        found: list[Any] = []
        turn = itertools.count()

        def ready() -> list[str]:
            # Now and then: what was found may be an old challenge, and rank 0 still on its way.
            if next(turn) % _LOOK_EVERY == 0 or self.challenge is None:
                self._look_for_challenge(mine)
            if self.challenge is None:
                return [keys.challenge]
            key = keys.ack(self.challenge)
            if not store.there([key]):
                return [key]
            verdict, text, rank, answers = unpack(store.get(key), key, str, str, int, list)
            if self.nonce in [answer[0] for answer in answers]:
                found[:] = verdict, text, rank, answers
                return []
            if verdict == _OK:  # left by an earlier run
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
                self._end()
                raise _over(*stopped)
            if self.challenge is not None:
                self._check_answer(keys.answer(self.challenge, self._rank), mine)

        if self.challenge is not None and self._posted != mine:
            self._post(mine)
        if not wait_until(store, ready, probe, deadline, ticket):
            raise self._incomplete(deadline)
        verdict, text, rank, answers = found
        challenge = self.challenge or ""
        if verdict != _OK:
            self._end()
            raise _over(verdict, rank, text)
        if len(answers) != self._world:
            raise _do_not_fit(
                f"rank 0 met {len(answers)} ranks, this rank expects {self._world}", 0
            )
        return _met(challenge, text, [Answer(*answer) for answer in answers])

    def _end(self) -> None:
        if self.challenge is not None:
            self._spent.add(self.challenge)
        self._fresh()

    def _read_challenge(self) -> tuple[str, str]:
        key = self._keys.challenge
        nonce, label = unpack(self._store.get(key), key, str, str)
        return nonce, label

    def _look_for_challenge(self, mine: bytes) -> None:
        if not self._store.there([self._keys.challenge]):
            return
        try:
            nonce, label = self._read_challenge()
        except CorruptDataError as error:  # rank 0 will overwrite it
            self._heard = str(error)
            return
        self._elsewhere = label if label != self._label else None
        if nonce not in self._spent and nonce != self.challenge:
            self.challenge = nonce
            self._heard = None
            self._post(mine)

    def _post(self, mine: bytes) -> None:
        if self.challenge is not None:
            self._store.set(self._keys.answer(self.challenge, self._rank), mine)
            self._posted = mine

    def _check_answer(self, key: str, mine: bytes) -> None:
        """Raise when another process overwrote this rank's answer."""
        if not self._store.there([key]) or (theirs := self._store.get(key)) == mine:
            return
        nonce = unpack(theirs, key, str, str, bytes)[0]
        if nonce == self.nonce:
            return
        reason = _claimed(self._rank)
        self._stop(nonce, _REFUSED, reason)
        if self.challenge is not None:
            self._stop(self.challenge, _REFUSED, reason)
        self._end()
        raise _do_not_fit(reason, self._rank)

    def _incomplete(self, deadline: Deadline) -> SyncTimeoutError:
        challenge = self.challenge
        if self._heard is not None:
            more = f"; what it left in this store says: {self._heard}"
            return _nobody_came([0], deadline, more)
        if self._elsewhere is not None:
            more = f"; it last met in another history, {self._elsewhere!r}"
            return _nobody_came([0], deadline, more)
        if challenge is None:
            more = "; the store only holds what an earlier run left" if self._spent else ""
            return _nobody_came([0], deadline, more)
        return _nobody_came(self._absent(), deadline)

    def _absent(self) -> list[int]:
        """Who keeps the meeting from going on, as far as this rank can see."""
        challenge = self.challenge
        if challenge is None or self._elsewhere is not None:
            return [0]
        others = [rank for rank in range(1, self._world) if rank != self._rank]
        keys = self._keys
        absent = [r for r in others if not self._store.there([keys.answer(challenge, r)])]
        return absent or [0]

    # -- both ----------------------------------------------------------------------------------

    def _stop(self, nonce: str, why: str, reason: str) -> None:
        """Tell the owner of that nonce that this meeting is over. Only the owner believes it."""
        self._store.set(self._keys.stop(nonce), pack(why, self._rank, reason))

    def _read_stop(self) -> list[Any] | None:
        key = self._keys.stop(self.nonce)
        if not self._store.there([key]):
            return None
        found = unpack(self._store.get(key), key, str, int, str)
        self._store.delete(key)
        return found


def _met(challenge: str, attempt: str, answers: list[Answer]) -> Met:
    facts = [answer.facts for answer in answers]
    return Met(challenge, attempt, facts, [answer.token for answer in answers])


def _claimed(rank: int) -> str:
    return f"another process claims rank {rank} too"


def _over(why: str, rank: int, reason: str) -> Exception:
    if why != _FAILED:
        return _do_not_fit(reason, rank)
    return RankFailedError(
        f"rank {rank} gave up before all ranks had met: {reason}", rank=rank, reason=reason
    )


def _nobody_came(missing: list[int], deadline: Deadline, more: str = "") -> SyncTimeoutError:
    return SyncTimeoutError(
        f"{names_of(missing)} did not come to the meeting within {deadline.seconds:g} s{more}: are "
        "all ranks running, and were they started with this store? The call can be repeated",
        missing=missing,
        last_seen=dict.fromkeys(missing),
    )


def _do_not_fit(reason: str, rank: int | None) -> DivergenceError:
    return DivergenceError(f"the ranks do not fit together: {reason}", rank=rank, reason=reason)
