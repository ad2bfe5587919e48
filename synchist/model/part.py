"""A part: what one rank recorded in one epoch, and several parts read as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from ..codec import decode
from ..missing import MISSING
from .column import Column

__all__ = ["Cell", "Overlay", "Part", "PartView"]


class Cell(NamedTuple):
    """One epoch value of one rank, and its weight if one was given, in the codec's bytes."""

    data: bytes
    weight: bytes | None = None

    def value(self) -> Any:
        """The value, decoded anew."""
        return decode(self.data)


class PartView(Protocol):
    """What reading needs of one rank's part of an epoch."""

    @property
    def rows(self) -> int:
        """How many batches the rank opened."""

    def names(self) -> Iterable[str]:
        """Names of epoch values, in order of first record."""

    def cell(self, name: str) -> Cell | None:
        """The epoch value of that name."""

    def batch_names(self) -> Iterable[str]:
        """Names of batch values, in order of first record."""

    def row(self, batch: int) -> dict[str, Any]:
        """The values of one batch; raises IndexError when the rank did not open it."""

    def value(self, batch: int, name: str) -> Any:
        """One batch value, or MISSING."""

    def column(self, name: str) -> tuple[Sequence[int], list[Any]] | None:
        """(batches, values) of one name, ascending, or None when it was never recorded."""


class Part:
    """What one rank recorded in one epoch. Not thread-safe.

    Attributes:
        rows: number of batches opened so far (1 + the highest batch index).
        columns: batch values by name, in order of first record.
        cells: epoch values by name, in order of first record.
    """

    __slots__ = ("cells", "columns", "rows")

    def __init__(
        self,
        rows: int = 0,
        columns: dict[str, Column] | None = None,
        cells: dict[str, Cell] | None = None,
    ) -> None:
        self.rows = rows
        self.columns: dict[str, Column] = {} if columns is None else columns
        self.cells: dict[str, Cell] = {} if cells is None else cells

    def update(self, newer: Part) -> None:
        """Take over what is newer; the newer values win. May keep pieces of `newer`."""
        self.rows = max(self.rows, newer.rows)
        for name, column in newer.columns.items():
            mine = self.columns.get(name)
            if mine is None:
                self.columns[name] = column
            else:
                mine.update(column)
        self.cells.update(newer.cells)

    def copy(self) -> Part:
        """An independent copy."""
        columns = {name: column.copy() for name, column in self.columns.items()}
        return Part(self.rows, columns, dict(self.cells))

    def names(self) -> Iterable[str]:
        return self.cells

    def cell(self, name: str) -> Cell | None:
        return self.cells.get(name)

    def batch_names(self) -> Iterable[str]:
        return self.columns

    def row(self, batch: int) -> dict[str, Any]:
        if not 0 <= batch < self.rows:
            raise IndexError(batch)
        found = {}
        for name, column in self.columns.items():
            at = column.position(batch)
            if at >= 0:
                found[name] = column.value(at)
        return found

    def value(self, batch: int, name: str) -> Any:
        column = self.columns.get(name)
        at = -1 if column is None else column.position(batch)
        return MISSING if column is None or at < 0 else column.value(at)

    def column(self, name: str) -> tuple[Sequence[int], list[Any]] | None:
        column = self.columns.get(name)
        return None if column is None else (column.rows(), column.values())


class Overlay:
    """Parts of one rank and epoch read as one; later parts win where both have a value."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[PartView]) -> None:
        self._parts = parts

    @property
    def rows(self) -> int:
        return max((part.rows for part in self._parts), default=0)

    def names(self) -> Iterable[str]:
        return dict.fromkeys(name for part in self._parts for name in part.names())

    def cell(self, name: str) -> Cell | None:
        for part in reversed(self._parts):
            found = part.cell(name)
            if found is not None:
                return found
        return None

    def batch_names(self) -> Iterable[str]:
        return dict.fromkeys(name for part in self._parts for name in part.batch_names())

    def row(self, batch: int) -> dict[str, Any]:
        if not 0 <= batch < self.rows:
            raise IndexError(batch)
        merged: dict[str, Any] = {}
        for part in self._parts:
            if batch < part.rows:
                merged.update(part.row(batch))
        return merged

    def value(self, batch: int, name: str) -> Any:
        for part in reversed(self._parts):
            found = part.value(batch, name)
            if found is not MISSING:
                return found
        return MISSING

    def column(self, name: str) -> tuple[Sequence[int], list[Any]] | None:
        found = [column for part in self._parts if (column := part.column(name)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        merged: dict[int, Any] = {}
        for rows, values in found:
            merged.update(zip(rows, values, strict=True))
        order = sorted(merged)
        return order, [merged[batch] for batch in order]
