"""The two functions of the codec."""

from __future__ import annotations

from typing import Any

from ._decode import decode_with
from ._encode import encode_composite
from ._registry import DEFAULT, Registry
from ._tables import LEAVES

__all__ = ["decode", "encode"]


def encode(value: Any, *, registry: Registry | None = None) -> bytes:
    r"""The bytes of a value, equal for equal type, bits and order on every process.

    Does not communicate; a tensor that is not on the CPU is copied to it, which waits for its
    device. Safe to call from several threads.

    Args:
        value: None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set,
            frozenset, range; Decimal, Fraction, date, time, datetime, timedelta, timezone,
            ZoneInfo, UUID, pathlib paths; numpy scalars and arrays without objects; dense torch
            tensors (recorded detached), torch.Size, torch.dtype, torch.device; instances of
            registered types; and `Opaque`. Containers may hold all of these. Subclasses have to
            be registered. Of the memory layout, only Fortran order of an array is kept.
        registry: where registered types are looked up; by default the default registry.

    Raises:
        UnsupportedTypeError: the value, or something in it, cannot be stored exactly; `path` says
            where it is.
        TooLargeError: something in it exceeds a limit.

    >>> encode([1, 2.5])
    b'\x92\x01\xcb@\x04\x00\x00\x00\x00\x00\x00'
    >>> encode({"a": [object()]})
    Traceback (most recent call last):
    synchist.errors.UnsupportedTypeError: at ['a'][0]: a value of type object cannot be stored...
    """
    leaf = LEAVES.get(type(value))
    if leaf is not None:
        return leaf(value)
    return encode_composite(value, DEFAULT if registry is None else registry)


def decode(data: bytes | bytearray | memoryview, *, registry: Registry | None = None) -> Any:
    """The value that `encode` turned into these bytes.

    Each call gives new objects; arrays and tensors own their memory and can be written to, and
    tensors are on the CPU. A value whose type is not known here comes back as `Opaque`. Decoding
    executes nothing that is in the data; it imports numpy or torch where the data holds a value of
    theirs, and calls the decoders of registered types. Memory stays below 256 times the size of
    the data, plus a constant. Does not communicate. Safe to call from several threads.

    Args:
        data: all the bytes of one value; they may come from anywhere.
        registry: where registered names are looked up; by default the default registry.

    Raises:
        CorruptDataError: the bytes are not what `encode` writes; `offset` says where.
    """
    return decode_with(data, DEFAULT if registry is None else registry)
