"""The wire format: plain msgpack, and one table of extension codes.

A value that msgpack has is written as msgpack has it, always in the shortest form:

==========  =====================================================================================
None, bool  nil, true, false
int         fixint, (u)int 8 to 64, for -2**63 <= value < 2**64; beyond that extension 1
float       float 64 (the bits of the double, NaN payload included)
str         str, UTF-8; with lone surrogates extension 3
bytes       bin
list        array
dict        map, in the order of the dict
==========  =====================================================================================

Everything else is an extension value whose payload is raw bytes, or one msgpack value that may
hold extension values in turn. Integers and floats in raw payloads are big-endian, as in msgpack,
except for the data of arrays and tensors and of numpy scalars, which is little-endian unless the
dtype says otherwise.

====  =================  ==========================================================================
code  type               payload
====  =================  ==========================================================================
1     int                two's complement, as few bytes as possible
2     complex            two float 64, real and imaginary
3     str                UTF-8 in which lone surrogates are encoded like any code point
4     bytearray          the bytes
5     tuple              array
6     set                array, ordered by the encoded bytes of the elements
7     frozenset          array, ordered like a set's
8     range              array [start, stop, step]
16    Decimal            ASCII text as `str` gives it, with a capital E
17    Fraction           array [numerator, denominator], reduced, the denominator positive
18    date               array [year, month, day]
19    time               array [hour, minute, second, microsecond, fold, zone or nil]
20    datetime           array [year, month, day, hour, minute, second, microsecond, fold, zone or
                         nil]
21    timedelta          array [days, seconds, microseconds], 0 <= seconds < 86400 and
                         0 <= microseconds < 10**6
22    timezone           array [days, seconds, microseconds] of the offset, and a fourth entry, the
                         name (str), where one was given
23    ZoneInfo           the key, UTF-8
24    UUID               16 bytes, and a byte 1 (safe) or 2 (unsafe) where `is_safe` is known
25    path               array [flavour, text]; flavour 0 PurePosixPath, 1 PureWindowsPath,
                         2 PosixPath, 3 WindowsPath
32    numpy.ndarray      array [dtype, shape, order, data]; shape an array of ints, order "C" or
                         "F" (F where only Fortran order is contiguous), data a bin
33    numpy scalar       array [dtype, data]
34    numpy.str_         UTF-8 as in extension 3
35    numpy.bytes_       the bytes
40    numpy.bool_        1 byte, 0 or 1
41    numpy.int8 ...     int8, int16, int32, int64 are 41 to 44; uint8 to uint64 are 45 to 48;
                         float16, float32, float64 are 49 to 51; complex64, complex128 are 52, 53;
                         the payload is the little-endian item
64    torch.Tensor       array [dtype, shape, data]; dtype the name without "torch.", shape an
                         array of ints, data a bin in C order
65    torch.Size         array of ints
66    torch.dtype        the name without "torch.", ASCII
67    torch.device       array [type, index or nil]
96    registered type    array [name, value]; value is what the type's registered encoder returned
====  =================  ==========================================================================

A numpy dtype is a str or an array:

- a str such as "<f4", ">i8", "|b1", "<U5", "|S3", "|V16", "<M8[25s]": numpy's own `dtype.str`.
  Where a platform has two types for it (C long and long long), ":" and numpy's type character
  follow for the one that is not the default ("<i8:q"). A long double is "<f16x87" or "<f16quad"
  (complex: "<c32x87", "<c32quad"), after its number format; unused bytes of x87 numbers are zero.
- array [base, shape]: a subarray.
- array [fields, item size, aligned]: a structured dtype. Each field is an array [name, dtype,
  offset] or, with a title, [name, dtype, offset, title]. Bytes of the item that belong to no
  field are zero.

An array, tensor or scalar of bools holds only the bytes 0 and 1, and a str of numpy only code
points up to 0x10FFFF. The strides of an array or tensor are not kept.

Limits: lists, dicts, tuples, sets, frozensets and registered values may be inside each other up to
`_limits.MAX_DEPTH` of them, and the arrays that describe a dtype up to 64; nothing else counts.
No dict has two equal keys and no set two equal elements. The other limits are in `_limits`.

A reader also takes longer forms than the shortest one, sets in another order, and float 32. It
refuses bytes behind the value, and payloads with bytes behind theirs. An extension value whose
code, registered name, dtype, time zone or kind of path it does not know it keeps as it is.
"""

from __future__ import annotations

import struct
from typing import Final

from ..errors import TooLargeError
from ._limits import MAX_BYTES

INT: Final = 1
COMPLEX: Final = 2
STR: Final = 3
BYTEARRAY: Final = 4
TUPLE: Final = 5
SET: Final = 6
FROZENSET: Final = 7
RANGE: Final = 8

DECIMAL: Final = 16
FRACTION: Final = 17
DATE: Final = 18
TIME: Final = 19
DATETIME: Final = 20
TIMEDELTA: Final = 21
TIMEZONE: Final = 22
ZONEINFO: Final = 23
UUID: Final = 24
PATH: Final = 25

NDARRAY: Final = 32
NUMPY_SCALAR: Final = 33
NUMPY_STR: Final = 34
NUMPY_BYTES: Final = 35
NUMPY_PLAIN: Final[dict[int, str]] = {
    40: "|b1",
    41: "|i1",
    42: "<i2",
    43: "<i4",
    44: "<i8",
    45: "|u1",
    46: "<u2",
    47: "<u4",
    48: "<u8",
    49: "<f2",
    50: "<f4",
    51: "<f8",
    52: "<c8",
    53: "<c16",
}
"""Code to dtype of the numpy scalars that have an extension code of their own."""

TENSOR: Final = 64
TORCH_SIZE: Final = 65
TORCH_DTYPE: Final = 66
TORCH_DEVICE: Final = 67

REGISTERED: Final = 96

NAMES: Final[dict[int, str]] = {
    INT: "int",
    COMPLEX: "complex",
    STR: "str",
    BYTEARRAY: "bytearray",
    TUPLE: "tuple",
    SET: "set",
    FROZENSET: "frozenset",
    RANGE: "range",
    DECIMAL: "decimal.Decimal",
    FRACTION: "fractions.Fraction",
    DATE: "datetime.date",
    TIME: "datetime.time",
    DATETIME: "datetime.datetime",
    TIMEDELTA: "datetime.timedelta",
    TIMEZONE: "datetime.timezone",
    ZONEINFO: "zoneinfo.ZoneInfo",
    UUID: "uuid.UUID",
    PATH: "pathlib path",
    NDARRAY: "numpy.ndarray",
    NUMPY_SCALAR: "numpy scalar",
    NUMPY_STR: "numpy.str_",
    NUMPY_BYTES: "numpy.bytes_",
    **{code: f"numpy scalar {dtype}" for code, dtype in NUMPY_PLAIN.items()},
    TENSOR: "torch.Tensor",
    TORCH_SIZE: "torch.Size",
    TORCH_DTYPE: "torch.dtype",
    TORCH_DEVICE: "torch.device",
    REGISTERED: "registered type",
}
"""What to call a value of that code when people read about it."""

_FIXED_EXT: Final = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}


def ext_header(code: int, size: int) -> bytes:
    """The header of an extension value with `size` bytes of payload (the shortest form)."""
    fixed = _FIXED_EXT.get(size)
    if fixed is not None:
        return bytes((fixed, code & 0xFF))
    if size <= 0xFF:
        return bytes((0xC7, size, code & 0xFF))
    if size <= 0xFFFF:
        return struct.pack(">BHb", 0xC8, size, code)
    return struct.pack(">BIb", 0xC9, _fits(size, "bytes"), code)


def ext(code: int, payload: bytes) -> bytes:
    """A whole extension value."""
    return ext_header(code, len(payload)) + payload


def bin_header(size: int) -> bytes:
    """The header of a bin with `size` bytes."""
    if size <= 0xFF:
        return bytes((0xC4, size))
    if size <= 0xFFFF:
        return struct.pack(">BH", 0xC5, size)
    return struct.pack(">BI", 0xC6, _fits(size, "bytes"))


def str_header(size: int) -> bytes:
    """The header of a str with `size` bytes of UTF-8."""
    if size <= 0x1F:
        return bytes((0xA0 | size,))
    if size <= 0xFF:
        return bytes((0xD9, size))
    if size <= 0xFFFF:
        return struct.pack(">BH", 0xDA, size)
    return struct.pack(">BI", 0xDB, _fits(size, "bytes"))


def array_header(count: int) -> bytes:
    """The header of an array of `count` values."""
    if count <= 0xF:
        return bytes((0x90 | count,))
    if count <= 0xFFFF:
        return struct.pack(">BH", 0xDC, count)
    return struct.pack(">BI", 0xDD, _fits(count, "entries"))


def map_header(count: int) -> bytes:
    """The header of a map of `count` pairs."""
    if count <= 0xF:
        return bytes((0x80 | count,))
    if count <= 0xFFFF:
        return struct.pack(">BH", 0xDE, count)
    return struct.pack(">BI", 0xDF, _fits(count, "entries"))


def _fits(size: int, what: str) -> int:
    if size > MAX_BYTES:
        raise TooLargeError(
            f"a value of {size} {what} cannot be stored: the limit is {MAX_BYTES} {what}; "
            "split it into smaller values"
        )
    return size
