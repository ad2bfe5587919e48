"""The segment: what one rank brings to a round, in bytes.

A segment is a msgpack array: format, kind, chain, call, lineage, sequence number, and then the
delta (epochs and attributes) or, from a rank that failed before it could publish, a reason. Floats
and 64-bit ints travel as little-endian arrays, everything else as the codec's bytes, which are not
decoded here. What comes out of a store is untrusted: everything is checked, and nothing is run.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any, Final

import attrs
import msgpack

from .errors import CorruptDataError
from .model.column import CODED, FLOATS, INTS, Column
from .model.delta import Delta
from .model.digest import little_endian
from .model.part import Cell, Part

__all__ = ["Call", "Segment", "decode_delta", "encode_delta"]

FORMAT: Final = 1
_DATA: Final = 0
_FAILURE: Final = 1


@attrs.frozen
class Call:
    """The call that a rank is in: ranks in different calls must not take each other's values.

    Attributes:
        name: the name given to `agree`, or None for `sync`.
        epoch: the epoch that `agree` brings a value for, or None if it brings none.
        reduce: identity of the reduce rule given to `agree`, or None.
    """

    name: str | None = None
    epoch: int | None = None
    reduce: str | None = None

    def __str__(self) -> str:
        if self.name is None:
            return "sync()"
        given = "" if self.epoch is None else f", value of epoch {self.epoch}"
        rule = "" if self.reduce is None else f", reduce={self.reduce!r}"
        return f"agree({self.name!r}{given}{rule})"


@attrs.frozen
class Segment:
    """One rank's contribution to one round; `delta` or `failure` is set, never both."""

    chain: bytes
    call: Call
    lineage: int
    sequence: int
    delta: Delta | None = None
    failure: str | None = None

    def encode(self) -> bytes:
        """The segment in bytes."""
        head = [
            FORMAT,
            _DATA if self.delta is not None else _FAILURE,
            self.chain,
            [self.call.name, self.call.epoch, self.call.reduce],
            self.lineage,
            self.sequence,
        ]
        body = self.failure or "" if self.delta is None else _pack_delta(self.delta)
        packed: bytes = msgpack.packb([*head, body], unicode_errors="surrogatepass")
        return packed

    @classmethod
    def decode(cls, data: bytes, rank: int) -> Segment:
        """The segment that `rank` published.

        Raises:
            CorruptDataError: these are no bytes of a segment, or of another format.
        """
        fields = _unpack(data, f"the segment of rank {rank}")
        with _Checked(f"the segment of rank {rank}"):
            if fields[0] != FORMAT:
                raise CorruptDataError(
                    f"rank {rank} speaks format {fields[0]!r} of synchist's segments, this rank "
                    f"{FORMAT}: install the same version of synchist everywhere"
                )
            _, kind, chain, call, lineage, sequence, body = fields
            name, epoch, reduce = call
            _expect(chain, bytes)
            _expect(lineage, int)
            _expect(sequence, int)
            for text in (name, reduce):
                _expect(text, str, type(None))
            _expect(epoch, int, type(None))
            if kind == _FAILURE:
                _expect(body, str)
            return cls(
                chain,
                Call(name, epoch, reduce),
                lineage,
                sequence,
                _unpack_delta(body) if kind == _DATA else None,
                body if kind == _FAILURE else None,
            )


def encode_delta(delta: Delta) -> bytes:
    """A delta in bytes, without the rest of a segment."""
    packed: bytes = msgpack.packb([FORMAT, _pack_delta(delta)], unicode_errors="surrogatepass")
    return packed


def decode_delta(data: bytes, what: str) -> Delta:
    """The inverse of `encode_delta`; `what` names the input in errors.

    Raises:
        CorruptDataError: these are no bytes of a delta.
    """
    fields = _unpack(data, what)
    with _Checked(what):
        format_, body = fields
        if format_ != FORMAT:
            raise CorruptDataError(f"{what} has format {format_!r}, this version reads {FORMAT}")
        return _unpack_delta(body)


# -- packing -----------------------------------------------------------------------------------


def _pack_delta(delta: Delta) -> list[Any]:
    epochs = [[epoch, *_pack_part(part)] for epoch, part in sorted(delta.parts.items())]
    return [epochs, _pack_cells(delta.attributes)]


def _pack_part(part: Part) -> list[Any]:
    return [
        part.rows,
        [_pack_column(n, c) for n, c in part.columns.items()],
        _pack_cells(part.cells),
    ]


def _pack_column(name: str, column: Column) -> list[Any]:
    where = column.start if column.batches is None else little_endian(column.batches)
    data = column.data if column.kind == CODED else little_endian(column.data)
    return [name, column.kind, where, data]


def _pack_cells(cells: dict[str, Cell]) -> list[Any]:
    return [[name, cell.data, cell.weight] for name, cell in cells.items()]


# -- unpacking ---------------------------------------------------------------------------------


class _Checked:
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


def _unpack(data: bytes, what: str) -> Any:
    try:
        return msgpack.unpackb(data, unicode_errors="surrogatepass", strict_map_key=False)
    except Exception as error:  # msgpack raises many unrelated types on damaged input
        raise CorruptDataError(f"{what} is damaged: {error}") from error


def _expect(value: Any, *types: type) -> Any:
    if type(value) not in types:
        raise ValueError(f"found {type(value).__name__} for {'/'.join(t.__name__ for t in types)}")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"found {value!r} for a count")
    return value


def _unpack_delta(body: Any) -> Delta:
    epochs, attributes = body
    delta = Delta(attributes=_unpack_cells(attributes))
    for epoch, rows, columns, cells in epochs:
        part = Part(_count(rows), cells=_unpack_cells(cells))
        for fields in columns:
            name, column = _unpack_column(fields)
            if column.last >= rows:
                raise ValueError(f"batch {column.last} of {rows}")
            part.columns[_name(name, part.columns)] = column
        if _count(epoch) in delta.parts:
            raise ValueError(f"epoch {epoch} is there twice")
        delta.parts[epoch] = part
    return delta


def _unpack_column(fields: Any) -> tuple[Any, Column]:
    name, kind, where, data = fields
    if kind == CODED:
        for item in _expect(data, list):
            _expect(item, bytes)
        values: Any = data
    elif kind in (FLOATS, INTS):
        values = _numbers(kind, data)
    else:
        raise ValueError(f"unknown kind of column {kind!r}")
    if not len(values):
        raise ValueError("an empty column")
    if type(where) is int:
        return name, Column(kind, values, _count(where))
    batches = _numbers(INTS, where)
    if len(batches) != len(values) or batches[0] < 0:
        raise ValueError("a column whose batches do not fit its values")
    if any(map(int.__ge__, batches, batches[1:])):
        raise ValueError("a column whose batches do not ascend")
    return name, Column(kind, values, batches[0], batches)


def _numbers(kind: str, data: Any) -> Any:
    values: Any = array(kind)
    values.frombytes(_expect(data, bytes))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _unpack_cells(fields: Any) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for name, data, weight in fields:
        _expect(weight, bytes, type(None))
        cells[_name(name, cells)] = Cell(_expect(data, bytes), weight)
    return cells


def _name(name: Any, taken: dict[str, Any]) -> str:
    if type(name) is not str or name == "batches":
        raise ValueError(f"{name!r} is no name")
    if name in taken:
        raise ValueError(f"the name {name!r} is there twice")
    return name
