"""Fields of packed records that come from outside: what each of them has to be.

Segments and files have these in common. Every function raises `ValueError` for what cannot be;
`Checked` turns that, and whatever else malformed fields do, into one error that names the input.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any, Final

from ..errors import CorruptDataError
from .column import Column
from .part import Cell

__all__ = ["Checked", "column_of", "count", "expect", "name_of", "numbers", "put_cell"]

_MAX_COUNT: Final = 2**63 - 1


class Checked:
    """Turns what malformed fields do (too few, wrong type) into one error that names the input."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: Any
    ) -> None:
        if isinstance(error, CorruptDataError):
            return
        if isinstance(error, (ValueError, TypeError, IndexError, KeyError, AttributeError)):
            raise CorruptDataError(f"{self._what} is damaged: {error}") from error


def expect(value: Any, *types: type) -> Any:
    """The value, if it is of one of these types exactly."""
    if type(value) not in types:
        raise ValueError(f"found {type(value).__name__} for {'/'.join(t.__name__ for t in types)}")
    return value


def count(value: Any) -> int:
    """An int that can count epochs, batches or segments."""
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"found {value!r:.40} for a count")
    return value


def name_of(name: Any, taken: Any = ()) -> str:
    """A name under which values are recorded, that is not in `taken` yet."""
    if type(name) is not str or name == "batches":
        raise ValueError(f"{name!r:.40} is no name")
    if name in taken:
        raise ValueError(f"the name {name!r:.40} is there twice")
    return name


def numbers(kind: str, data: Any) -> Any:
    """An array of the 8-byte little-endian numbers in `data`."""
    values: Any = array(kind)
    values.frombytes(expect(data, bytes))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def column_of(kind: str, values: Any, where: int | array[int], rows: int) -> Column:
    """A column; `where` is its first batch, or all of its batches.

    Args:
        kind: how the values are stored.
        values: an array of numbers, or a list of the codec's bytes.
        where: the first of consecutive batches, or every batch.
        rows: the number of batches, all of them.
    """
    if not values:
        raise ValueError("an empty column")
    if type(where) is array:
        if len(where) != len(values) or where[0] < 0:
            raise ValueError("a column whose batches do not fit its values")
        if any(map(int.__ge__, where, where[1:])):
            raise ValueError("a column whose batches do not ascend")
        column = Column(kind, values, where[0], where)
    else:
        column = Column(kind, values, count(where))
    if column.last >= rows:
        raise ValueError(f"batch {column.last} of {rows}")
    return column


def put_cell(cells: dict[str, Cell], name: Any, data: Any, weight: Any) -> None:
    """Add an epoch value or attribute to `cells`."""
    expect(weight, bytes, type(None))
    cells[name_of(name, cells)] = Cell(expect(data, bytes), weight)
