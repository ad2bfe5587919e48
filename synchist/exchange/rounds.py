"""Rounds: every rank publishes its bytes, waits for those of all others, and reads them.

A payload that is too large for one value goes in pieces; the manifest comes last, so whoever sees
it can read everything. A rank publishes round n only when it holds all of round n-1. So whoever has
read round n from everybody knows that everybody has read round n-1, and deletes its own keys of it:
the store never holds more than two rounds, and no message is spent on that.
"""

from __future__ import annotations

import zlib
from typing import Final

from .. import clock
from ..deadline import Deadline
from ..errors import CorruptDataError, RankFailedError, SyncTimeoutError
from ..stores.guard import GuardedStore
from .keys import Keys
from .meeting import Met
from .notes import names_of, pack, unpack
from .restarts import begun_anew, begun_anew_error
from .tidying import Tidier
from .waiting import Reminder, wait_until

__all__ = ["PIECE_BYTES", "Rounds"]

PIECE_BYTES: Final = 4 << 20
"""Largest value put into a store. A TCPStore drops the connection above 8 MiB."""

INLINE_BYTES: Final = 1 << 20
"""Largest payload that goes inside its manifest; several manifests are read in one answer."""

_AT_ONCE: Final = 16


class Rounds:
    """One rank's side of the rounds of one meeting.

    Attributes:
        number: the current round, from 1.
    """

    def __init__(
        self, store: GuardedStore, keys: Keys, rank: int, met: Met, label: str, tidier: Tidier
    ) -> None:
        self._store = store
        self._keys = keys
        self._rank = rank
        self._met = met
        self._label = label
        self._tidier = tidier
        self._world = len(met.facts)
        self.number = 1
        self._tried = False
        self._published = False
        self._tidied = 0
        self._noted = 0  # the last round in which this rank said where it waits
        self._pieces: dict[int, int] = {}  # by round, in how many pieces this rank's payload went
        self._got: dict[int, bytes] = {}
        self._seen = [clock.monotonic()] * self._world

    def gather(self, payload: bytes, deadline: Deadline) -> list[bytes]:
        """Everybody's payload of this round; the same until `advance`."""
        self._got[self._rank] = payload
        if self._tried:
            self._repair()
        self._tried = True
        if not self._published:
            self._publish(payload)
            if not self.missing():  # no read will follow that fails if this was lost
                self._store.look(self._key(self.number, self._rank))
        reminder = Reminder(self._rank, f"in round {self.number}", self._late_ranks)
        noted = False
        note_after = min(1.0, deadline.seconds / 4)

        def probe(waited: float) -> None:
            nonlocal noted
            self._check_stop()
            self._check_left()
            self._check_restarts()
            reminder.tick(waited)
            if waited >= note_after and not noted:
                noted = True
                self._store.set(
                    self._keys.where(self._rank),
                    pack(self._label, self._met.tokens[self._rank], self.number),
                )

        try:
            if not wait_until(self._store, self._ready, probe, deadline):
                missing = self._look()
                if missing:
                    raise self._late(missing, deadline)
        finally:
            if noted:
                # Deleted later: a rank that has seen the key may be about to read it.
                self._noted = self.number
                self._store.set(self._keys.where(self._rank), b"")
        return [self._got[rank] for rank in range(self._world)]

    def advance(self) -> None:
        """Go on to the next round."""
        self.number += 1
        self._got = {}
        self._tried = self._published = False

    def tidy(self, number: int) -> None:
        """Delete what nobody needs any more: while the others are on their way, or afterwards.

        This rank has read round n-1 from everybody, so everybody has read round n-2.
        """
        if self._tidied == number:
            return
        self._tidied = number
        old = number - 2
        met = self._met
        if old > 0:
            self._store.delete(self._key(old, self._rank))
            for index in range(self._pieces.pop(old, 0)):
                self._store.delete(self._keys.piece(met.attempt, old, self._rank, index))
        elif old == 0 and self._rank == 0:  # everybody came to round 1, so everybody has read it
            self._store.delete(self._keys.ack(met.challenge))
        elif old == 0 and self._store.reads_at_once:
            # Others look at it while they wait. Where `get` blocks for a key that has just gone, it
            # has to stay until the next meeting, or `close`.
            self._store.delete(self._keys.answer(met.challenge, self._rank))
        if 0 < self._noted <= old:
            self._noted = 0
            self._store.delete(self._keys.where(self._rank))
        if self._rank == 0 and number > 1:
            self._tidier.note(self._store, met.challenge, met.attempt, self._world, number - 1)

    # -- publishing ----------------------------------------------------------------------------

    def _key(self, number: int, rank: int) -> str:
        return self._keys.segment(self._met.attempt, number, rank)

    def _publish(self, payload: bytes) -> None:
        check = zlib.crc32(payload)
        inline = payload
        pieces = 0
        if len(payload) > INLINE_BYTES:
            inline = b""
            pieces = -(-len(payload) // PIECE_BYTES)
            self._pieces[self.number] = pieces
            for index in range(pieces):
                key = self._keys.piece(self._met.attempt, self.number, self._rank, index)
                self._store.set(key, payload[index * PIECE_BYTES : (index + 1) * PIECE_BYTES])
        manifest = pack(pieces, len(payload), check, inline)
        self._store.set(self._key(self.number, self._rank), manifest)
        self._published = True

    def _repair(self) -> None:
        """See whether what this rank has put is there, because a store need not confirm a `set`.

        One that was lost with its connection made a later call fail, so the call is repeated.
        """
        if self._store.look(self._key(self.number, self._rank)) is None:
            self._published = False
        if self._rank == 0 and self.number == 1:
            key = self._keys.ack(self._met.challenge)
            if self._store.look(key) is None:
                self._store.set(key, self._met.ack)

    # -- reading -------------------------------------------------------------------------------

    def missing(self) -> list[int]:
        """Ranks whose payload of this round this rank does not have yet."""
        return [rank for rank in range(self._world) if rank not in self._got]

    def _ready(self) -> list[str]:
        missing = self.missing()
        if len(missing) > 1:
            # One question for all ranks: with many of them, one each would swamp the store.
            if self._store.there([self._key(self.number, rank) for rank in missing]):
                self._fetch(missing)
        else:
            self._look()
        still = self.missing()
        if still:
            self.tidy(self.number)
        return [self._key(self.number, rank) for rank in still]

    def _fetch(self, ranks: list[int]) -> None:
        for first in range(0, len(ranks), _AT_ONCE):
            some = ranks[first : first + _AT_ONCE]
            found = self._store.get_all([self._key(self.number, rank) for rank in some])
            for rank, data in zip(some, found, strict=True):
                self._take(rank, data)

    def _look(self) -> list[int]:
        """Read what is there, rank by rank, and return the ranks whose data is not."""
        for rank in self.missing():
            data = self._store.look(self._key(self.number, rank))
            if data is not None:
                self._take(rank, data)
        return self.missing()

    def _take(self, rank: int, manifest: bytes) -> None:
        self._got[rank] = self._read(rank, manifest)
        self._seen[rank] = clock.monotonic()

    def _read(self, rank: int, manifest: bytes) -> bytes:
        key = self._key(self.number, rank)
        pieces, length, check, payload = unpack(manifest, key, int, int, int, bytes)
        if pieces:
            if pieces != -(-length // PIECE_BYTES):
                raise CorruptDataError(f"rank {rank} published a damaged manifest ({key!r})")
            payload = b"".join(
                self._store.get(self._keys.piece(self._met.attempt, self.number, rank, index))
                for index in range(pieces)
            )
        if len(payload) != length or zlib.crc32(payload) != check:
            raise CorruptDataError(
                f"what rank {rank} published in round {self.number} was damaged in the store"
            )
        data: bytes = payload
        return data

    def _late_ranks(self) -> str | None:
        late = self._look()
        return names_of(late) if late else None

    # -- bad news ------------------------------------------------------------------------------

    def _check_stop(self) -> None:
        key = self._keys.stop(self._met.attempt)
        stopped = self._store.look(key)
        if stopped is not None and self._look():  # data first: what was published counts
            _, rank, reason = unpack(stopped, key, str, int, str)
            raise RankFailedError(
                f"rank {rank} gave up while this rank waited in round {self.number}: {reason}",
                rank=rank,
                reason=reason,
                round=self.number,
            )

    def _check_left(self) -> None:
        keys = self._keys
        if not self._store.there([keys.left(self._met.attempt)]):
            return
        for rank in self.missing():
            if self._store.there([keys.bye(self._met.attempt, rank)]):
                if rank not in self._look():
                    continue
                self._check_stop()  # it may have given up, and left, since we looked
                raise RankFailedError(
                    f"rank {rank} closed its history and does not come to round {self.number}: "
                    "every rank has to sync the same number of times",
                    rank=rank,
                    reason="closed its history",
                    round=self.number,
                )

    def _check_restarts(self) -> None:
        # Rank 0 as well: it may have learned of a restart, and wait in the next meeting.
        ranks = dict.fromkeys([*self.missing(), *([0] if self._rank else [])])
        rank = begun_anew(self._store, self._keys, self._met, self._label, ranks)
        # Data first: a rank that went on after this round may be in its next meeting already.
        if rank is not None and self._look():
            raise begun_anew_error(rank, self.number)

    def _late(self, missing: list[int], deadline: Deadline) -> SyncTimeoutError:
        now = clock.monotonic()
        seen: dict[int, str | None] = {}
        elsewhere = []
        for rank in missing:
            place = f"round {self.number - 1}" if self.number > 1 else "the meeting"
            seen[rank] = f"{place}, {now - self._seen[rank]:.1f} s ago"
            label = self._elsewhere(rank)
            if label is not None:
                elsewhere.append(f"rank {rank} waits in another history, {label!r}")
        told = "; ".join(f"rank {rank} last in {place}" for rank, place in seen.items())
        more = f". {'; '.join(elsewhere)}: sync histories in the same order" if elsewhere else ""
        return SyncTimeoutError(
            f"{names_of(missing)} did not come to round {self.number} within "
            f"{deadline.seconds:g} s ({told}){more}. The call can be repeated",
            missing=missing,
            round=self.number,
            last_seen=seen,
        )

    def _elsewhere(self, rank: int) -> str | None:
        key = self._keys.where(rank)
        try:
            data = self._store.look(key)
            if not data:
                return None
            label, token, _ = unpack(data, key, str, str, int)
        except Exception:  # noqa: BLE001  (only the message would be poorer)
            return None
        same = token == self._met.tokens[rank] and label != self._label
        return str(label) if same else None
