"""A column: the values that one rank recorded under one batch name in one epoch.

Three kinds of storage, chosen by the exact types of the values:

- `FLOATS`: every value is a `float`; 8 bytes each, NaN payloads kept.
- `INTS`: every value is an `int` that fits 64 bits; 8 bytes each.
- `CODED`: anything else, or a mixture; each value as the codec's bytes. They are decoded when they
  are read, every time anew, so nobody can change a recorded value through what a read returned.

Rows are named by their batch index. Most columns have a value in every row from some row on, so
only the first row is kept; `batches` is used when there are gaps.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from ..codec import decode, encode
from .values import Deferred, encoded, resolve

__all__ = ["CODED", "FLOATS", "INTS", "Column", "batch_index", "columns_of"]

FLOATS: Final = "d"
INTS: Final = "q"
CODED: Final = "x"


class Column:
    """Values of one (epoch, rank, name), ascending by batch. Not thread-safe."""

    __slots__ = ("batches", "data", "kind", "start")

    def __init__(
        self,
        kind: str,
        data: array[float] | array[int] | list[bytes],
        start: int,
        batches: array[int] | None = None,
    ) -> None:
        """Takes over `data` and `batches`; `batches` None means start, start + 1, ..."""
        self.kind = kind
        self.data: Any = data
        self.start = start
        self.batches = batches

    @classmethod
    def of(cls, values: Sequence[Any], start: int, batches: array[int] | None = None) -> Column:
        """A column of recorded values, in the tightest storage that keeps their exact types."""
        types = set(map(type, values))
        if Deferred in types:
            values = [resolve(value) for value in values]
            types = set(map(type, values))
        if types == {float}:
            return cls.of_floats(values, start, batches)
        if types == {int}:
            try:
                return cls(INTS, array("q", values), start, batches)
            except OverflowError:
                pass
        return cls(CODED, [encoded(v) for v in values], start, batches)

    @classmethod
    def of_floats(
        cls, values: Sequence[float], start: int, batches: array[int] | None = None
    ) -> Column:
        """A column of values that are known to be floats."""
        # struct takes a third of the time that array("d", values) does.
        data = array("d", struct.pack(f"{len(values)}d", *values))
        return cls(FLOATS, data, start, batches)

    def __len__(self) -> int:
        return len(self.data)

    @property
    def last(self) -> int:
        """The highest batch index; the column must not be empty."""
        return self.batches[-1] if self.batches is not None else self.start + len(self.data) - 1

    def rows(self) -> Sequence[int]:
        """The batch indices, ascending."""
        if self.batches is not None:
            return self.batches
        return range(self.start, self.start + len(self.data))

    def position(self, batch: int) -> int:
        """Where `batch` is in `data`, or -1."""
        if self.batches is None:
            at = batch - self.start
            return at if 0 <= at < len(self.data) else -1
        at = bisect_left(self.batches, batch)
        return at if at < len(self.batches) and self.batches[at] == batch else -1

    def value(self, position: int) -> Any:
        """The value at a position, decoded."""
        item = self.data[position]
        return decode(item) if self.kind == CODED else item

    def values(self) -> list[Any]:
        """All values, decoded."""
        if self.kind == CODED:
            return [decode(item) for item in self.data]
        found: list[Any] = self.data.tolist()
        return found

    def items(self) -> Iterator[tuple[int, Any]]:
        """(batch, value), ascending."""
        return zip(self.rows(), self.values(), strict=True)

    def coded(self) -> list[bytes]:
        """All values in the codec's bytes."""
        return list(self.data) if self.kind == CODED else [encode(v) for v in self.data]

    def copy(self) -> Column:
        """An independent copy."""
        batches = None if self.batches is None else self.batches[:]
        return Column(self.kind, self.data[:], self.start, batches)

    def update(self, newer: Column) -> None:
        """Take over the newer column: its values win where both have one."""
        if not len(newer):
            return
        if newer.kind != self.kind:
            self.data, self.kind = self.coded(), CODED
            newer = Column(CODED, newer.coded(), newer.start, newer.batches)
        first, last = newer.rows()[0], self.last
        if first < last:
            self._interleave(newer)
            return
        tail, rows = newer.data, newer.rows()
        if first == last:  # the row was still open when it was shared last time
            self.data[-1] = tail[0]
            tail, rows = tail[1:], rows[1:]
            if not tail:
                return
        self._append(tail, rows)

    def _append(self, data: Any, rows: Sequence[int]) -> None:
        dense = isinstance(rows, range)
        if self.batches is None and not (dense and rows[0] == self.last + 1):
            self.batches = array("q", self.rows())
        if self.batches is not None:
            self.batches.extend(rows)
        self.data.extend(data)

    def _interleave(self, newer: Column) -> None:
        merged: dict[int, Any] = dict(zip(self.rows(), self.data, strict=True))
        merged.update(zip(newer.rows(), newer.data, strict=True))
        order = sorted(merged)
        data = [merged[batch] for batch in order]
        self.data = data if self.kind == CODED else array(self.kind, data)
        self.start, self.batches = order[0], batch_index(order)

    def tightest(self) -> Column:
        """The same column in the storage that a fresh one of its values would have.

        Overwriting can leave, say, only floats in a `CODED` column; what is equal must look equal.
        """
        if self.kind != CODED or not all(map(_maybe_number, self.data)):
            return self
        values = self.values()
        if len(set(map(type, values))) > 1 or type(values[0]) not in (float, int):
            return self
        return Column.of(values, self.start, self.batches)


def batch_index(rows: Sequence[int]) -> array[int] | None:
    """The index of a column with these ascending rows: None where they have no gap."""
    if rows[-1] - rows[0] + 1 == len(rows):
        return None
    return array("q", rows)


def _maybe_number(data: bytes) -> bool:
    """Whether codec bytes may be a float or a 64-bit int: those take 9 bytes at most."""
    return len(data) <= 9


def columns_of(rows: list[dict[str, Any]], start: int, mixed: Collection[str]) -> dict[str, Column]:
    """Columns of row dicts, the first of which is batch `start`; names in order of first record.

    Args:
        rows: values by name for every batch.
        start: index of the first batch.
        mixed: names under which something else than a float may have been recorded.
    """
    if rows and not rows[0]:
        rows, start = rows[1:], start + 1
    if not rows:
        return {}
    values: dict[str, list[Any]] = {}
    batches: dict[str, list[int]] = {}
    try:
        if sum(map(len, rows)) == len(rows[0]) * len(rows):
            values = {name: [row[name] for row in rows] for name in rows[0]}
    except KeyError:
        values = {}
    if not values:
        for batch, row in enumerate(rows, start):
            for name, value in row.items():
                values.setdefault(name, []).append(value)
                batches.setdefault(name, []).append(batch)
    columns = {}
    for name, found in values.items():
        of = Column.of if name in mixed else Column.of_floats
        where = batches.get(name)
        if type(name) is not str:  # quick ways to record do not look at the type of a known name
            name = str.__str__(name)
        if where is None:
            columns[name] = of(found, start)
        else:
            columns[name] = of(found, where[0], batch_index(where))
    return columns
