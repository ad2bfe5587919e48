"""Recording: the write half of a history. Nothing here communicates or reads a device.

The open batch is a plain dict, closed ones are a list of dicts, and every thousand of them become
columns. What was recorded stays *pending* until a `sync()` takes it away. A row stays open until
the next one is opened, so after a sync its dict starts empty again and holds only later changes.
"""

from __future__ import annotations

from typing import Any, Final

from .deadline import Deadline
from .errors import UsageError
from .intake import UNSET, Intake, Place, Values, as_values, coded_weight, joined
from .model.delta import Delta
from .model.draft import Draft
from .model.part import Cell, Part
from .model.values import encoded, resolve

__all__ = ["Recorder"]

_ROWS_PER_COLUMN: Final = 1024
_NO_NAMES: Final[frozenset[str]] = frozenset()


class Recorder:
    """The write half of `History`. Use from one thread at a time."""

    rank: int

    def __init__(self) -> None:
        self._intake = Intake()
        self._reset_records(next_epoch=0)

    def _reset_records(self, next_epoch: int) -> None:
        """Forget what is pending; the next epoch gets number `next_epoch`."""
        self._intake.forget()
        self._next_epoch = next_epoch
        self._open_draft(Draft(-1, 0))
        self._announced = 0  # how many batches of the open epoch are in columns, pending or synced
        self._row: dict[str, Any] | None = None
        self._open: set[str] | frozenset[str] = _NO_NAMES
        self._closed: list[Draft] = []
        self._pending = Delta()
        self._attributes: dict[str, Any] = {}

    def _open_draft(self, draft: Draft) -> None:
        self._draft = draft
        self._rows = draft.rows  # one look-up less for every batch

    @property
    def _epoch(self) -> int:
        """The open epoch, or -1."""
        return self._draft.epoch

    @property
    def _batch(self) -> int:
        """The open batch, or -1."""
        return self._draft.first + len(self._rows) - 1

    # -- opening -------------------------------------------------------------------------------

    @property
    def open_epoch(self) -> int | None:
        """Index of the epoch that `record` records in, or None before the first `new_epoch()`."""
        return None if self._epoch < 0 else self._epoch

    def new_epoch(self, values: Values | None = None, /, **named: Any) -> None:
        """Open the next epoch, and record the given epoch values in it.

        Touches only this process's memory. Ranks need not open the same number of epochs.

        Args:
            values: epoch values by name, for names that are no Python identifiers.
            **named: epoch values by name.

        Raises:
            UnsupportedTypeError: a value cannot be stored exactly; no epoch was opened.
            UsageError: a name is not allowed; no epoch was opened.
        """
        number = self._next_epoch
        cells = self._intake.take(joined(values, named), Place(self.rank, number))
        self._close_draft()
        self._next_epoch = number + 1
        self._announced = 0
        self._row, self._open = None, _NO_NAMES
        self._open_draft(Draft(number, 0))
        self._pending.parts[number] = Part()
        for name, value in cells.items():
            self._draft.cells[name] = (value, None)

    def new_batch(self, values: Values | None = None, /, **named: Any) -> None:
        """Open the next batch (row) of the open epoch, and record the given values in it.

        A batch is whatever you report on: a micro-batch, an optimizer step, a validation batch.
        Touches only this process's memory. Ranks need not open the same number of batches.

        Args:
            values: batch values by name, for names that are no Python identifiers.
            **named: batch values by name.

        Raises:
            UnsupportedTypeError: a value cannot be stored exactly; no batch was opened.
            UsageError: no epoch is open, or a name is not allowed; no batch was opened.
        """
        if values is not None:
            named = values.copy() if type(values) is dict and not named else joined(values, named)
        names = self._intake.names
        for name, value in named.items():
            if type(value) is not float or name not in names:
                self._check_epoch("new_batch()")
                named = self._intake.take(named, Place(self.rank, self._epoch, self._batch + 1))
                break
        rows = self._rows
        if len(rows) >= _ROWS_PER_COLUMN or not rows:
            self._check_epoch("new_batch()")
            self._compact()
            rows = self._rows
        rows.append(named)
        self._row = named
        self._open = names

    def _check_epoch(self, what: str) -> None:
        if self._draft.epoch < 0:
            raise UsageError(f"{what} before new_epoch(): call new_epoch() first")

    # -- recording -----------------------------------------------------------------------------

    def record_batch(self, name: str | Values, value: Any = UNSET) -> None:
        """Record a value in the open batch; recording the same name again overwrites it.

        Touches only this process's memory and never waits for a device: a tensor is cloned where it
        is. Writing to a batch that was already synced works until the next one is opened.

        Args:
            name: the name, or a mapping of names to values.
            value: anything the codec can store exactly.

        Raises:
            UnsupportedTypeError: the value cannot be stored exactly; nothing was recorded.
            UsageError: no batch is open, or the name is not allowed; nothing was recorded.
        """
        # One membership test answers two questions: without an open batch `_open` is empty.
        try:
            if type(value) is float and name in self._open:
                self._row[name] = value  # type: ignore[index]
                return
        except TypeError:
            pass  # a name that cannot be hashed; the next line says what is wrong with it
        self._record_batch(name, value)

    def _record_batch(self, name: str | Values, value: Any) -> None:
        values = as_values("record_batch", name, value)
        row = self._row
        if row is None:
            what = f"record_batch({next(iter(values), '')!r}, ...)"
            if self._epoch < 0:
                raise UsageError(f"{what} before any epoch: call new_epoch(), then new_batch()")
            raise UsageError(f"{what} before any batch of epoch {self._epoch}: call new_batch()")
        row.update(self._intake.take(values, Place(self.rank, self._epoch, self._batch)))

    def record(self, name: str | Values, value: Any = UNSET, *, weight: Any = None) -> None:
        """Record an epoch value in the open epoch; the same name again overwrites it.

        Every rank's value is kept; `reduce=` of the history says how `h[-1, name]` makes one of
        them. Touches only this process's memory.

        Args:
            name: the name, or a mapping of names to values.
            value: anything the codec can store exactly.
            weight: how much this rank's value counts in a weighted reduction, such as the number
                of samples it was computed from. A number, 0 or more.

        Raises:
            UnsupportedTypeError: the value cannot be stored exactly; nothing was recorded.
            UsageError: no epoch is open, or the name or weight is not allowed; nothing recorded.
        """
        values = as_values("record", name, value)
        if self._epoch < 0:
            what = f"record({next(iter(values), '')!r}, ...)"
            raise UsageError(f"{what} before any epoch: call new_epoch() first")
        coded = coded_weight(weight, next(iter(values), ""))
        for key, taken in self._intake.take(values, Place(self.rank, self._epoch)).items():
            self._draft.cells[key] = (taken, coded)

    def _record_attribute(self, name: str, value: Any) -> None:
        self._attributes.update(self._intake.take({name: value}, Place(self.rank)))

    # -- what is pending -----------------------------------------------------------------------

    def _close_draft(self) -> None:
        if self._draft.rows or self._draft.cells:
            self._closed.append(self._draft)
            if not self._intake.tray:
                self._pack_all(self._closed)
                self._closed = []

    def _compact(self) -> None:
        """Turn the rows into columns, unless values are still on their device."""
        draft = self._draft
        if draft.rows and not self._intake.tray:
            rest = Draft(draft.epoch, draft.first + len(draft.rows))
            rest.cells, draft.cells = draft.cells, {}
            self._pack_all([draft])
            self._open_draft(rest)

    def _flush(self, deadline: Deadline | None = None) -> None:
        """Turn everything recorded into columns; fetches from devices what is still there."""
        self._intake.tray.fetch(deadline)
        self._pack_all([*self._closed, self._draft])
        self._closed = []
        rest = Draft(self._epoch, max(self._batch, 0))
        if self._row is not None:
            self._announced = self._batch + 1
            self._row = {}
            rest.rows.append(self._row)
        self._open_draft(rest)
        for name, value in self._attributes.items():
            self._pending.attributes[name] = Cell(encoded(resolve(value)))
        self._attributes = {}

    def _pack_all(self, drafts: list[Draft]) -> None:
        for draft in drafts:
            if not self._news(draft):
                continue
            part = draft.part(self._intake.mixed)
            mine = self._pending.parts.get(draft.epoch)
            if mine is None:
                self._pending.parts[draft.epoch] = part
            else:
                mine.update(part)

    def _news(self, draft: Draft) -> bool:
        """Whether there is more in the draft than an open batch that others know of."""
        if draft.cells or len(draft.rows) > 1:
            return True
        return bool(draft.rows and (draft.rows[0] or draft.first >= self._announced))

    def _dirty(self) -> bool:
        """Whether anything is pending."""
        return bool(self._pending or self._closed or self._attributes or self._news(self._draft))

    def _restore_records(self, pending: Delta, place: tuple[int, int, int, bool]) -> None:
        """Go on where a copied recorder was; `place` is next epoch, open epoch, batch, row open."""
        self._reset_records(next_epoch=place[0])
        self._pending = pending
        draft = Draft(place[1], max(place[2], 0))
        self._announced = place[2] + 1
        if place[3]:
            self._row, self._open = {}, self._intake.names
            draft.rows.append(self._row)
        self._open_draft(draft)

    def _take(self, deadline: Deadline | None) -> Delta:
        """All that is pending, which is then no longer pending."""
        self._flush(deadline)
        taken, self._pending = self._pending, Delta()
        return taken

    def _give_back(self, delta: Delta) -> None:
        """Make what was taken pending again; what was recorded since wins."""
        delta.update(self._pending)
        self._pending = delta
