"""Recording: the write half of a history. Nothing here communicates or reads a device.

The open batch is a plain dict, closed ones are a list of dicts, and every thousand of them become
columns. What was recorded stays *pending* until a `sync()` takes it away. A row stays open until
the next one is opened, so after a sync its dict starts empty again and holds only later changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .codec import encode
from .deadline import Deadline
from .errors import TooLargeError, UnsupportedTypeError, UsageError
from .model.column import columns_of
from .model.deferred import Tray
from .model.delta import Delta
from .model.part import Cell, Part
from .model.values import Coded, encoded, resolve

__all__ = ["MAX_VALUE_BYTES", "Recorder"]

MAX_VALUE_BYTES: Final = 1 << 30
"""Largest single value that ranks may share, in encoded bytes."""

_ROWS_PER_COLUMN: Final = 1024
_UNSET: Any = object()
_PLAIN: Final = frozenset({float, int, bool, str, type(None)})
_NO_NAMES: Final[frozenset[str]] = frozenset()

Values = Mapping[str, Any]


class Draft:
    """Rows and epoch values of one epoch that have not become columns yet.

    The last row of the last draft is the open one. After a sync it stays, empty, as the first.
    """

    __slots__ = ("cells", "epoch", "first", "rows")

    def __init__(self, epoch: int, first: int) -> None:
        self.epoch = epoch
        self.first = first
        self.rows: list[dict[str, Any]] = []
        self.cells: dict[str, tuple[Any, bytes | None]] = {}

    def part(self, mixed: set[str]) -> Part:
        """The same as columns; every value must have been fetched from its device."""
        return Part(
            self.first + len(self.rows) if self.rows else 0,
            columns_of(self.rows, self.first, mixed),
            {name: Cell(encoded(resolve(v)), weight) for name, (v, weight) in self.cells.items()},
        )


class Recorder:
    """The write half of `History`. Use from one thread at a time."""

    rank: int
    _shared = False
    """Whether other ranks will receive what is recorded (and its size is limited)."""

    def __init__(self) -> None:
        self._names: set[str] = set()  # checked batch names
        self._mixed: set[str] = set()  # batch names that have had values other than floats
        self._reset_records(next_epoch=0)

    def _reset_records(self, next_epoch: int) -> None:
        """Forget what is pending; the next epoch gets number `next_epoch`."""
        self._next_epoch = next_epoch
        self._open_draft(Draft(-1, 0))
        self._announced = 0  # how many batches of the open epoch are in columns, pending or synced
        self._row: dict[str, Any] | None = None
        self._open: set[str] | frozenset[str] = _NO_NAMES
        self._closed: list[Draft] = []
        self._tray = Tray()
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
        cells = self._capture_all(_joined(values, named), number, None, in_batch=False)
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
            named = values.copy() if type(values) is dict and not named else _joined(values, named)
        names = self._names
        for name, value in named.items():
            if type(value) is not float or name not in names:
                self._check_epoch("new_batch()")
                named = self._capture_all(named, self._epoch, self._batch + 1, in_batch=True)
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

    def record_batch(self, name: str | Values, value: Any = _UNSET) -> None:
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
        if type(value) is float and name in self._open:
            self._row[name] = value  # type: ignore[index]
        else:
            self._record_batch(name, value)

    def _record_batch(self, name: str | Values, value: Any) -> None:
        values = _as_values("record_batch", name, value)
        row = self._row
        if row is None:
            what = f"record_batch({next(iter(values), '')!r}, ...)"
            if self._epoch < 0:
                raise UsageError(f"{what} before any epoch: call new_epoch(), then new_batch()")
            raise UsageError(f"{what} before any batch of epoch {self._epoch}: call new_batch()")
        row.update(self._capture_all(values, self._epoch, self._batch, in_batch=True))

    def record(self, name: str | Values, value: Any = _UNSET, *, weight: Any = None) -> None:
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
        values = _as_values("record", name, value)
        if self._epoch < 0:
            what = f"record({next(iter(values), '')!r}, ...)"
            raise UsageError(f"{what} before any epoch: call new_epoch() first")
        coded_weight = None if weight is None else self._weight(weight, next(iter(values), ""))
        captured = self._capture_all(values, self._epoch, None, in_batch=False)
        for name_, value_ in captured.items():
            self._draft.cells[name_] = (value_, coded_weight)

    def _record_attribute(self, name: str, value: Any) -> None:
        self._attributes.update(self._capture_all({name: value}, None, None, in_batch=False))

    # -- checking ------------------------------------------------------------------------------

    def _capture_all(
        self, values: Values, epoch: int | None, batch: int | None, *, in_batch: bool
    ) -> dict[str, Any]:
        """Checked names and values, copied so that later changes to them do not matter."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if not isinstance(name, str):
                raise UsageError(
                    f"a name must be a string, got {name!r}{self._place(epoch, batch)}; "
                    "record it as a value, or use str() on it"
                )
            if name == "batches":
                raise UsageError(
                    "the name 'batches' is taken: it is where h[epoch, 'batches'] finds the "
                    "batches; record under another name"
                )
            if type(name) is not str:
                name = str.__str__(name)
            if in_batch:
                self._names.add(name)
                if type(value) is not float:
                    self._mixed.add(name)
            if type(value) not in _PLAIN:
                value = self._capture(name, value, epoch, batch)
            elif type(value) is str:
                self._check_size(name, len(value), epoch, batch)
            found[name] = value
        return found

    def _capture(self, name: str, value: Any, epoch: int | None, batch: int | None) -> Any:
        try:
            raw = self._tray.capture(value)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(
                f"cannot record {name!r}{self._place(epoch, batch)}: {error}", path=error.path
            ) from error
        if type(raw) is Coded:
            self._check_size(name, len(raw.data), epoch, batch)
        elif raw.snap is not None:
            self._check_size(name, raw.snap.nbytes, epoch, batch)
        return raw

    def _check_size(self, name: str, size: int, epoch: int | None, batch: int | None) -> None:
        if self._shared and size > MAX_VALUE_BYTES:
            raise TooLargeError(
                f"cannot record {name!r}{self._place(epoch, batch)}: {size:,} bytes; ranks share "
                f"at most {MAX_VALUE_BYTES:,} bytes a value. Save it to a file and record its path"
            )

    def _weight(self, weight: Any, name: str) -> bytes:
        number = (
            weight.item()
            if hasattr(weight, "item") and type(weight).__module__ == "numpy"
            else weight
        )
        if type(number) not in (int, float) or not 0 <= number < float("inf"):
            raise UsageError(
                f"record({name!r}, ..., weight={weight!r}): a weight is a finite number, 0 or "
                "more (int, float or a numpy scalar)"
            )
        return encode(number)

    def _place(self, epoch: int | None, batch: int | None) -> str:
        places = [f"rank {self.rank}"]
        if epoch is not None:
            places.append(f"epoch {epoch}")
        if batch is not None:
            places.append(f"batch {batch}")
        return f" ({', '.join(places)})"

    # -- what is pending -----------------------------------------------------------------------

    def _close_draft(self) -> None:
        if self._draft.rows or self._draft.cells:
            self._closed.append(self._draft)
            if not self._tray:
                self._pack_all(self._closed)
                self._closed = []

    def _compact(self) -> None:
        """Turn the rows into columns, unless values are still on their device."""
        draft = self._draft
        if draft.rows and not self._tray:
            rest = Draft(draft.epoch, draft.first + len(draft.rows))
            rest.cells, draft.cells = draft.cells, {}
            self._pack_all([draft])
            self._open_draft(rest)

    def _flush(self, deadline: Deadline | None = None) -> None:
        """Turn everything recorded into columns; fetches from devices what is still there."""
        self._tray.fetch(deadline)
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
            part = draft.part(self._mixed)
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
            self._row, self._open = {}, self._names
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


def _joined(values: Values | None, named: dict[str, Any]) -> dict[str, Any]:
    if values is None:
        return named
    if not isinstance(values, Mapping):
        raise UsageError(f"expected a mapping of names to values, got {type(values).__name__}")
    return {**values, **named}


def _as_values(method: str, name: Any, value: Any) -> Values:
    if value is not _UNSET:
        return {name: value} if isinstance(name, str) else _bad_name(method, name)
    if isinstance(name, Mapping):
        return name
    if isinstance(name, str):
        raise UsageError(f"{method}({name!r}) without a value: call {method}({name!r}, value)")
    return _bad_name(method, name)


def _bad_name(method: str, name: Any) -> Values:
    raise UsageError(
        f"{method}: a name must be a string, got {name!r} ({type(name).__name__}); "
        f"call {method}('name', value) or {method}({{'name': value}})"
    )
