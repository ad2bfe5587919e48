"""The order of batch rows over ranks: by batch, then by rank, as skorch's history has them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from ..model.part import PartView

__all__ = ["RowAxis", "column_in_row_order"]


class RowAxis:
    """Positions of the rows of one epoch, when rank r opened `counts[r]` batches."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        self._ranks = sorted(rank for rank, count in counts.items() if count)
        self._counts = [counts[rank] for rank in self._ranks]
        self._total = sum(self._counts)

    def __len__(self) -> int:
        return self._total

    def at(self, position: int) -> tuple[int, int]:
        """(batch, rank) of a row; raises IndexError beyond the ends."""
        if position < 0:
            position += self._total
        if not 0 <= position < self._total:
            raise IndexError("batch index out of range")
        if min(self._counts) == max(self._counts):
            batch, index = divmod(position, len(self._ranks))
            return batch, self._ranks[index]
        batch = bisect_right(range(max(self._counts)), position, key=self._before) - 1
        there = [
            rank for rank, count in zip(self._ranks, self._counts, strict=True) if count > batch
        ]
        return batch, there[position - self._before(batch)]

    def _before(self, batch: int) -> int:
        """How many rows come before the first row of `batch`."""
        return sum(min(count, batch) for count in self._counts)

    def select(self, index: slice) -> list[tuple[int, int]]:
        """(batch, rank) of the rows in a slice."""
        positions = range(*index.indices(self._total))
        if positions == range(self._total):
            pairs = list(zip(self._ranks, self._counts, strict=True))
            batches = range(max(self._counts, default=0))
            return [(batch, rank) for batch in batches for rank, count in pairs if batch < count]
        return [self.at(position) for position in positions]

    def covers(self, index: slice) -> bool:
        """Whether the slice takes every row, in order."""
        return range(*index.indices(self._total)) == range(self._total)


def column_in_row_order(parts: Mapping[int, PartView], name: str) -> list[Any]:
    """All values of one batch name, in row order; rows without it are skipped."""
    found = [(rank, *column) for rank, part in parts.items() if (column := part.column(name))]
    if len(found) < 2:
        return found[0][2] if found else []
    values: list[Any]
    first = found[0][1]
    if all(isinstance(rows, range) and rows == first for _, rows, _ in found):
        values = [None] * (len(first) * len(found))
        for index, (_, _, of_rank) in enumerate(found):
            values[index :: len(found)] = of_rank
        return values
    tagged = [
        (batch, rank, value)
        for rank, batches, of_rank in found
        for batch, value in zip(batches, of_rank, strict=True)
    ]
    tagged.sort(key=itemgetter(0, 1))
    return [value for _, _, value in tagged]
