"""list, tuple, dict, set and frozenset."""

from __future__ import annotations

import reprlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgpack

from . import _wire
from ._encode import Refusal, Writer
from ._limits import MAX_SAME_HASH, flooded
from ._opaque import Opaque
from ._scalars import PLAIN
from ._tables import COMPOSITES, DECODERS, LEAVES, CompositeEncoder

if TYPE_CHECKING:
    from ._reader import Reader

_FEW = 16
"""Up to this many entries, looking for the fast path costs more than it saves."""


def _plain(values: Collection[Any]) -> bool:
    return len(values) > _FEW and PLAIN.issuperset(map(type, values))


def _packed(value: list[Any] | dict[Any, Any]) -> bytes | None:
    """The bytes of a container of plain values, by msgpack; None where one is not plain enough."""
    try:
        packed: bytes = msgpack.packb(value)
    except (OverflowError, UnicodeEncodeError, ValueError):
        return None
    return packed


def _write_array(
    writer: Writer, values: tuple[Any, ...], depth: int, container: object, step: str
) -> None:
    if _plain(values):
        packed = _packed(list(values))
        if packed is not None:
            writer.parts.append(packed)
            return
    writer.parts.append(_wire.array_header(len(values)))
    writer.write_all(values, depth + 1, container, step)


# Each encoder walks a copy of the container, made in one step: another thread that changes the
# container meanwhile must not lead to a header that disagrees with what follows.


def _list(writer: Writer, value: list[Any], depth: int) -> None:
    writer.enter(depth)
    _write_array(writer, tuple(value), depth, value, "[{}]")


def _tuple(writer: Writer, value: tuple[Any, ...], depth: int) -> None:
    writer.enter(depth)
    mark = writer.open_ext()
    _write_array(writer, value, depth, value, "[{}]")
    writer.close_ext(mark, _wire.TUPLE)


def _dict(writer: Writer, value: dict[Any, Any], depth: int) -> None:
    writer.enter(depth)
    pairs = value.copy()
    if flooded(pairs, len(pairs)):
        raise Refusal(
            f"more than {MAX_SAME_HASH} keys of the dict have the same hash; store a list of pairs"
        )
    if _plain(pairs) and PLAIN.issuperset(map(type, pairs.values())):
        packed = _packed(pairs)
        if packed is not None:
            writer.parts.append(packed)
            return
    append = writer.parts.append
    append(_wire.map_header(len(pairs)))
    leaves = LEAVES
    key = item = None
    in_key = False
    try:
        for key, item in pairs.items():
            leaf = leaves.get(type(key))
            if leaf is not None:
                append(leaf(key))
            else:
                in_key = True
                writer.write(key, depth + 1)
                in_key = False
            leaf = leaves.get(type(item))
            if leaf is not None:
                append(leaf(item))
            else:
                writer.write(item, depth + 1)
    except Refusal as refusal:
        step = f"<key {_shown(key)}>" if in_key else f"[{_shown(key)}]"
        refusal.inside(step, value)
        raise


def _shown(key: object) -> str:
    try:
        return reprlib.repr(key)
    except Exception:  # noqa: BLE001 - the repr is the user's; the refusal matters more
        return f"a {type(key).__name__}"


def _set_of(code: int) -> CompositeEncoder:
    def write(writer: Writer, value: set[Any] | frozenset[Any], depth: int) -> None:
        writer.enter(depth)
        items = tuple(value)
        if flooded(items, len(items)):
            raise Refusal(
                f"more than {MAX_SAME_HASH} elements of the set have the same hash; store a list"
            )
        item = None
        encoded = []
        try:
            for item in items:
                encoded.append(writer.separate(item, depth + 1))
        except Refusal as refusal:
            refusal.inside(f"<element {_shown(item)}>", value)
            raise
        encoded.sort()
        mark = writer.open_ext()
        writer.parts.append(_wire.array_header(len(encoded)) + b"".join(encoded))
        writer.close_ext(mark, code)

    return write


def _opaque(writer: Writer, value: Opaque, depth: int) -> None:
    writer.parts.append(_wire.ext(value.code, value.data))


COMPOSITES.update(
    {
        list: _list,
        tuple: _tuple,
        dict: _dict,
        set: _set_of(_wire.SET),
        frozenset: _set_of(_wire.FROZENSET),
        Opaque: _opaque,
    }
)


def _read_tuple(reader: Reader, end: int, depth: int) -> tuple[Any, ...]:
    return tuple(reader.array(depth))


def _read_set(reader: Reader, end: int, depth: int) -> set[Any]:
    return set(_elements(reader, depth))


def _read_frozenset(reader: Reader, end: int, depth: int) -> frozenset[Any]:
    return frozenset(_elements(reader, depth))


def _elements(reader: Reader, depth: int) -> set[Any]:
    start = reader.pos
    items = reader.array(depth)
    if flooded(items, len(items)):
        raise reader.corrupt(f"a set has more than {MAX_SAME_HASH} elements of one hash", start)
    elements = set(items)
    if len(elements) != len(items):
        raise reader.corrupt("a set has an element twice", start)
    return elements


DECODERS.update(
    {
        _wire.TUPLE: _read_tuple,
        _wire.SET: _read_set,
        _wire.FROZENSET: _read_frozenset,
    }
)
