"""Records: what one rank recorded, as frames.

A record frame is a map of the codec. Its values are in series (see `series`): one for the batch
values of each name and storage, one for the epoch values of each name, one for their weights. The
other fields say which values belong where, as arrays of ints that go over the epochs:

- `epochs`, `rows`: the number of each epoch, and how many batches the rank opened in it.
- `layouts`: the different ways in which epochs are filled: which series have batch values, and
  which have an epoch value (and its weight), in the order in which the names were first recorded.
  `layout` has one of them for each epoch.
- `counts`, `firsts`: for every epoch, and every series of batch values in it, how many values are
  there, and 1 + their first batch; they are in consecutive batches. Where `firsts` has 0, they are
  not, and every batch is in `batches`.
- `attributes`: like the epoch values of a layout.

Each series is taken from in this order, epoch by epoch, the attributes last.
"""

from __future__ import annotations

from array import array
from typing import Any

import attrs

from ..codec import decode, encode
from ..errors import CorruptDataError
from ..model.column import CODED, INTS, Column
from ..model.delta import Delta
from ..model.digest import little_endian
from ..model.fields import column_of, count, expect, name_of, numbers
from ..model.part import Cell, Part
from .frames import Frame, FrameReader, FrameWriter
from .header import NO_CLASSES
from .layout import RECORD, VALUES
from .series import Series, SeriesWriter, Wanted, pack_ints, read_series, unpack_ints

__all__ = ["Place", "Record", "read_record", "write_record"]

Place = tuple[int, int, int, bool]
"""Where a rank stands: the number of its next epoch, its open epoch, the open batch (-1 for none),
and whether that row is open."""


@attrs.frozen
class Record:
    """What one rank recorded in one go.

    Attributes:
        rank: the rank.
        sequence: its number among the rank's segments; of records that were merged, the last one.
        lineage: the history's lineage at that time.
        delta: the records.
        pending: whether they were never synced.
        place: for pending records, where the rank stands.
    """

    rank: int
    sequence: int
    lineage: int
    delta: Delta
    pending: bool = False
    place: Place | None = None


# -- writing -----------------------------------------------------------------------------------


class _Packer:
    """Distributes the values of a delta to series, and notes what belongs where."""

    def __init__(self) -> None:
        self.series: list[SeriesWriter] = []
        self._columns: dict[tuple[str, str], int] = {}
        self._cells: dict[tuple[str, bool], int] = {}
        self._layouts: dict[Any, int] = {}
        self._counts: list[int] = []
        self._firsts: list[int] = []
        self._batches = array("q")

    def pack(self, delta: Delta) -> dict[str, Any]:
        epochs = sorted(delta.parts)
        parts = [delta.parts[epoch] for epoch in epochs]
        which = [self._layout(part) for part in parts]
        attributes = self._cells_of(delta.attributes)
        return {
            "epochs": pack_ints(epochs),
            "rows": pack_ints([part.rows for part in parts]),
            "layout": pack_ints(which),
            "layouts": [
                [list(columns), list(map(list, cells))] for columns, cells in self._layouts
            ],
            "counts": pack_ints(self._counts),
            "firsts": pack_ints(self._firsts),
            "batches": little_endian(self._batches),
            "attributes": list(map(list, attributes)),
        }

    def _layout(self, part: Part) -> int:
        columns = tuple([self._column(name, column) for name, column in part.columns.items()])
        layout = (columns, self._cells_of(part.cells))
        return self._layouts.setdefault(layout, len(self._layouts))

    def _column(self, name: str, column: Column) -> int:
        index = self._columns.get((name, column.kind))
        if index is None:
            index = self._columns[name, column.kind] = self._new(name, column.kind)
        self.series[index].add(column.data)
        self._counts.append(len(column.data))
        if column.batches is None:
            self._firsts.append(column.start + 1)
        else:
            self._firsts.append(0)
            self._batches.extend(column.batches)
        return index

    def _cells_of(self, cells: dict[str, Cell]) -> tuple[tuple[int, int | None], ...]:
        return tuple(
            [
                (
                    self._cell(name, cell.data, False),
                    None if cell.weight is None else self._cell(name, cell.weight, True),
                )
                for name, cell in cells.items()
            ]
        )

    def _cell(self, name: str, data: bytes, weight: bool) -> int:
        index = self._cells.get((name, weight))
        if index is None:
            index = self._cells[name, weight] = self._new(name, CODED)
        self.series[index].add((data,))
        return index

    def _new(self, name: str, kind: str) -> int:
        self.series.append(SeriesWriter(name, kind))
        return len(self.series) - 1


def write_record(frames: FrameWriter, record: Record) -> None:
    """Write a record: its frame, and those of its long series."""
    packer = _Packer()
    contents = packer.pack(record.delta)
    packed = [series.pack() for series in packer.series]
    fields = {
        "rank": record.rank,
        "sequence": record.sequence,
        "lineage": record.lineage,
        "pending": record.pending,
        "place": None if record.place is None else list(record.place),
        "series": [described for described, _ in packed],
        **contents,
    }
    frames.frame(RECORD, encode(fields, registry=NO_CLASSES))
    for _, pieces in packed:
        if pieces:
            frames.frame(VALUES, *pieces)


# -- reading -----------------------------------------------------------------------------------


def read_record(frames: FrameReader, frame: Frame, wanted: Wanted | None = None) -> Record:
    """Read a record, given its frame's header, and the frames of its series.

    Args:
        frames: where to read it.
        frame: the record's frame.
        wanted: for which names the batch values are to be read; the other ones, the epoch values
            and the attributes are left out. By default all is read.

    Raises:
        CorruptDataError: it is damaged; the error names the byte.
    """
    data = frames.read(frame)
    try:
        fields = expect(decode(data, registry=NO_CLASSES), dict)
        series = [read_series(frames, entry, wanted) for entry in expect(fields["series"], list)]
        return Record(
            count(fields["rank"]),
            count(fields["sequence"]),
            count(fields["lineage"]),
            _delta(fields, series, wanted is None),
            expect(fields["pending"], bool),
            _place(fields["place"]),
        )
    except CorruptDataError as error:
        if error.path is not None:
            raise
        raise frames.damaged(str(error), frame.payload + (error.offset or 0)) from error
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise frames.damaged(f"a record cannot be: {error}", frame.payload) from error


_Cells = list[tuple[Series, Series | None]]


def _delta(fields: dict[str, Any], series: list[Series], whole: bool) -> Delta:
    layouts = [
        (_columns_in(columns, series), _cells_in(cells, series))
        for columns, cells in expect(fields["layouts"], list)
    ]
    counts, firsts = unpack_ints(fields["counts"]), unpack_ints(fields["firsts"])
    batches = numbers(INTS, fields["batches"])
    column = batch = 0
    delta = Delta()
    last = -1
    for epoch, rows, which in zip(
        unpack_ints(fields["epochs"]),
        unpack_ints(fields["rows"]),
        unpack_ints(fields["layout"]),
        strict=True,
    ):
        if epoch <= last:
            raise ValueError(f"epoch {epoch} comes after epoch {last}")
        last = epoch
        columns, cells = layouts[which]
        part = delta.parts[epoch] = Part(rows)
        for values in columns:
            number, where = counts[column], firsts[column] - 1
            column += 1
            if where < 0:
                where = batches[batch : batch + number]
                batch += number
            data = values.take(number)
            if data is not None:
                part.columns[values.name] = column_of(values.kind, data, where, rows)
        if whole:
            part.cells = _take_cells(cells)
    if column != len(counts) or column != len(firsts) or batch != len(batches):
        raise ValueError("counts or batches are left over")
    attributes = _cells_in(fields["attributes"], series)
    if whole:
        delta.attributes = _take_cells(attributes)
        for values in series:
            values.check_empty()
    return delta


def _columns_in(indices: Any, series: list[Series]) -> list[Series]:
    found = [series[count(index)] for index in expect(indices, list)]
    _check_names(found)
    return found


def _cells_in(pairs: Any, series: list[Series]) -> _Cells:
    found = [
        (series[count(value)], None if weight is None else series[count(weight)])
        for value, weight in expect(pairs, list)
    ]
    _check_names([values for values, _ in found])
    if any(s is not None and s.kind != CODED for pair in found for s in pair):
        raise ValueError("an epoch value is in a series of numbers")
    return found


def _check_names(found: list[Series]) -> None:
    names: set[str] = set()
    for values in found:
        names.add(name_of(values.name, names))


def _take_cells(cells: _Cells) -> dict[str, Cell]:
    return {
        values.name: Cell(values.take(1)[0], None if weights is None else weights.take(1)[0])
        for values, weights in cells
    }


def _place(fields: Any) -> Place | None:
    if fields is None:
        return None
    next_epoch, epoch, batch, is_open = expect(fields, list)
    if not -1 <= expect(epoch, int) < count(next_epoch):
        raise ValueError(f"epoch {epoch} is open, and {next_epoch} is the next")
    if expect(batch, int) < -1 or (expect(is_open, bool) and batch == -1):
        raise ValueError(f"batch {batch} is open")
    return next_epoch, epoch, batch, is_open
