"""Hostile bytes do nothing: no code runs, no memory or time is lost, every failure is named."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from synchist.codec import Opaque, decode, encode
from synchist.codec._limits import MAX_DEPTH, MAX_SAME_HASH, MAX_ZONES
from synchist.codec._wire import array_header, ext
from synchist.errors import CorruptDataError

from .forged import shaped, tensor
from .fuzz import SEEDS, check, encodings, inputs
from .values import registry


def test_mutated_and_random_bytes_decode_or_are_corrupt_data() -> None:
    for data in inputs(seed=0, count=6000):
        try:
            check(data)
        except Exception as error:
            error.add_note(data.hex())
            raise


@given(st.binary(max_size=60))
def test_arbitrary_bytes_decode_or_are_corrupt_data(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("data", encodings(), ids=lambda data: data[:8].hex())
def test_every_truncation_is_corrupt_data_at_a_byte_that_exists(data: bytes) -> None:
    for size in range(min(len(data), 400)):
        with pytest.raises(CorruptDataError) as caught:
            decode(data[:size], registry=registry)
        assert caught.value.offset is not None
        assert 0 <= caught.value.offset <= size


def test_bytes_after_the_value_are_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="2 bytes follow the value, at byte 9") as caught:
        decode(encode(1.5) + b"ab")
    assert caught.value.offset == 9


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"", 0),
        (b"\xc1", 0),
        (b"\x93\x01\x02", 1),
        (b"\x92\x01\xcb\x00", 3),
        (b"\x92\x01\xa2\xc3\x28", 3),
        (b"\xdd\xff\xff\xff\xff\x00", 5),
        (b"\x91\xc7\xff\x05", 3),
        (b"\x91\xd4\x05\xc0", 3),
        (b"\x82\x01\x02\x01\x03", 1),
        (b"\x81\x90\x01", 1),
    ],
)
def test_the_error_says_at_which_byte(data: bytes, offset: int) -> None:
    with pytest.raises(CorruptDataError, match=f"at byte {offset}$") as caught:
        decode(data)
    assert caught.value.offset == offset


# Time


def numbers_of_one_hash(count: int) -> Iterator[bytes]:
    return (encode(n * (2**61 - 1)) for n in range(count))


FLOODED = "one hash"

FLOODS: dict[str, bytes] = {
    "dict": b"\xdf" + (9000).to_bytes(4, "big") + b"\xc0".join(numbers_of_one_hash(9000)) + b"\xc0",
    "set": ext(6, array_header(9000) + b"".join(numbers_of_one_hash(9000))),
    "frozenset": ext(7, array_header(9000) + b"".join(numbers_of_one_hash(9000))),
}


@pytest.mark.parametrize("name", FLOODS)
def test_keys_of_one_hash_are_refused_before_they_cost_quadratic_time(name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(CorruptDataError, match=FLOODED):
        decode(FLOODS[name])
    assert time.perf_counter() - start < 5  # quadratic, it takes minutes


def test_as_many_keys_of_one_hash_as_may_be_come_back() -> None:
    keys = dict.fromkeys(n * (2**61 - 1) for n in range(MAX_SAME_HASH))
    assert decode(encode(keys)) == keys
    spread = dict.fromkeys(range(5000))
    assert decode(encode(spread)) == spread


def test_fractions_that_would_take_long_to_reduce_are_refused() -> None:
    number = encode(3**60000)
    with pytest.raises(CorruptDataError, match="Fraction"):
        decode(ext(17, b"\x92" + number + number))


def test_only_so_many_unknown_time_zones_are_looked_up() -> None:
    import zoneinfo

    looked_up = []

    class Zones:
        ZoneInfoNotFoundError = zoneinfo.ZoneInfoNotFoundError

        def ZoneInfo(self, key: str) -> Any:  # noqa: N802
            looked_up.append(key)
            raise zoneinfo.ZoneInfoNotFoundError(key)

    names = [b"X/Y%d" % n for n in range(MAX_ZONES + 50)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synchist.codec._stdlib.zoneinfo", Zones())
        values = decode(array_header(len(names)) + b"".join(ext(23, name) for name in names))
    assert len(looked_up) == MAX_ZONES
    assert {type(value) for value in values} == {Opaque}


# Structure


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: b"\x91" + inner,
        lambda inner: b"\x81\xc0" + inner,
        lambda inner: ext(5, b"\x91" + inner),
        lambda inner: ext(7, b"\x91" + inner),
        lambda inner: ext(96, b"\x92" + encode("tests.Labels/1") + b"\x81\xc0" + inner),
    ],
    ids=["list", "dict", "tuple", "frozenset", "registered"],
)
def test_data_nested_beyond_the_limit_is_refused(wrap: Any) -> None:
    data = b"\xc0"
    for _ in range(MAX_DEPTH + 1):
        data = wrap(data)
    with pytest.raises(CorruptDataError, match=f"deeper than {MAX_DEPTH}"):
        decode(data, registry=registry)


def test_a_million_levels_are_refused_at_once() -> None:
    with pytest.raises(CorruptDataError, match="deeper"):
        decode(b"\x91" * 1_000_000 + b"\xc0")


PICKLED_DATE = b"\x07\xe4\x02\x1d\x00\x00\x00\x00\x00\x00"

WRONG: dict[str, bytes] = {
    "a dict with a key twice": b"\x82\x01\xc0\x01\xc0",
    "a dict with equal keys": b"\x82\x01\xc0\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\xc0",
    "a dict with a list as key": b"\x81\x90\xc0",
    "a set with an element twice": ext(6, b"\x92\x01\x01"),
    "a set with a list in it": ext(6, b"\x91\x90"),
    "a str that is no UTF-8": b"\xa2\xc3\x28",
    "a tuple that is no array": ext(5, b"\x01"),
    "a tuple with more than its array": ext(5, b"\x91\x01\x01"),
    "a tuple longer than its payload": b"\x92" + ext(5, b"\x92\x01") + b"\x01",
    "a complex of 3 bytes": ext(2, b"abc"),
    "a range of step 0": ext(8, b"\x93\x01\x02\x00"),
    "a range of floats": ext(8, b"\x93\x01\x02" + encode(1.5)),
    "a Decimal with a space": ext(16, b" 1"),
    "a Decimal with an underscore": ext(16, b"1_0"),
    "a Decimal that is none": ext(16, b"1x"),
    "a Decimal in other digits": ext(16, "\u0661".encode()),
    "a Fraction by 0": ext(17, b"\x92\x01\x00"),
    "a date of month 13": ext(18, b"\x93\xcd\x07\xe4\x0d\x01"),
    "a date from pickled state": ext(18, b"\x93" + encode(PICKLED_DATE[:4]) + b"\x01\x01"),
    "a datetime from pickled state": ext(20, b"\x92" + encode(PICKLED_DATE) + b"\xc0"),
    "a datetime with pickled state": ext(
        20, b"\x99" + encode(PICKLED_DATE) + b"\x01\x01\x01\x01\x01\x01\x01\xc0"
    ),
    "a datetime with a bool as month": ext(20, b"\x99\x01\xc3" + b"\x01" * 6 + b"\xc0"),
    "a time with a bool as hour": ext(19, b"\x96\xc3\x01\x01\x01\x01\xc0"),
    "a time with a number as zone": ext(19, b"\x96\x01\x01\x01\x01\x00\x01"),
    "a timedelta out of range": ext(21, b"\x93\xce\xff\xff\xff\xff\x00\x00"),
    "a timezone of a week": ext(22, b"\x93\x07\x00\x00"),
    "a zone outside of the folder": ext(23, b"../../etc/passwd"),
    "an absolute zone": ext(23, b"/etc/passwd"),
    "a UUID of 17 bytes": ext(24, b"x" * 16 + b"\x07"),
    "a path of an unknown flavour": ext(25, b"\x92\x09\xa1x"),
    "a path whose text is another": ext(25, b"\x92\x01\xa5./c:x"),
    "a registered value of one entry": ext(96, b"\x91\xa1x"),
    "a registered value with a number as name": ext(96, b"\x92\x01\x01"),
    "an Enum without the member": ext(96, b"\x92" + encode("tests.Colour/1") + encode("PINK")),
    "a Flag of a str": ext(96, b"\x92" + encode("tests.Access/1") + encode("READ")),
    "fields of another class": ext(96, b"\x92" + encode("tests.Sample/1") + encode({"x": 1})),
    "a dtype of objects": shaped("|O8", (1,), b"x" * 8),
    "a dtype by another name": shaped("float32", (1,), b"x" * 4),
    "a dtype that is a comma list": shaped("<f4,<f4", (1,), b"x" * 8),
    "a dtype that is a number": shaped(5, (1,), b"x" * 8),
    "a field of objects": shaped([[["a", "|O8", 0]], 8, False], (1,), b"x" * 8),
    "a field outside of its item": shaped([[["a", "<f8", 1]], 8, False], (1,), b"x" * 8),
    "a field before its item": shaped([[["a", "<f8", -1]], 8, False], (1,), b"x" * 8),
    "two fields of one name": shaped([[["a", "|u1", 0], ["a", "|u1", 1]], 2, False], (1,), b"xx"),
    "dates in units of 0 seconds": shaped("<M8[0s]", (1,), b"x" * 8),
    "an array of too few bytes": shaped("<f8", (2,), b"x" * 8),
    "an array of too many bytes": shaped("<f8", (1,), b"x" * 16),
    "an array of countless items without bytes": shaped("|V0", (2**40,)),
    "an empty array of huge items": shaped("|S2147483647", (0,)),
    "an array in order K": shaped("<f8", (1,), b"x" * 8, "K"),
    "an array of 65 dimensions": shaped("|u1", (1,) * 65, b"x"),
    "a bool of 2": shaped("|b1", (1,), b"\x02"),
    "a field with a bool of 2": shaped([[["a", "|b1", 0]], 1, False], (1,), b"\x02"),
    "a character beyond Unicode": shaped("<U1", (1,), b"\xff" * 4),
    "a numpy bool of 2": ext(40, b"\x02"),
    "a numpy float32 of 3 bytes": ext(50, b"abc"),
    "a numpy scalar of two items": ext(33, b"\x92" + encode("<M8[s]") + encode(b"x" * 16)),
    "a tensor of too few bytes": tensor("float32", (2,), b"x" * 4),
    "a tensor of a strange dtype": tensor("load('x')", (1,), b"x"),
    "a tensor of bools of 2": tensor("bool", (1,), b"\x02"),
    "a tensor of negative shape": tensor("uint8", (-1, -1), b"x"),
    "a torch.Size of strs": ext(65, b"\x91\xa1x"),
    "a torch.device of a strange kind": ext(67, b"\x92\xa3a:b\x01"),
    "a torch.device of a strange index": ext(67, b"\x92\xa3cpu\xcd\x01\x00"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_encode_never_writes_is_corrupt_data(name: str) -> None:
    with pytest.raises(CorruptDataError):
        decode(WRONG[name], registry=registry)
    with pytest.raises(CorruptDataError) as inside:
        decode(b"\x92\x01" + WRONG[name], registry=registry)
    assert inside.value.offset is not None
    assert inside.value.offset >= 2


def test_a_key_whose_hash_fails_is_corrupt_data() -> None:
    class Bad:
        def __hash__(self) -> int:
            raise RuntimeError("no hash")

    own = registry.copy()
    own.register(Bad, "tests.Bad/1", lambda value: 1, lambda stored: Bad())
    data = b"\x81" + ext(96, b"\x92" + encode("tests.Bad/1") + b"\x01") + b"\xc0"
    with pytest.raises(CorruptDataError, match="no hash"):
        decode(data, registry=own)


# Code


def test_decoding_never_unpickles(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(*args: Any, **options: Any) -> Any:
        raise AssertionError("something was unpickled")

    for owner, name in (
        (pickle, "loads"),
        (pickle, "load"),
        (pickle, "Unpickler"),
        (pickle, "_Unpickler"),
        (np, "load"),
        (torch, "load"),
    ):
        monkeypatch.setattr(owner, name, poisoned)
    for value in SEEDS:
        decode(encode(value, registry=registry), registry=registry)


def test_a_dtype_name_of_torch_cannot_import_anything() -> None:
    import sys

    before = set(sys.modules)
    assert type(decode(ext(66, b"onnx"))) is Opaque
    assert type(decode(tensor("compiler", (1,), b"x"))) is Opaque
    assert set(sys.modules) == before


# Objects


def test_each_decoding_gives_new_objects_that_own_their_memory() -> None:
    value = [[1], np.zeros(3), torch.zeros(3), bytearray(b"abc")]
    data = encode(value)
    source = bytearray(data)
    one, other = decode(source), decode(source)
    one[0].append(2)
    one[1][0] = 7
    one[2][0] = 7
    one[3][0] = 7
    assert encode(other) == data
    source[:] = bytes(len(source))
    assert encode(other) == data
    assert one[1].flags.owndata
    assert one[1].flags.writeable
    assert other[2].resize_(10).shape == (10,)


@pytest.mark.parametrize("size", [3, 40000])
def test_any_bytes_like_object_is_read(size: int) -> None:
    value = np.arange(size)
    data = encode(value)
    spread = np.repeat(np.frombuffer(data, "u1"), 2)
    for form in (data, bytearray(data), memoryview(data), spread[::2].data):
        assert np.array_equal(decode(form), value)
    with pytest.raises(TypeError):
        decode("text")  # type: ignore[arg-type]
