"""The half of `SkorchHistory` that is there in a run of several ranks only.

What skorch sees is a list of `Epoch`, with this rank's records as they come. Each record also goes
to a `synchist.History`, which copies it at that moment and shares it at the next sync; then the
epochs that changed show what the others recorded. What is shown is a pure function of what this
rank recorded and of what all ranks agreed on.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from typing import Any, Final

from synchist import History, UsageError
from synchist.codec import decode, encode
from synchist_skorch.edits import Edits
from synchist_skorch.entries import BATCHES, LOADED, Epoch, Row
from synchist_skorch.loading import MARK, check_loaded, mark_of, plain
from synchist_skorch.merging import EDITS, Merging

__all__ = ["Shared"]

_NUMBERS: Final = frozenset({float, int, bool, type(None)})
_NO_NAMES: Final[frozenset[str]] = frozenset()
_PLAIN: Final = _NUMBERS | {str}


class Shared:
    """One rank's side. Every method that changes which epochs there are is given the list.

    Attributes:
        core: the history that is shared.
        adrift: whether this is a copy that has no store yet.
    """

    def __init__(self, core: History) -> None:
        self.core = core
        self.adrift = False
        self._ref = weakref.ref(self)
        self._forget()

    def _forget(self) -> None:
        self._merging = Merging(self.core)
        self._open: Epoch | None = None
        self._row: Row | None = None
        self._row_lists: tuple[list[Row], list[Row]] | None = None  # of the open epoch
        self._rows: list[Row] = []  # closed rows that are not in the history that is shared
        self._names: set[str] = set()  # names of batch values that were recorded before
        # Those names while the open row is here only, so that one test answers three questions.
        self._quick: Set[str] = _NO_NAMES
        self._checked = False

    @property
    def _edits(self) -> Edits:
        return self._merging.edits.get(self.core.rank) or Edits()

    # -- writing -------------------------------------------------------------------------------

    def new_epoch(self, items: list[Any]) -> None:
        """Open an epoch."""
        self._hand_over()
        self.core.new_epoch()
        self._close_row()
        self._open = self._merging.epoch(items, self._number(), self._ref)
        self._row_lists = self._open.row_lists(self.core.rank)

    def _number(self) -> int:
        number = self.core.open_epoch
        assert number is not None
        return number

    def new_batch(self) -> None:
        """Open a batch of the open epoch."""
        if self._row_lists is None:
            raise UsageError("new_batch() before new_epoch(): call new_epoch() first")
        row = self._row
        if row is not None:
            row.writer = None
            if self._quick is not _NO_NAMES:
                self._rows.append(row)
        self._row = row = Row()
        row.writer = self._ref
        self._quick = self._names
        own, shown = self._row_lists
        own.append(row)
        list.append(shown, row)

    def _close_row(self) -> None:
        row, self._row = self._row, None
        if row is not None:
            row.writer = None
            if self._quick is not _NO_NAMES:
                self._rows.append(row)
        self._quick = _NO_NAMES

    def record_batch(self, name: str, value: Any) -> None:
        """Record a value in the open batch."""
        if type(value) in _NUMBERS and type(name) is str and name in self._quick:
            dict.__setitem__(self._row, name, value)  # type: ignore[index]
            return
        self._hand_over()
        self.core.record_batch(name, value)  # says what is wrong where no batch is open
        row, epoch = self._row, self._open
        assert row is not None
        assert epoch is not None
        self._names.add(name)
        dict.__setitem__(row, name, value)
        if type(value) not in _PLAIN:
            epoch.odd.add(len(epoch.rows[self.core.rank]) - 1)

    def _hand_over(self) -> None:
        """Give the rows that are only here to the history that is shared.

        A row of numbers is given as a whole, and late, which takes a fraction of the time.
        """
        for row in self._rows:
            self.core.new_batch(row)
        self._rows = []
        if self._row is not None and self._quick is not _NO_NAMES:
            self._quick = _NO_NAMES
            self.core.new_batch(self._row)

    def record(self, items: list[Any], name: str, value: Any) -> None:
        """Record a value in the open epoch, or in the last one where that was deleted."""
        epoch = self._open or (items[-1] if items else None)
        if epoch is None:
            raise UsageError("Call new_epoch before recording for the first time.")
        self.write(epoch, name, value)

    def write(self, epoch: Epoch, name: str, value: Any) -> None:
        """Record a value in an epoch."""
        if name in epoch.agreed and _same(epoch.agreed[name], value):
            dict.__setitem__(epoch, name, value)  # what all ranks agreed on; there is no news in it
            return
        if epoch is self._open:
            self.core.record(name, value)
            if self._edits.touches(epoch.number, name):
                self._edit(self._edits.without(epoch.number, name))
        else:
            if not isinstance(name, str):
                raise UsageError(f"a name must be a string, got {name!r}")
            self._edit(self._edits.with_written(epoch.number, name, decode(encode(value))))
        epoch.agreed.pop(name, None)
        epoch.own.add(name)
        dict.__setitem__(epoch, name, value)
        if type(value) not in _PLAIN:
            epoch.odd.add(name)

    def erase(self, epoch: Epoch, name: str) -> None:
        """Take back what this rank recorded under that name."""
        if name in epoch.own or name in epoch.agreed:
            self._edit(self._edits.with_erased(epoch.number, name))
        epoch.forget(name)

    def delete(self, items: list[Any], index: int | slice) -> None:
        """Delete epochs, on every rank with the next sync."""
        chosen = items[index] if isinstance(index, slice) else [items[index]]
        edits = self._edits
        for epoch in chosen:
            edits = edits.with_deleted(epoch.number)
        self._edit(edits)
        list.__delitem__(items, index)
        for epoch in chosen:
            self._drop(epoch)

    def _drop(self, epoch: Epoch) -> None:
        self._merging.drop(epoch)
        if epoch is self._open:
            self._close_row()
            self._rows = []
            self._open = self._row_lists = None

    def _edit(self, edits: Edits) -> None:
        self.core.attributes[EDITS] = edits.to_value()  # first, because it may refuse a value
        self._merging.edits[self.core.rank] = edits

    # -- loading -------------------------------------------------------------------------------

    def clear(self, items: list[Any]) -> None:
        """Forget everything. Does not talk; the next sync meets afresh."""
        self.core.clear()
        list.clear(items)
        self._forget()

    def load(self, items: list[Any], epochs: Iterable[Any]) -> None:
        """Hold these epochs, as skorch's history has them, instead of what was there.

        Rank 0 brings them to the history that is shared, because they have no rank of their own.
        Every rank has to load the same; the next sync makes sure.
        """
        loaded = [plain(entry, index) for index, entry in enumerate(epochs)]
        mark = mark_of(loaded)  # refuses what could not be shared
        self.clear(items)
        for entry in loaded:
            self._load_epoch(items, entry)
        if loaded:
            self.core.attributes[MARK] = mark

    def _load_epoch(self, items: list[Any], entry: dict[str, Any]) -> None:
        values = {name: value for name, value in entry.items() if name != BATCHES}
        self.new_epoch(items)
        epoch = self._open
        assert epoch is not None
        epoch.rows[LOADED] = [Row(row) for row in entry[BATCHES]]
        epoch.arrange_rows()
        epoch.show(values)
        if self.core.rank == 0:
            self.core.record(values)
            for row in entry[BATCHES]:
                self.core.new_batch(row)
            epoch.own.update(values)

    def append(self, items: list[Any], entry: Any) -> None:
        """A new epoch with these values and batches, as recorded by this rank."""
        entry = plain(entry, len(items))
        encode(entry)  # refuses what could not be shared
        self.new_epoch(items)
        for row in entry.pop(BATCHES):
            self.new_batch()
            for name, value in row.items():
                self.record_batch(name, value)
        for name, value in entry.items():
            self.record(items, name, value)

    # -- syncing -------------------------------------------------------------------------------

    def sync(self, items: list[Any], point: str | None, timeout: float | None) -> None:
        """Share what was recorded, and show what the others recorded.

        Args:
            items: the list.
            point: names the place in the training that this rank is at: ranks at different places
                all raise `DivergenceError`, at once.
            timeout: seconds.
        """
        self._hand_over()
        if point is None:
            self.core.sync(timeout=timeout)
        else:
            with suppress(KeyError):  # nobody brings a value: it is the names that are compared
                self.core.agree(point, timeout=timeout)
        self._show(items)

    def agree(
        self, items: list[Any], name: str, bring: Mapping[str, Any], timeout: float | None
    ) -> Any:
        """`History.agree`; `bring` holds this rank's value, if it has one."""
        self._hand_over()
        epoch = self._open
        try:
            agreed = self.core.agree(name, timeout=timeout, **bring)
        except KeyError:  # nobody has one, but what else was recorded is synced
            self._show(items)
            raise
        if epoch is not None:
            epoch.own.discard(name)
            epoch.agreed[name] = agreed
            dict.__setitem__(epoch, name, agreed)
        self._show(items)
        return agreed

    def _show(self, items: list[Any]) -> None:
        if not self._checked:
            self._merging.find_ranks()
            check_loaded(self._merging.views)
            self._checked = True
        for epoch in self._merging.merge(items, self._ref):
            self._drop(epoch)

    def check_scores(self, *, final: bool) -> list[str]:
        """What to warn of: scores that callbacks may watch, and that differ by rank.

        Args:
            final: whether the last epoch is complete too.
        """
        if final:
            return self._merging.check_scores(max(self._merging.epochs, default=-1) + 1)
        return self._merging.check_scores(0 if self._open is None else self._open.number)

    def per_rank(self, items: list[Any], index: int, name: str) -> dict[int, Any]:
        """What each rank recorded under an epoch value's name, as far as it was synced."""
        found = self._merging.by_rank(items[index].number, name)
        if not found:
            raise KeyError(f"{name!r} of epoch {index} was not recorded, or not synced yet")
        return found

    # -- copies --------------------------------------------------------------------------------

    def attach(self, items: list[Any], store: Any, rank: int, world_size: int) -> None:
        """Go on over this store."""
        self._hand_over()
        before = self.core.rank
        self.core.attach(store=store, rank=rank, world_size=world_size)
        self.adrift = False
        self._checked = False
        if rank != before:  # a copy of another rank's: show what was synced, and nothing else
            list.clear(items)
            self._forget()
            self._merging.merge(items, self._ref)

    def __getstate__(self) -> dict[str, Any]:
        self._hand_over()
        return {
            "core": self.core,
            "merging": self._merging.state(),
            "open": None if self._open is None else self._open.number,
            "row": self._row is not None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.core = state["core"]
        self.adrift = True
        self._ref = weakref.ref(self)
        self._forget()
        self._merging.restore(state["merging"], self._ref)
        if state["open"] is not None:
            self._open = self._merging.epochs[state["open"]]
            self._row_lists = self._open.row_lists(self.core.rank)
        if state["row"] and self._open is not None:
            self._row = self._open.rows[self.core.rank][-1]
            self._row.writer = self._ref

    def epochs(self) -> list[Epoch]:
        """The epochs, for the list of a copy."""
        return [epoch for _, epoch in sorted(self._merging.epochs.items())]


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) in _PLAIN and isinstance(b, float | int) and bool(a == b))
