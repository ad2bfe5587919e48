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
import secrets
from typing import Any

import attrs

from ..deadline import Deadline
from ..errors import DivergenceError, RankFailedError, SyncTimeoutError
from ..stores.guard import GuardedStore
from .keys import Keys
from .notes import pack, unpack
from .protocol import Judge
from .tidying import Tidier
from .waiting import wait_until
from .worker import Ticket

__all__ = ["Meeting", "Met"]

_OK = "ok"
_REFUSED = "refused"
_FAILED = "failed"


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
        self._answers: dict[int, list[Any]] = {}
        self._raw: dict[int, bytes] = {}
        self._posted: bytes | None = None

    def meet(self, facts: bytes, judge: Judge, deadline: Deadline, ticket: Ticket) -> Met:
        """Meet the others; may be called again after a timeout."""
        if self._met is None:
            side = self._as_host if self._rank == 0 else self._as_guest
            self._met = side(facts, judge, deadline, ticket)
        return self._met

    def give_up(self, reason: str) -> None:
        """Tell whoever is in the meeting that this rank will not come. Best effort."""
        challenge = self.challenge
        if self._rank == 0:  # so that those who come later find it
            self._store.set(self._keys.challenge, pack(self.nonce, self._label, self._token))
        elif challenge is None and self._store.there([self._keys.challenge]):
            data = self._store.get(self._keys.challenge)
            challenge = unpack(data, self._keys.challenge, str, str, str)[0]
        if challenge is not None:
            self._store.set(self._keys.stop(challenge), pack(_FAILED, self._rank, reason))

    # -- rank 0 --------------------------------------------------------------------------------

    def _as_host(self, facts: bytes, judge: Judge, deadline: Deadline, ticket: Ticket) -> Met:
        keys, store = self._keys, self._store
        mine = pack(self.nonce, self._label, self._token)
        store.set(keys.challenge, mine)

        def ready() -> list[str]:
            for rank in range(1, self._world):
                key = keys.answer(self.nonce, rank)
                if rank not in self._answers and store.there([key]):
                    raw = store.get(key)
                    self._answers[rank] = unpack(raw, key, str, str, bytes)
                    self._raw[rank] = raw
                    objection = judge(facts, self._answers[rank][2], rank)
                    if objection is not None:
                        self._refuse(rank, objection)
            return [
                keys.answer(self.nonce, r) for r in range(1, self._world) if r not in self._answers
            ]

        def probe(_: float) -> None:
            self._check_stop(self.nonce)
            self._check_own(keys.challenge, mine, self.nonce)

        if not wait_until(store, ready, probe, deadline, ticket):
            missing = [rank for rank in range(1, self._world) if rank not in self._answers]
            raise _nobody_came(missing, deadline)
        nonces = [self.nonce] + [self._answers[r][0] for r in range(1, self._world)]
        tokens = [self._token] + [self._answers[r][1] for r in range(1, self._world)]
        everyone = [facts] + [self._answers[r][2] for r in range(1, self._world)]
        sha = hashlib.sha256(mine)
        for rank in range(1, self._world):
            sha.update(self._raw[rank])
        attempt = sha.hexdigest()[:32]
        # Only now: a rank that was slow may have been reading the last attempt until it answered.
        self._tidier.tidy(store)
        self._tidier.note(store, self.nonce, attempt, self._world, 0)
        store.set(keys.ack(self.nonce), pack(_OK, attempt, nonces, tokens, everyone))
        return Met(self.nonce, attempt, everyone, tokens)

    def _refuse(self, rank: int, objection: str) -> None:
        self._store.set(self._keys.ack(self.nonce), pack(_REFUSED, objection, [rank], [], []))
        self._tidier.note(self._store, self.nonce, "", self._world, 0)
        self._end_refused()
        raise _do_not_fit(objection, rank)

    def _end_refused(self) -> None:
        if self.challenge is not None:
            self._spent.add(self.challenge)
        self._fresh()

    # -- the other ranks -----------------------------------------------------------------------

    def _as_guest(self, facts: bytes, _: Judge, deadline: Deadline, ticket: Ticket) -> Met:
        keys, store = self._keys, self._store
        mine = pack(self.nonce, self._token, facts)
        found: list[Any] = []
        stale = False

        def ready() -> list[str]:
            nonlocal stale
            if self.challenge is None or stale:
                self._look_for_challenge(mine)
                stale = False
            if self.challenge is None:
                return [keys.challenge]
            key = keys.ack(self.challenge)
            if not store.there([key]):
                return [key]
            fields = unpack(store.get(key), key, str, str, list, list, list)
            if fields[0] != _REFUSED and self.nonce not in fields[2]:
                self._spent.add(self.challenge)  # left by an earlier run
                self.challenge = None
                return [keys.challenge]
            found[:] = fields
            return []

        def probe(_: float) -> None:
            nonlocal stale
            stale = True
            if self.challenge is not None:
                self._check_stop(self.challenge)
                self._check_own(keys.answer(self.challenge, self._rank), mine, self.challenge)

        if self.challenge is not None and self._posted != mine:
            self._post(mine)
        if not wait_until(store, ready, probe, deadline, ticket):
            raise self._incomplete(deadline)
        verdict, text, nonces, tokens, everyone = found
        challenge = self.challenge or ""
        if verdict == _REFUSED:
            self._end_refused()
            raise _do_not_fit(text, nonces[0] if nonces else None)
        if not (len(nonces) == len(tokens) == len(everyone) == self._world):
            raise _do_not_fit(
                f"rank 0 met {len(everyone)} ranks, this rank expects {self._world}", 0
            )
        return Met(challenge, text, everyone, tokens)

    def _incomplete(self, deadline: Deadline) -> SyncTimeoutError:
        challenge = self.challenge
        missing = [0]
        if challenge is not None and self._elsewhere is None:
            others = [rank for rank in range(1, self._world) if rank != self._rank]
            absent = [
                rank
                for rank in others
                if not self._store.there([self._keys.answer(challenge, rank)])
            ]
            missing = absent or missing
        elif self._elsewhere is not None:
            more = f"; it last met in another history, {self._elsewhere!r}"
            return _nobody_came(missing, deadline, more)
        elif self._spent:
            return _nobody_came(
                missing, deadline, "; the store only holds what an earlier run left"
            )
        return _nobody_came(missing, deadline)

    def _look_for_challenge(self, mine: bytes) -> None:
        key = self._keys.challenge
        if not self._store.there([key]):
            return
        nonce, label, _ = unpack(self._store.get(key), key, str, str, str)
        self._elsewhere = label if label != self._label else None
        if nonce not in self._spent and nonce != self.challenge:
            self.challenge = nonce
            self._post(mine)

    def _post(self, mine: bytes) -> None:
        assert self.challenge is not None
        self._store.set(self._keys.answer(self.challenge, self._rank), mine)
        self._posted = mine

    # -- both ----------------------------------------------------------------------------------

    def _check_stop(self, challenge: str) -> None:
        key = self._keys.stop(challenge)
        if self._store.there([key]):
            why, rank, reason = unpack(self._store.get(key), key, str, int, str)
            self._end_refused()
            if why == _FAILED:
                raise RankFailedError(
                    f"rank {rank} gave up before all ranks had met: {reason}",
                    rank=rank,
                    reason=reason,
                )
            raise _do_not_fit(reason, rank)

    def _check_own(self, key: str, mine: bytes, challenge: str) -> None:
        """Raise when another process overwrote what this rank posted."""
        if not self._store.there([key]):
            return
        theirs = self._store.get(key)
        if theirs == mine:
            return
        nonce = unpack(theirs, key, str, str, (str, bytes))[0]
        if self._rank != 0 and nonce == self.nonce:
            return
        reason = f"another process claims rank {self._rank} too"
        stop = pack(_REFUSED, self._rank, reason)
        self._store.set(self._keys.stop(challenge), stop)
        if self._rank == 0:  # the other one waits under a challenge of its own
            self._store.set(self._keys.stop(nonce), stop)
        self._end_refused()
        raise _do_not_fit(reason, self._rank)


def _nobody_came(missing: list[int], deadline: Deadline, more: str = "") -> SyncTimeoutError:
    who = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {', '.join(map(str, missing))}"
    return SyncTimeoutError(
        f"{who} did not come to the meeting within {deadline.seconds:g} s{more}: are all ranks "
        "running, and were they started with this store? The call can be repeated",
        missing=missing,
        last_seen=dict.fromkeys(missing),
    )


def _do_not_fit(reason: str, rank: int | None) -> DivergenceError:
    return DivergenceError(f"the ranks do not fit together: {reason}", rank=rank, reason=reason)
