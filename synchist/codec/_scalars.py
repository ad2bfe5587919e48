"""Python's own leaf types: how each is written and, where it has an extension code, read.

All of them are leaves: written whole by one function.
"""

from __future__ import annotations

import struct
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Final

from . import _wire
from ._tables import DECODERS, LEAVES

if TYPE_CHECKING:
    from ._reader import Reader

__all__ = ["PLAIN", "pack_int", "pack_str", "text", "text_bytes"]

PLAIN: Final[frozenset[type]] = frozenset({NoneType, bool, int, float, str, bytes})
"""Leaf types that are immutable and (but for huge ints and lone surrogates) plain msgpack."""

_SMALL: Final = tuple(bytes((n,)) for n in range(0x80))
_NEGATIVE: Final = tuple(bytes((0x100 + n,)) for n in range(-0x20, 0))
_STR: Final = tuple(bytes((0xA0 | n,)) for n in range(0x20))

_uint16: Final = struct.Struct(">BH").pack
_uint32: Final = struct.Struct(">BI").pack
_uint64: Final = struct.Struct(">BQ").pack
_int8: Final = struct.Struct(">Bb").pack
_int16: Final = struct.Struct(">Bh").pack
_int32: Final = struct.Struct(">Bi").pack
_int64: Final = struct.Struct(">Bq").pack
_complex: Final = struct.Struct(">dd")


def _none(_: None) -> bytes:
    return b"\xc0"


def _bool(value: bool) -> bytes:
    return b"\xc3" if value else b"\xc2"


def pack_int(value: int) -> bytes:
    """An int of any size."""
    if value >= 0:
        if value < 0x80:
            return _SMALL[value]
        if value <= 0xFF:
            return bytes((0xCC, value))
        if value <= 0xFFFF:
            return _uint16(0xCD, value)
        if value <= 0xFFFFFFFF:
            return _uint32(0xCE, value)
        if value <= 0xFFFFFFFFFFFFFFFF:
            return _uint64(0xCF, value)
    elif value >= -0x8000000000000000:
        if value >= -0x20:
            return _NEGATIVE[value]
        if value >= -0x80:
            return _int8(0xD0, value)
        if value >= -0x8000:
            return _int16(0xD1, value)
        if value >= -0x80000000:
            return _int32(0xD2, value)
        return _int64(0xD3, value)
    bits = (value if value >= 0 else ~value).bit_length()
    return _wire.ext(_wire.INT, value.to_bytes((bits + 8) // 8, "big", signed=True))


def pack_str(value: str) -> bytes:
    """A str, with lone surrogates or without."""
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        return _wire.ext(_wire.STR, text_bytes(value))
    size = len(raw)
    if size < 0x20:
        return _STR[size] + raw
    return _wire.str_header(size) + raw


def text_bytes(value: str) -> bytes:
    """The UTF-8 of a str; lone surrogates are encoded like any code point."""
    return value.encode("utf-8", "surrogatepass")


def text(raw: bytes) -> str:
    """The str that `text_bytes` encoded."""
    return raw.decode("utf-8", "surrogatepass")


def _bytes(value: bytes) -> bytes:
    return _wire.bin_header(len(value)) + value


def _bytearray(value: bytearray) -> bytes:
    return _wire.ext(_wire.BYTEARRAY, bytes(value))


def _pack_complex(value: complex) -> bytes:
    return _wire.ext(_wire.COMPLEX, _complex.pack(value.real, value.imag))


def _range(value: range) -> bytes:
    payload = b"\x93" + pack_int(value.start) + pack_int(value.stop) + pack_int(value.step)
    return _wire.ext(_wire.RANGE, payload)


LEAVES.update(
    {
        NoneType: _none,
        bool: _bool,
        int: pack_int,
        float: partial(struct.Struct(">Bd").pack, 0xCB),
        str: pack_str,
        bytes: _bytes,
        bytearray: _bytearray,
        complex: _pack_complex,
        range: _range,
    }
)


def _read_int(reader: Reader, end: int, depth: int) -> int:
    return int.from_bytes(reader.raw(end), "big", signed=True)


def _read_complex(reader: Reader, end: int, depth: int) -> complex:
    real, imag = _complex.unpack(reader.raw(end))
    return complex(real, imag)


def _read_str(reader: Reader, end: int, depth: int) -> str:
    return text(reader.raw(end))


def _read_bytearray(reader: Reader, end: int, depth: int) -> bytearray:
    return bytearray(reader.raw(end))


def _read_range(reader: Reader, end: int, depth: int) -> range:
    start, stop, step = reader.ints(3)
    return range(start, stop, step)


DECODERS.update(
    {
        _wire.INT: _read_int,
        _wire.COMPLEX: _read_complex,
        _wire.STR: _read_str,
        _wire.BYTEARRAY: _read_bytearray,
        _wire.RANGE: _read_range,
    }
)
