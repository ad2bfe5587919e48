"""A draft: rows of one epoch while they are still dicts."""

from __future__ import annotations

from typing import Any

from .column import columns_of
from .part import Cell, Part
from .values import encoded, resolve

__all__ = ["Draft"]


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
