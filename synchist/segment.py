"""The segment: what one rank brings to a round, in bytes.

A segment is a msgpack array: format, kind, chain, call, lineage, sequence number, and then the
delta (epochs and attributes) or, from a rank that failed before it could publish, a reason. Floats
and 64-bit ints travel as little-endian arrays, everything else as the codec's bytes, which are not
decoded here. What comes out of a store is untrusted: everything is checked, and nothing is run.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import msgpack

from .errors import CorruptDataError
from .model.column import CODED, FLOATS, INTS, Column
from .model.delta import Delta
from .model.digest import little_endian
from .model.fields import Checked, column_of, count, expect, name_of, numbers, put_cell
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
        with Checked(f"the segment of rank {rank}"):
            if fields[0] != FORMAT:
                raise CorruptDataError(
                    f"rank {rank} speaks format {fields[0]!r} of synchist's segments, this rank "
                    f"{FORMAT}: install the same version of synchist everywhere"
                )
            _, kind, chain, call, lineage, sequence, body = fields
            name, epoch, reduce = call
            expect(chain, bytes)
            expect(lineage, int)
            expect(sequence, int)
            for text in (name, reduce):
                expect(text, str, type(None))
            expect(epoch, int, type(None))
            if kind == _FAILURE:
                expect(body, str)
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
    with Checked(what):
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


def _unpack(data: bytes, what: str) -> Any:
    try:
        return msgpack.unpackb(data, unicode_errors="surrogatepass", strict_map_key=False)
    except Exception as error:  # msgpack raises many unrelated types on damaged input
        raise CorruptDataError(f"{what} is damaged: {error}") from error


def _unpack_delta(body: Any) -> Delta:
    epochs, attributes = body
    delta = Delta(attributes=_unpack_cells(attributes))
    for epoch, rows, columns, cells in epochs:
        part = Part(count(rows), cells=_unpack_cells(cells))
        for name, kind, where, data in columns:
            batches = where if type(where) is int else numbers(INTS, where)
            column = column_of(kind, _values(kind, data), batches, rows)
            part.columns[name_of(name, part.columns)] = column
        if count(epoch) in delta.parts:
            raise ValueError(f"epoch {epoch} is there twice")
        delta.parts[epoch] = part
    return delta


def _values(kind: Any, data: Any) -> Any:
    if kind == CODED:
        for item in expect(data, list):
            expect(item, bytes)
        return data
    if kind in (FLOATS, INTS):
        return numbers(kind, data)
    raise ValueError(f"unknown kind of column {kind!r}")


def _unpack_cells(fields: Any) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for name, data, weight in fields:
        put_cell(cells, name, data, weight)
    return cells
