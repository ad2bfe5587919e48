"""numpy scalars and arrays."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Final

from . import _wire
from ._dtypes import BadDtype, UnknownDtype, describe, mask, rebuild
from ._encode import Refusal, Writer
from ._limits import MAX_DEPTH, MAX_DIMENSIONS, MAX_EMPTY_ITEM
from ._opaque import Opaque
from ._scalars import pack_int, pack_str, text, text_bytes
from ._tables import COMPOSITES, DECODERS, LEAVES, LeafEncoder

if TYPE_CHECKING:
    from ._reader import Reader

__all__ = ["CODES", "install"]

CODES: Final = (
    _wire.NDARRAY,
    _wire.NUMPY_SCALAR,
    _wire.NUMPY_STR,
    _wire.NUMPY_BYTES,
    *_wire.NUMPY_PLAIN,
)
"""The extension codes that it takes numpy to read."""

_DTYPE_DEPTH: Final = MAX_DEPTH - 64
"""Where the description of a dtype stands: it may have 64 arrays inside each other."""

_COPIED: Final = 1 << 16
"""Data up to this size is copied once more, which is faster than taking a view of it."""

np: Any = None
_dtypes: dict[str, Any] = {}
_tokens: dict[int, bytes] = {}
"""The most common dtypes by name, and what stands for them by identity (numpy has one of each)."""


def install(numpy: Any) -> None:
    """Adds numpy's types to the tables."""
    global np, _dtypes, _tokens
    np = numpy
    _dtypes = {token: np.dtype(token) for token in _wire.NUMPY_PLAIN.values()}
    _tokens = {id(dtype): pack_str(token) for token, dtype in _dtypes.items()}
    for code, token in _wire.NUMPY_PLAIN.items():
        dtype = _dtypes[token]
        LEAVES[dtype.type] = _plain_encoder(code, dtype.itemsize)
        DECODERS[code] = _plain_decoder(dtype)
    LEAVES[np.str_] = lambda value: _wire.ext(_wire.NUMPY_STR, text_bytes(str(value)))
    LEAVES[np.bytes_] = lambda value: _wire.ext(_wire.NUMPY_BYTES, bytes(value))
    for kind in (np.datetime64, np.timedelta64, np.void, *_twins()):
        COMPOSITES[kind] = _write_scalar
    COMPOSITES[np.ndarray] = _write_array
    DECODERS[_wire.NDARRAY] = _read_array
    DECODERS[_wire.NUMPY_SCALAR] = _read_scalar
    DECODERS[_wire.NUMPY_STR] = lambda reader, end, depth: np.str_(text(reader.raw(end)))
    DECODERS[_wire.NUMPY_BYTES] = lambda reader, end, depth: np.bytes_(reader.raw(end))


def _twins() -> set[Any]:
    """Scalar types without a code of their own: long double, and C types of equal size."""
    return {np.dtype(char).type for char in "bhilqBHILQdDgG"} - set(LEAVES)


def _plain_encoder(code: int, size: int) -> LeafEncoder:
    header = _wire.ext_header(code, size)
    if sys.byteorder == "little":
        return lambda value: header + value.tobytes()
    return lambda value: header + value.byteswap().tobytes()


def _plain_decoder(dtype: Any) -> Any:
    def read(reader: Reader, end: int, depth: int) -> Any:
        start = reader.pos
        raw = reader.raw(end)
        if len(raw) != dtype.itemsize or (dtype.kind == "b" and raw[0] > 1):
            raise reader.corrupt(f"a numpy {dtype.name} has a wrong payload", start)
        return np.frombuffer(raw, dtype)[0]

    return read


def _write_scalar(writer: Writer, value: Any, depth: int) -> None:
    array = np.asarray(value)
    mark = writer.open_ext()
    writer.parts.append(b"\x92")
    _write_dtype(writer, array.dtype)
    _write_data(writer, array)
    writer.close_ext(mark, _wire.NUMPY_SCALAR)


def _write_array(writer: Writer, value: Any, depth: int) -> None:
    if value.nbytes == 0 and not _backed(value.shape, value.dtype.itemsize):
        raise Refusal("an array without any bytes of data has too many items, or too large ones")
    fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    mark = writer.open_ext()
    append = writer.parts.append
    append(b"\x94")
    _write_dtype(writer, value.dtype)
    append(_wire.array_header(value.ndim) + b"".join(map(pack_int, value.shape)))
    append(b"\xa1F" if fortran else b"\xa1C")
    _write_data(writer, value.T if fortran else value)
    writer.close_ext(mark, _wire.NDARRAY)


def _write_dtype(writer: Writer, dtype: Any) -> None:
    token = _tokens.get(id(dtype))
    if token is not None:
        writer.parts.append(token)
    else:
        writer.write(describe(np, dtype), _DTYPE_DEPTH)


def _read_dtype(reader: Reader) -> Any:
    described = reader.item(_DTYPE_DEPTH)
    if type(described) is str and described in _dtypes:
        return _dtypes[described]
    return rebuild(np, described)


def _write_data(writer: Writer, array: Any) -> None:
    if not _sound(array):
        raise Refusal(
            "the array has bools other than 0 and 1 or characters beyond Unicode; convert it with "
            "astype to the dtype it should have"
        )
    used = mask(np, array.dtype)
    size = array.nbytes
    header = _wire.bin_header(size)
    if size == 0:
        writer.parts.append(header)
        return
    if size <= _COPIED and used is None:
        writer.parts.append(header + array.tobytes())
        return
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    raw = array.reshape(-1).view("u1")
    if used is not None:
        raw = (raw.reshape(-1, used.size) & used).reshape(-1)
    writer.parts.append(header)
    writer.parts.append(raw.data)


def _sound(array: Any) -> bool:
    """Whether no item is one that numpy would never make itself, nor handle well."""
    dtype = array.dtype
    if dtype.names is not None:
        return all(_sound(array[name]) for name in dtype.names)
    if dtype.kind == "b":
        return array.size == 0 or int(array.view("u1").max()) <= 1
    if dtype.kind == "U" and array.size and dtype.itemsize:
        codes = np.ascontiguousarray(array).view(dtype.byteorder.replace("|", "=") + "u4")
        return int(codes.max()) <= sys.maxunicode
    return True


def _read_scalar(reader: Reader, end: int, depth: int) -> Any:
    start = reader.pos
    if reader.array_header() != 2:
        raise reader.corrupt("a numpy scalar is not a pair", start)
    try:
        dtype = _read_dtype(reader)
    except UnknownDtype:
        reader.pos = start
        return Opaque(_wire.NUMPY_SCALAR, reader.raw(end), "numpy scalar")
    except BadDtype as error:
        raise reader.corrupt(str(error), start) from error
    if dtype.subdtype is not None:
        raise reader.corrupt("a numpy scalar cannot be a subarray", start)
    # A structured scalar is a view into its array; the array is kept by nothing else.
    return _filled(reader, dtype, (), "C")[()]


def _read_array(reader: Reader, end: int, depth: int) -> Any:
    start = reader.pos
    if reader.array_header() != 4:
        raise reader.corrupt("a numpy array is not four values", start)
    try:
        dtype = _read_dtype(reader)
    except UnknownDtype:
        reader.pos = start
        return Opaque(_wire.NDARRAY, reader.raw(end), "numpy.ndarray")
    except BadDtype as error:
        raise reader.corrupt(str(error), start) from error
    if dtype.subdtype is not None:
        raise reader.corrupt("the dtype of an array cannot be a subarray", start)
    shape = tuple(reader.ints(0, MAX_DIMENSIONS))
    order = reader.text()
    if order not in ("C", "F"):
        raise reader.corrupt(f"an array cannot be in order {order!r:.40}", start)
    return _filled(reader, dtype, shape, order)


def _filled(reader: Reader, dtype: Any, shape: tuple[int, ...], order: str) -> Any:
    """A new array with the data that comes next; nothing is allocated unless it all fits."""
    start = reader.pos
    data = reader.bin_view()
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data):
        raise reader.corrupt(
            f"{len(data)} bytes of data do not make an array of shape {shape!r:.80} and {dtype}",
            start,
        )
    if not len(data):
        if not _backed(shape, dtype.itemsize):
            raise reader.corrupt(f"an array without data has the shape {shape!r:.80}", start)
        return np.ndarray(shape, dtype, order=order)
    # Not np.empty: it takes some dtypes, such as "U0" and big-endian dates, for others.
    array = np.ndarray(shape, dtype, order=order)
    array.reshape(-1, order="A").view("u1")[:] = np.frombuffer(data, "u1")
    if not _sound(array):
        raise reader.corrupt("an array has bools or characters that do not exist", start)
    return array


def _backed(shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether an array without data is sensible: there, shape and item size could say anything."""
    if 0 in shape:
        extent = math.prod(n for n in shape if n) * max(itemsize, 1)
        return itemsize <= MAX_EMPTY_ITEM and extent <= sys.maxsize
    return math.prod(shape) <= MAX_EMPTY_ITEM
