"""Showing what other ranks recorded, in the epochs that skorch sees."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from typing import Any, Final

from synchist import History
from synchist_skorch.edits import Edits
from synchist_skorch.entries import BATCHES, LOADED, Epoch, Row

__all__ = ["EDITS", "Merging"]

EDITS: Final = "skorch.edits"

_BEST: Final = "_best"


class Merging:
    """Which epochs are shown, and how far they show what was synced.

    Attributes:
        epochs: by number, the epochs that are shown.
        edits: by rank, its edits; this rank's own as soon as they are made.
        views: by rank, what it recorded, as far as it was synced.
    """

    def __init__(self, core: History) -> None:
        self.epochs: dict[int, Epoch] = {}
        self.edits: dict[int, Edits] = {}
        self.views: dict[int, Any] = {}
        self._core = core
        self._lengths: dict[int, int] = {}  # by rank, how many of its epochs are shown
        self._checked = 0  # epochs whose scores were compared
        self._warned: set[str] = set()
        self._own_too = True
        self.find_ranks()

    def find_ranks(self) -> None:
        """Look which ranks there are, and have been, in the history that is shared."""
        for rank, view in self._core.ranks.items():
            self.views[rank] = view
            self._lengths.setdefault(rank, 0)
        self._own_too = True

    def drop(self, epoch: Epoch) -> None:
        """It was deleted."""
        self.epochs.pop(epoch.number, None)

    def merge(self, items: list[Any], writer: weakref.ref[Any]) -> list[Epoch]:
        """Show what was synced.

        Args:
            items: the list of epochs; gets those that only other ranks have opened.
            writer: for new epochs.

        Returns:
            Epochs that are gone, because another rank deleted them.
        """
        numbers = self._take_edits()
        for rank, view in self.views.items():
            before, self._lengths[rank] = self._lengths[rank], len(view)
            # Its last epoch was open; earlier ones change by edits only.
            numbers.update(range(max(0, before - 1), self._lengths[rank]))
        deleted = set[int]().union(*(edits.deleted for edits in self.edits.values()))
        gone = [self.epochs[number] for number in deleted if number in self.epochs]
        for epoch in gone:
            list.pop(items, _position(items, epoch.number))
        for number in sorted(numbers - deleted):
            epoch = self.epoch(items, number, writer)
            self._merge_rows(epoch)
            self._merge_values(epoch)
        self._own_too = False
        return gone

    def _has_news(self, rank: int, epoch: Epoch) -> bool:
        """Whether what a rank shared of an epoch may not be shown yet.

        This rank's own records are shown when they are made; but for those that it made before
        this copy of the history was there, and objects that may have changed since.
        """
        return rank != self._core.rank or self._own_too or bool(epoch.odd)

    def epoch(self, items: list[Any], number: int, writer: weakref.ref[Any]) -> Epoch:
        """The epoch of that number; it is made, and put into the list, where it is not there."""
        epoch = self.epochs.get(number)
        if epoch is None:
            epoch = self.epochs[number] = Epoch(number, writer)
            list.insert(items, _position(items, number), epoch)
        return epoch

    def _take_edits(self) -> set[int]:
        """Take over what others edited; the epochs that may have changed."""
        changed: set[int] = set()
        for rank, view in self.views.items():
            value = view.attributes.get(EDITS)
            if value is None:
                continue
            edits = Edits.from_value(value)
            before = self.edits.get(rank, Edits())
            if rank == self._core.rank and before.count > edits.count:
                continue  # edited since, or being told
            self.edits[rank] = edits
            if before.count != edits.count or rank == self._core.rank:
                changed |= before.epochs() | edits.epochs()
        return changed

    def _merge_rows(self, epoch: Epoch) -> None:
        for rank, view in self.views.items():
            if epoch.number >= self._lengths[rank] or not self._has_news(rank, epoch):
                continue
            rows = epoch.rows.setdefault(rank, [])
            # What was loaded is rank 0's in what is shared, and shown as nobody's.
            skip = len(epoch.rows.get(LOADED, ())) if rank == 0 else 0
            own = rank == self._core.rank
            start = len(rows) if own or not rows else len(rows) - 1  # it may have been open still
            fresh = view[epoch.number, BATCHES, skip + start :]
            if fresh and start < len(rows):
                rows[-1].show(fresh.pop(0))
            rows += map(Row, fresh)
            if own:
                for batch in [item for item in epoch.odd if isinstance(item, int)]:
                    rows[batch].show(view[epoch.number, BATCHES, skip + batch])
        epoch.arrange_rows()

    def _merge_values(self, epoch: Epoch) -> None:
        number = epoch.number
        found: dict[str, Any] = {}
        for rank in self.views:
            own = rank == self._core.rank
            for name in self._names(rank, number) if self._has_news(rank, epoch) else ():
                if name in epoch.agreed:
                    continue
                if own and name not in epoch.own:  # this rank recorded it in an earlier life
                    epoch.own.add(name)
                    epoch.odd.add(name)
                if name in epoch.odd if own else name not in epoch.own and name not in found:
                    found[name] = self._value(rank, number, name)
        for name in epoch.keys() - {BATCHES} - epoch.own - epoch.agreed.keys() - found.keys():
            epoch.forget(name)
        epoch.show(found)
        epoch.odd.clear()

    def _names(self, rank: int, number: int) -> list[str]:
        """Names of the values that a rank has in an epoch, after its edits."""
        view = self.views[rank]
        names = view.names(number) if number < len(view) else []
        edits = self.edits.get(rank)
        if edits is None:
            return names
        erased, written = edits.erased.get(number, ()), edits.written.get(number, ())
        return [name for name in dict.fromkeys([*names, *written]) if name not in erased]

    def _value(self, rank: int, number: int, name: str) -> Any:
        edits = self.edits.get(rank)
        written = edits.written.get(number, {}) if edits else {}
        return written[name] if name in written else self.views[rank][number, name]

    def by_rank(self, number: int, name: str) -> dict[int, Any]:
        """What each rank has under that name, after its edits."""
        return {
            rank: self._value(rank, number, name)
            for rank in self.views
            if name in self._names(rank, number)
        }

    def check_scores(self, through: int) -> list[str]:
        """What to warn of: scores that differ by rank, in epochs before `through`.

        A score is what has a companion that says whether it was the best so far.
        """
        found = []
        for number in range(self._checked, through):
            epoch = self.epochs.get(number)
            if epoch is None:
                continue
            for name in [name.removesuffix(_BEST) for name in epoch if name.endswith(_BEST)]:
                if name in self._warned or name not in epoch or name in epoch.agreed:
                    continue
                by_rank = self.by_rank(number, name)
                if len({repr(value) for value in by_rank.values()}) > 1:
                    self._warned.add(name)
                    told = ", ".join(f"rank {rank}: {value}" for rank, value in by_rank.items())
                    found.append(
                        f"{name!r} differs by rank in epoch {number} ({told}): callbacks that "
                        "watch it (EarlyStopping, Checkpoint, ReduceLROnPlateau) may decide "
                        "differently on each rank; SyncedHistoryMixin makes scores agree"
                    )
        self._checked = max(self._checked, through)
        return found

    def state(self) -> list[Any]:
        """The epochs in plain values, for copies."""
        epochs = [
            (
                epoch.number,
                {name: value for name, value in epoch.items() if name != BATCHES},
                epoch.own,
                epoch.agreed,
                epoch.odd,
                {rank: list(map(dict, rows)) for rank, rows in epoch.rows.items()},
            )
            for epoch in self.epochs.values()
        ]
        return [epochs, self.edits, self._lengths, self._checked, self._warned]

    def restore(self, state: list[Any], writer: weakref.ref[Any]) -> None:
        """The inverse of `state`."""
        epochs, self.edits, self._lengths, self._checked, self._warned = state
        for number, values, own, agreed, odd, rows in epochs:
            epoch = self.epochs[number] = Epoch(number, writer)
            epoch.show(values)
            epoch.own, epoch.agreed, epoch.odd = own, agreed, odd
            epoch.rows = {rank: list(map(Row, of_rank)) for rank, of_rank in rows.items()}
            epoch.arrange_rows()


def _position(items: list[Any], number: int) -> int:
    return bisect_left(items, number, key=lambda epoch: epoch.number)
