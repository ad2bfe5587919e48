"""skorch's four indices: epochs, epoch key, batches, batch key.

The rules are those of `skorch.history.History` (skorch 1.4): a string takes one value, a tuple of
strings a tuple, a list of strings a list; epochs and rows without the key are left out; `KeyError`
when nothing is left. Only what is asked for is built: a column is read as a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index as as_int
from typing import Any

from ..missing import MISSING
from .guard import ALL, Guard
from .rows import RowAxis, column_in_row_order
from .source import Source

__all__ = ["EpochReader", "read_epoch", "read_index"]

EpochReader = Callable[[int, str], Any]
"""`value(epoch, name)`: the epoch value that counts, or MISSING."""

BATCHES = "batches"


def read_index(source: Source, guard: Guard, value: EpochReader, index: Any) -> Any:
    """What `h[index]` gives.

    Raises:
        KeyError: nothing has that key, there are more than four indices, or a third one comes
            without "batches".
        IndexError: no such epoch or batch.
        TypeError: an index of a type that means nothing here.
        NotSyncedError: the guard objects.
    """
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) > 4:
        raise KeyError(f"a history has 4 indices (epochs, key, batches, key), got {len(indices)}")
    padded: tuple[Any, ...] = (*indices, None, None, None, None)
    on_epochs, key, on_rows, row_key = padded[:4]
    if on_rows is not None and key != BATCHES:
        raise KeyError(
            f"the third index selects batches, so the second has to be 'batches', not {key!r}"
        )
    single = not isinstance(on_epochs, slice) and on_epochs is not None
    epochs = _select_epochs(source, guard, on_epochs)
    reader = _Reader(source, guard, value)
    if on_rows is None:
        items = reader.epochs(epochs, key if row_key is None else row_key, key == BATCHES)
    else:
        items = reader.rows(epochs, on_rows, row_key)
    if single:
        (item,) = items
        return item
    return items


def read_epoch(source: Source, value: EpochReader, epoch: int) -> dict[str, Any]:
    """One epoch as skorch shows it: a dict of its values, and its rows under "batches"."""
    parts = source.parts(epoch)
    axis = RowAxis({rank: part.rows for rank, part in parts.items()})
    rows = [parts[rank].row(batch) for batch, rank in axis.select(slice(None))]
    names = dict.fromkeys(name for part in parts.values() for name in part.names())
    return {BATCHES: rows, **{name: value(epoch, name) for name in names}}


def _select_epochs(source: Source, guard: Guard, index: Any) -> Sequence[int]:
    length = len(source)
    if index is None:
        index = slice(None)
    if isinstance(index, slice):
        guard.epoch_axis(index, length)
        return range(*index.indices(length))
    try:
        number = as_int(index)
    except TypeError:
        raise TypeError(
            f"the first index selects epochs (an int or a slice), got {index!r}; "
            f"for a value of all epochs write h[:, {index!r}]"
        ) from None
    guard.epoch_axis(number, length)
    if not -length <= number < length:
        raise IndexError(f"epoch {number} of {length}")
    return [number % length]


class _Reader:
    """One read. Builds as little as the indices ask for."""

    def __init__(self, source: Source, guard: Guard, value: EpochReader) -> None:
        self._source = source
        self._guard = guard
        self._value = value

    def epochs(self, epochs: Sequence[int], key: Any, may_be_empty: bool) -> list[Any]:
        """Whole epochs (no key), or values of them."""
        if key is None:
            self._guard.values(epochs, ALL)
            self._guard.batch_values(epochs, ALL)
            for epoch in epochs:
                self._guard_rows(epoch, slice(None))
            return [read_epoch(self._source, self._value, epoch) for epoch in epochs]
        names = _names(key)
        self._guard.values(epochs, [name for name in names if name != BATCHES])
        if BATCHES in names:
            self._guard.batch_values(epochs, ALL)
            for epoch in epochs:
                self._guard_rows(epoch, slice(None))
        found = [self._of_epoch(epoch, key) for epoch in epochs]
        found = [item for item in found if _complete(item)]
        if not found and not may_be_empty:
            raise KeyError(f"{key!r} was not recorded in {_those(epochs)}")
        return found

    def _of_epoch(self, epoch: int, key: Any) -> Any:
        if isinstance(key, str):
            if key == BATCHES:
                return self._all_rows(epoch)
            return self._value(epoch, key)
        return type(key)(self._of_epoch(epoch, name) for name in key)

    def rows(self, epochs: Sequence[int], index: Any, key: Any) -> list[Any]:
        """Rows, or values of them, of each epoch."""
        names = ALL if key is None else _names(key)
        whole = isinstance(index, slice)
        if not whole:
            index = _row_number(index)
        self._guard.batch_values(epochs, names)
        for epoch in epochs:
            self._guard_rows(epoch, index)
        of_epoch = self._sliced if whole else self._single
        found = [of_epoch(epoch, index, key) for epoch in epochs]
        if key is None:
            return found
        # What a slice gives is complete; to look again would cost as much as reading it.
        found = [item for item in found if item is not MISSING and (whole or _complete(item))]
        if not found or (whole and not any(found)):
            raise KeyError(f"{key!r} was not recorded in the chosen batches of {_those(epochs)}")
        return found

    def _single(self, epoch: int, index: int, key: Any) -> Any:
        parts = self._source.parts(epoch)
        try:
            batch, rank = self._axis(epoch).at(index)
        except IndexError:
            raise IndexError(
                f"batch {index} of {len(self._axis(epoch))} in epoch {epoch}"
            ) from None
        part = parts[rank]
        if key is None:
            return part.row(batch)
        if isinstance(key, str):
            return part.value(batch, key)
        return type(key)(part.value(batch, name) for name in key)

    def _sliced(self, epoch: int, index: slice, key: Any) -> Any:
        parts = self._source.parts(epoch)
        axis = self._axis(epoch)
        if isinstance(key, str) and axis.covers(index):
            column = column_in_row_order(parts, key)
            return column if column or not len(axis) else MISSING
        rows = axis.select(index)
        if key is None:
            return [parts[rank].row(batch) for batch, rank in rows]
        found: list[Any] = []
        for batch, rank in rows:
            if isinstance(key, str):
                item = parts[rank].value(batch, key)
            else:
                item = type(key)(parts[rank].value(batch, name) for name in key)
            if _complete(item) and key:  # no key at all selects no row, as in skorch
                found.append(item)
        return found if found or not rows else MISSING

    def _all_rows(self, epoch: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._sliced(epoch, slice(None), None)
        return rows

    def _counts(self, epoch: int) -> dict[int, int]:
        return {rank: part.rows for rank, part in self._source.parts(epoch).items()}

    def _axis(self, epoch: int) -> RowAxis:
        return RowAxis(self._counts(epoch))

    def _guard_rows(self, epoch: int, index: int | slice) -> None:
        self._guard.row_axis(epoch, index, self._counts(epoch))


def _names(key: Any) -> Sequence[str]:
    if isinstance(key, str):
        return [key]
    if isinstance(key, (tuple, list)) and all(isinstance(name, str) for name in key):
        return key
    raise TypeError(f"a key is a string, or a tuple or list of strings, got {key!r}")


def _row_number(index: Any) -> int:
    try:
        return as_int(index)
    except TypeError:
        raise TypeError(
            f"the third index selects batches (an int or a slice), got {index!r}"
        ) from None


def _complete(item: Any) -> bool:
    """Whether nothing is missing from what a key selected."""
    if isinstance(item, (tuple, list)):
        return not any(part is MISSING for part in item)
    return item is not MISSING


def _those(epochs: Sequence[int]) -> str:
    if len(epochs) == 1:
        return f"epoch {epochs[0]}"
    return f"epochs {epochs[0]} to {epochs[-1]}" if epochs else "any epoch (there is none)"
