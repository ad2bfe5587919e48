"""What each first byte stands for: the readers of msgpack's own types and of extension values."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from ..errors import SynchistError
from . import _containers, _scalars, _stdlib, _wire
from ._limits import MAX_SAME_HASH, flooded
from ._opaque import Opaque
from ._reader import Reader
from ._registry import Registry
from ._tables import DECODERS, ITEMS, ItemReader

__all__ = ["decode_with"]

_FILLED: Final = (_containers, _scalars, _stdlib)
"""Imported for their entries in the table of decoders."""

_COPIED: Final = 1 << 16
"""Inputs up to this size are copied into bytes, which are faster to read than a memoryview."""

_float32: Final = struct.Struct(">f").unpack_from
_float64: Final = struct.Struct(">d").unpack_from
_uint16: Final = struct.Struct(">H").unpack_from
_uint32: Final = struct.Struct(">I").unpack_from
_uint64: Final = struct.Struct(">Q").unpack_from
_int8: Final = struct.Struct(">b").unpack_from
_int16: Final = struct.Struct(">h").unpack_from
_int32: Final = struct.Struct(">i").unpack_from
_int64: Final = struct.Struct(">q").unpack_from


def decode_with(data: bytes | bytearray | memoryview, registry: Registry) -> Any:
    """The value that `data` encodes, all of it.

    Raises:
        CorruptDataError: the data is not what `encode` writes.
    """
    if type(data) is not bytes:
        view = memoryview(data)
        copied = view.nbytes <= _COPIED or not view.c_contiguous
        data = view.tobytes() if copied else view.cast("B")
    reader = Reader(data, registry)
    try:
        value = reader.item(0)
    except (SynchistError, MemoryError, RecursionError):
        raise
    except Exception as error:
        raise reader.corrupt(f"a value cannot be rebuilt ({error!r})") from error
    if reader.pos != len(data):
        raise reader.corrupt(f"{len(data) - reader.pos} bytes follow the value")
    return value


def _fixint(reader: Reader, first: int, depth: int) -> int:
    return first if first < 0x80 else first - 0x100


def _number(unpack: Callable[[Any, int], tuple[Any, ...]], size: int) -> ItemReader:
    def read(reader: Reader, first: int, depth: int) -> Any:
        start = reader.pos
        try:
            (value,) = unpack(reader.data, start)
        except struct.error:
            raise reader.short(size) from None
        reader.pos = start + size
        return value

    return read


def _fixstr(reader: Reader, first: int, depth: int) -> str:
    return _utf8(reader, first & 0x1F)


def _str(reader: Reader, first: int, depth: int) -> str:
    return _utf8(reader, reader.length(first))


def _utf8(reader: Reader, size: int) -> str:
    start = reader.pos
    end = reader.needed(size)
    try:
        value = str(reader.data[start:end], "utf-8")
    except UnicodeDecodeError as error:
        raise reader.corrupt("a str is not valid UTF-8", start + error.start) from error
    reader.pos = end
    return value


def _bin(reader: Reader, first: int, depth: int) -> bytes:
    return reader.raw(reader.needed(reader.length(first)))


def _fixarray(reader: Reader, first: int, depth: int) -> list[Any]:
    reader.pos -= 1
    return reader.array(depth)


def _fixmap(reader: Reader, first: int, depth: int) -> dict[Any, Any]:
    return _pairs(reader, first & 0xF, depth)


def _map(reader: Reader, first: int, depth: int) -> dict[Any, Any]:
    return _pairs(reader, reader.length(first), depth)


def _pairs(reader: Reader, count: int, depth: int) -> dict[Any, Any]:
    start = reader.pos
    reader.enter(depth)
    reader.needed(2 * count)
    item = reader.item
    depth += 1
    if count > MAX_SAME_HASH:
        flat = [item(depth) for _ in range(2 * count)]
        keys = flat[::2]
        try:
            if flooded(keys, count):
                raise reader.corrupt(
                    f"more than {MAX_SAME_HASH} keys of a dict have one hash", start
                )
            pairs = dict(zip(keys, flat[1::2], strict=True))
        except TypeError as error:
            raise reader.corrupt(f"a key of a dict cannot be one ({error})", start) from error
    else:
        pairs = {}
        for _ in range(count):
            key = item(depth)
            try:
                pairs[key] = item(depth)
            except TypeError as error:
                raise reader.corrupt(f"a key of a dict cannot be one ({error})", start) from error
    if len(pairs) != count:
        raise reader.corrupt("a dict has a key twice", start)
    return pairs


def _fixext(reader: Reader, first: int, depth: int) -> Any:
    return _ext(reader, 1 << (first - 0xD4), depth)


def _ext_sized(reader: Reader, first: int, depth: int) -> Any:
    return _ext(reader, reader.length(first), depth)


def _ext(reader: Reader, size: int, depth: int) -> Any:
    end = reader.needed(size + 1)
    (code,) = _int8(reader.data, reader.pos)
    reader.pos += 1
    start = reader.pos
    decoder = DECODERS.get(code) or reader.learn(code)
    if decoder is None:
        name = _wire.NAMES.get(code, f"extension {code}")
        return Opaque(code, reader.raw(end), name)
    try:
        value = decoder(reader, end, depth)
    except (SynchistError, MemoryError, RecursionError):
        raise
    except Exception as error:
        name = _wire.NAMES[code]
        raise reader.corrupt(f"a {name} cannot be rebuilt ({error!r})", start) from error
    if reader.pos != end:
        raise reader.corrupt(f"a {_wire.NAMES[code]} does not end where it should", start)
    return value


def _reserved(reader: Reader, first: int, depth: int) -> Any:
    raise reader.corrupt("no value starts with the byte 0xc1", reader.pos - 1)


def _table() -> list[ItemReader]:
    table: list[ItemReader] = [_reserved] * 256
    for first in (*range(0x80), *range(0xE0, 0x100)):
        table[first] = _fixint
    table[0x80:0x90] = [_fixmap] * 0x10
    table[0x90:0xA0] = [_fixarray] * 0x10
    table[0xA0:0xC0] = [_fixstr] * 0x20
    table[0xC0] = lambda reader, first, depth: None
    table[0xC2] = lambda reader, first, depth: False
    table[0xC3] = lambda reader, first, depth: True
    table[0xC4:0xC7] = [_bin] * 3
    table[0xC7:0xCA] = [_ext_sized] * 3
    table[0xCA] = _number(_float32, 4)
    table[0xCB] = _number(_float64, 8)
    table[0xCC] = _number(struct.Struct("B").unpack_from, 1)
    table[0xCD] = _number(_uint16, 2)
    table[0xCE] = _number(_uint32, 4)
    table[0xCF] = _number(_uint64, 8)
    table[0xD0] = _number(_int8, 1)
    table[0xD1] = _number(_int16, 2)
    table[0xD2] = _number(_int32, 4)
    table[0xD3] = _number(_int64, 8)
    table[0xD4:0xD9] = [_fixext] * 5
    table[0xD9:0xDC] = [_str] * 3
    table[0xDC:0xDE] = [_fixarray] * 2
    table[0xDE:0xE0] = [_map] * 2
    return table


ITEMS.extend(_table())
