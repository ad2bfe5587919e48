"""Decoding hostile bytes takes no more memory than promised."""

from __future__ import annotations

import datetime as dt
import gc
import tracemalloc

import pytest

from synchist.codec import decode, encode
from synchist.codec._wire import array_header, str_header
from synchist.errors import CorruptDataError

from .forged import shaped, tensor
from .values import registry

FIXED = 1 << 16
"""Bytes that decoding may take whatever the size of the data."""


def growth(data: bytes) -> int:
    """The most memory that decoding takes at any time, beyond the data itself."""
    gc.collect()
    tracemalloc.start()
    try:
        decode(data, registry=registry)
    except CorruptDataError:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


HUNGRY: dict[str, bytes] = {
    "false lengths inside each other": b"\xdd\x00\x00\x20\x00" * 60 + b"\xc0" * 8192,
    "false lengths of maps": b"\xdf\x00\x00\x0f\xff" * 60 + b"\xc0" * 8192,
    "empty lists": array_header(6000) + b"\x90" * 6000,
    "empty dicts": array_header(6000) + b"\x80" * 6000,
    "lists of one": array_header(6000) + b"\x91\xc0" * 6000,
    "dicts of one": array_header(6000) + b"\x81\xc0\xc0" * 6000,
    "tuples": array_header(6000) + b"\xd4\x05\x90" * 6000,
    "empty sets": array_header(6000) + b"\xd4\x06\x90" * 6000,
    "sets of one": array_header(6000) + b"\xd5\x06\x91\x01" * 6000,
    "sets of five": array_header(3000) + b"\xd6\x06\x93\x01\x02\x03" * 3000,
    "bytearrays": array_header(6000) + b"\xd4\x04x" * 6000,
    "ranges": array_header(3000) + b"\xd6\x08\x93\x01\x02\x03" * 3000,
    "opaque values": array_header(6000) + b"\xd4\x64x" * 6000,
    "wide text": str_header(40004) + "\U0001f600".encode() + b"x" * 40000,
    "a large announced string": b"\xdb\xff\xff\xff\xff" + b"x" * 1000,
    "a large announced bin": b"\xc6\xff\xff\xff\xff" + b"x" * 1000,
    "a large announced array": shaped("<f8", (2**28,), b"x" * 8),
    "an array with a huge shape": shaped("|u1", (2**62, 2**62), b"x"),
    "an empty array with a huge shape": shaped("|u1", (2**62, 0)),
    "an empty array with huge items": shaped("|S2147483647", (0,)),
    "an empty array with large items": shaped("|S1000000", (0,)),
    "items without bytes": shaped("|V0", (2**40,)),
    "negative dimensions": shaped("|u1", (-2, -4), b"x" * 8),
    "a subarray with a huge shape": shaped([[["a", ["<f8", [2**30]], 0]], 2**31 - 1, False], (0,)),
    "structured dtypes": array_header(400)
    + shaped([[["a", "|u1", 0], ["b", "|u1", 1], ["c", "|u1", 2]], 3, False], (1,), b"abc") * 400,
    "arrays of many dimensions": array_header(400) + shaped("|u1", (1,) * 32, b"a") * 400,
    "small arrays": array_header(1000) + shaped("|u1", (), b"a") * 1000,
    "a tensor with a huge shape": tensor("float32", (2**40,), b"x" * 4),
    "an empty tensor with a huge shape": tensor("float32", (2**40, 0)),
    "tensors": array_header(400) + tensor("uint8", (1,), b"a") * 400,
    "datetimes": array_header(1000) + encode(dt.datetime(2020, 1, 1, tzinfo=dt.UTC)) * 1000,
}


@pytest.mark.parametrize("name", HUNGRY)
def test_decoding_takes_less_than_256_times_the_data(name: str) -> None:
    data = HUNGRY[name]
    growth(data)  # what is loaded or cached once does not count
    assert growth(data) < 256 * len(data) + FIXED
