"""How ranks meet, so that nothing an earlier run left in the store is ever believed.

Rank 0 posts a challenge with a fresh nonce; every other rank answers under that challenge with a
nonce of its own; rank 0 acknowledges exactly those nonces. A rank believes an acknowledgement only
if its own nonce is in it, so nothing counts that does not depend on fresh nonces from both sides.

A rank keeps its nonce, and rank 0 its challenge and the answers it has seen, until the meeting has
ended: with new ones at every try, ranks with short timeouts would miss each other for ever. While
waiting, each rank re-reads what it posted: overwritten means that another process claims its rank.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import attrs

from ..deadline import Deadline
from ..errors import (
    CorruptDataError,
    DivergenceError,
    RankFailedError,
    SynchistError,
    SyncTimeoutError,
)
from ..stores.guard import GuardedStore
from .keys import Keys
from .notes import names_of, pack, unpack
from .protocol import Judge

__all__ = [
    "FAILED",
    "OK",
    "REFUSED",
    "Answer",
    "Meeting",
    "Met",
    "answers_in",
    "claimed",
    "do_not_fit",
    "met_of",
    "nobody_came",
    "over",
]

# Verdicts of an acknowledgement.
OK: Final = "ok"
REFUSED: Final = "refused"
FAILED: Final = "failed"


@attrs.frozen
class Met:
    """A meeting that succeeded.

    Attributes:
        challenge: rank 0's nonce.
        attempt: identity of the meeting, derived from everybody's nonces.
        facts: what every rank said of itself.
        tokens: for every rank, the identity of its process.
        nonces: for every rank, the nonce that it met with.
        ack: what rank 0 told the others.
    """

    challenge: str
    attempt: str
    facts: list[bytes]
    tokens: list[str]
    nonces: list[str]
    ack: bytes


@attrs.frozen
class Answer:
    """A rank's answer to a challenge: its nonce, its process, what it says of itself."""

    nonce: str
    token: str
    facts: bytes


class Meeting:
    """One rank's side of one meeting, over as many tries as it takes; `Host` or `Guest`.

    Attributes:
        nonce: this rank's, the same until the meeting has ended.
    """

    def __init__(
        self, store: GuardedStore, keys: Keys, rank: int, world_size: int, label: str, token: str
    ) -> None:
        self._store = store
        self._keys = keys
        self._rank = rank
        self._world = world_size
        self._label = label
        self._token = token
        self._met: Met | None = None
        self._start_afresh()

    def _start_afresh(self) -> None:
        """Forget a meeting that has ended without success."""
        self.nonce = secrets.token_hex(16)

    def meet(self, facts: bytes, judge: Judge, deadline: Deadline) -> Met:
        """Meet the others; may be called again after a timeout."""
        if self._met is None:
            self._met = self._try(facts, judge, deadline)
        return self._met

    def _try(self, facts: bytes, judge: Judge, deadline: Deadline) -> Met:
        raise NotImplementedError

    def awaited(self) -> list[int]:
        """Ranks that this one still waits for, as far as it knows without asking."""
        raise NotImplementedError

    def give_up(self, reason: str) -> None:
        """Tell whoever is in the meeting that this rank will not come. Best effort."""
        raise NotImplementedError

    def _stop(self, nonce: str, why: str, reason: str) -> None:
        """Tell the owner of that nonce that this meeting is over. Only the owner believes it."""
        self._store.set(self._keys.stop(nonce), pack(why, self._rank, reason))

    def _read_stop(self) -> list[Any] | None:
        key = self._keys.stop(self.nonce)
        data = self._store.look(key)
        if data is None:
            return None
        found = unpack(data, key, str, int, str)
        self._store.delete(key)
        return found


def answers_in(fields: list[Any], key: str) -> list[Answer]:
    """The answers that an acknowledgement under `key` repeats.

    Raises:
        CorruptDataError: they are no answers.
    """
    found = []
    for answer in fields:
        if not isinstance(answer, list) or [*map(type, answer)] != [str, str, bytes]:
            raise CorruptDataError(f"damaged bytes under the key {key!r}: an answer is not one")
        found.append(Answer(*answer))
    return found


def met_of(challenge: str, attempt: str, answers: list[Answer], ack: bytes) -> Met:
    """The meeting that these answers make."""
    return Met(
        challenge,
        attempt,
        [answer.facts for answer in answers],
        [answer.token for answer in answers],
        [answer.nonce for answer in answers],
        ack,
    )


def claimed(rank: int) -> str:
    """What is wrong when two processes come as one rank."""
    return f"another process claims rank {rank} too"


def over(why: str, rank: int, reason: str) -> SynchistError:
    """What a refusal, or that a rank gave up, means to this rank."""
    if why != FAILED:
        return do_not_fit(reason, rank)
    return RankFailedError(
        f"rank {rank} gave up before all ranks had met: {reason}", rank=rank, reason=reason
    )


def nobody_came(missing: list[int], deadline: Deadline, more: str = "") -> SyncTimeoutError:
    """The deadline passed; `more` adds what this rank knows."""
    return SyncTimeoutError(
        f"{names_of(missing)} did not come to the meeting within {deadline.seconds:g} s{more}: are "
        "all ranks running, and were they started with this store? The call can be repeated",
        missing=missing,
        last_seen=dict.fromkeys(missing),
    )


def do_not_fit(reason: str, rank: int | None) -> DivergenceError:
    """Ranks contradict each other."""
    return DivergenceError(f"the ranks do not fit together: {reason}", rank=rank, reason=reason)
