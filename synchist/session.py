"""A session: one rank's side of meeting and syncing, above whatever carries the bytes.

The rules, in short:

- A segment is frozen when it is first brought to a round. A repeated call completes that round with
  the very same bytes; what was recorded meanwhile waits for the next one.
- Every segment carries `chain_n = SHA-256(chain_{n-1}, all segments of round n-1)`. Ranks with
  different chains have different histories, and all of them say so.
- Every segment names the call its rank is in; ranks in different calls get an error, never each
  other's values. That round is used up, and everybody's records are pending again. The same happens
  when a rank failed before it could bring its records.
- Nothing of a round is merged before all of it was checked. A rank merges its own segment from the
  bytes too, so that all ranks merge the same thing.
- After a meeting, ranks that hold nothing, or less of the same history, receive it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from .deadline import Deadline
from .errors import DivergenceError, RankFailedError, SynchistError, SyncTimeoutError
from .exchange.protocol import Exchange
from .facts import Facts, judge
from .handover import HandOver, choose_donor
from .model.delta import Delta
from .model.log import Log
from .segment import Call, Segment

__all__ = ["Book", "Done", "Frozen", "Session"]


class Book(Protocol):
    """What a session needs of the history it syncs."""

    rank: int
    _log: Log

    def _take(self, deadline: Deadline | None) -> Delta:
        """All pending records, which are then no longer pending."""

    def _give_back(self, delta: Delta) -> None:
        """Make what was taken pending again; what was recorded since wins."""

    def _receive(self, log: Log, clears: int, rules: Mapping[str, str]) -> None:
        """Hold what the others hold, and know the rules that they learned."""

    def _rule_ids(self) -> dict[str, str]:
        """The reduce table, callables by their identity."""

    def _facts(self) -> Facts:
        """What this rank says of itself."""


@attrs.define
class Frozen:
    """Records on their way to a round that is not complete.

    Attributes:
        data: the segment; the same bytes at every try.
        call: the call it was frozen in.
        delta: what is in it, to make it pending again.
        sequence: its number among this rank's segments.
        error: why this rank brings a failure instead of its records.
    """

    data: bytes
    call: Call
    delta: Delta
    sequence: int
    error: BaseException | None = None


@attrs.frozen
class Done:
    """A completed round.

    Attributes:
        call: the call that it was; for `agree`, as the ranks that brought a value made it.
        touched: names of the epoch values that it brought, by epoch.
    """

    call: Call
    touched: dict[int, set[str]]


class Session:
    """Meets, then syncs round by round. Not thread-safe.

    Attributes:
        exchange: what carries the bytes.
        chains: identity of the agreed history after each round since the meeting.
        frozen: what this rank brings to the current round, once it was published.
        carried: what an earlier session had frozen when it ended; settled by the meeting.
    """

    def __init__(self, book: Book, exchange: Exchange, carried: Frozen | None = None) -> None:
        self.exchange = exchange
        self.chains: list[bytes] = []
        self.frozen: Frozen | None = None
        self.carried = carried
        self._book = book
        self._met = False
        self._sequence = 0 if carried is None else carried.sequence
        self._answers: list[bytes] | None = None
        self._hand_over: HandOver | None = None

    @property
    def met(self) -> bool:
        """Whether this rank has met the others."""
        return self._met

    def pending_delta(self) -> Delta | None:
        """Records that were taken for a round and are not synced yet."""
        frozen = self.frozen or self.carried
        return None if frozen is None else frozen.delta

    # -- meeting -------------------------------------------------------------------------------

    def meet(self, deadline: Deadline, earlier: Sequence[bytes]) -> None:
        """Meet the others, and receive the history if they hold more of it than this rank.

        Args:
            deadline: by when.
            earlier: the chains of the last session of this history, to recognise a prefix.
        """
        if self._met:
            return
        if self._hand_over is None:
            if self._answers is None:
                facts = self._book._facts().encode()
                self._answers = self.exchange.meet(facts, judge, deadline)
            everyone = [Facts.decode(answer) for answer in self._answers]
            donor = choose_donor(everyone)
            book = self._book
            self._hand_over = HandOver(
                everyone, donor, book.rank, earlier, book._log, book._rule_ids()
            )
        self._settle(self._hand_over, deadline)
        self._met = True

    def _settle(self, hand_over: HandOver, deadline: Deadline) -> None:
        log, clears = hand_over.agreed_without_talking()
        rules: Mapping[str, str] = {}
        if hand_over.needed:
            payloads = self.exchange.gather(hand_over.payload, deadline)
            log, rules = hand_over.receive(payloads[hand_over.donor])
            self.exchange.advance()
        self._book._receive(log, clears, rules)
        carried, self.carried = self.carried, None
        known = log.sequence.get(self._book.rank, 0)
        self._sequence = max(self._sequence, known)
        if carried is not None and carried.sequence > known:
            self._book._give_back(carried.delta)
        attempt = (self.exchange.attempt or "").encode()
        self.chains = [_hash([b"synchist meeting", attempt, log.digest().encode()])]

    # -- rounds --------------------------------------------------------------------------------

    def sync(self, call: Call, deadline: Deadline) -> Done:
        """One round (the frozen one, if there is one); the session must have met."""
        if self.frozen is None:
            self.frozen = self._freeze(call, deadline)
        frozen = self.frozen
        payloads = self.exchange.gather(frozen.data, deadline)
        segments = [Segment.decode(data, rank) for rank, data in enumerate(payloads)]
        number = self.exchange.round
        self._check_chain(segments, number)
        failure = _failed(segments, number) or _in_different_calls(segments, number)
        if failure is not None:
            if frozen.error is None:
                self._book._give_back(frozen.delta)
            self._finish(payloads)
            raise (frozen.error or failure)
        log = self._book._log
        length = len(log.epochs)
        touched: dict[int, set[str]] = {}
        for rank, segment in enumerate(segments):
            delta = segment.delta or Delta()
            length = log.check(rank, delta, length)
            for epoch, part in delta.parts.items():
                if part.cells:
                    touched.setdefault(epoch, set()).update(part.cells)
        for rank, segment in enumerate(segments):
            log.apply(rank, segment.delta or Delta(), segment.sequence)
        self._finish(payloads)
        brought = [s.call for s in segments if s.call.epoch is not None]
        return Done(brought[0] if brought else segments[0].call, touched)

    def _freeze(self, call: Call, deadline: Deadline) -> Frozen:
        sequence = self._sequence + 1
        delta = Delta()
        head = (self.chains[-1], call, self._book._log.lineage, sequence)
        try:
            delta = self._book._take(deadline)
            data = Segment(*head, delta=delta).encode()
        except SyncTimeoutError:
            raise  # the device was late; nothing was published, so nobody needs to be told
        except BaseException as error:
            self._book._give_back(delta)
            if not isinstance(error, Exception):
                raise
            # Silence would make the others wait for the deadline.
            reason = f"{type(error).__name__}: {error}"
            data = Segment(*head, failure=reason).encode()
            return Frozen(data, call, Delta(), sequence, error)
        self._sequence = sequence
        return Frozen(data, call, delta, sequence)

    def _finish(self, payloads: Sequence[bytes]) -> None:
        chain = _hash([self.chains[-1], *payloads])
        self.frozen = None
        self.chains.append(chain)
        self.exchange.advance()

    def _check_chain(self, segments: Sequence[Segment], number: int) -> None:
        for rank, segment in enumerate(segments):
            other = segments[0]
            if (segment.chain, segment.lineage) != (other.chain, other.lineage):
                raise DivergenceError(
                    f"rank {rank} and rank 0 went through different rounds before round {number}, "
                    "so their histories differ; clear() or attach() on every rank",
                    rank=rank,
                    round=number,
                    reason="different rounds before this one",
                )


def _failed(segments: Sequence[Segment], number: int) -> SynchistError | None:
    for rank, segment in enumerate(segments):
        if segment.failure is not None:
            return RankFailedError(
                f"rank {rank} could not bring its records to round {number}: {segment.failure}; "
                "nothing was merged, and this rank's records will go with the next sync()",
                rank=rank,
                reason=segment.failure,
                round=number,
            )
    return None


def _in_different_calls(segments: Sequence[Segment], number: int) -> SynchistError | None:
    calls = [segment.call for segment in segments]
    brought = [call for call in calls if call.epoch is not None]
    reduces = {call.reduce for call in calls if call.reduce is not None or call.epoch is not None}
    same = (
        len({call.name for call in calls}) == 1
        and len({call.epoch for call in brought}) <= 1
        and len(reduces) <= 1
        and (not any(":" in (r or "") for r in reduces) or len({c.reduce for c in calls}) == 1)
    )
    if same:
        return None
    odd = next((rank for rank, call in enumerate(calls) if call != calls[0]), 0)
    told = "; ".join(f"rank {rank} is in {call}" for rank, call in enumerate(calls))
    return DivergenceError(
        f"ranks are in different calls in round {number}: {told}. Nothing was merged; every rank "
        "has to make the same call",
        rank=odd,
        round=number,
        reason=told,
    )


def _hash(pieces: Sequence[bytes]) -> bytes:
    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(len(piece).to_bytes(8, "big"))
        sha.update(piece)
    return sha.digest()
