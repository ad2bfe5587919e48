"""One value, one encoding: on every process, with both builds of msgpack, pinned byte by byte."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import pathlib
import subprocess
import sys
import uuid
import zoneinfo
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import msgpack
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist.codec import decode, encode

from .values import values

NAN = b"\x7f\xf8\x00\x00\x00\x00\xbe\xef"

GOLDEN: list[tuple[Any, str]] = [
    (None, "c0"),
    (True, "c3"),
    (127, "7f"),
    (-32, "e0"),
    (200, "ccc8"),
    (-(2**63), "d38000000000000000"),
    (2**64 - 1, "cfffffffffffffffff"),
    (2**64, "c70901010000000000000000"),
    (-(2**63) - 1, "c70901ff7fffffffffffffff"),
    (-0.0, "cb8000000000000000"),
    (np.frombuffer(NAN, ">f8").item(), "cb7ff800000000beef"),
    (1 - 2j, "d8023ff0000000000000c000000000000000"),
    ("é", "a2c3a9"),
    ("\ud800", "c70303eda080"),
    (b"ab", "c4026162"),
    (bytearray(b"ab"), "d5046162"),
    ("x" * 32, "d920" + "78" * 32),
    ("x" * 256, "da0100" + "78" * 256),
    ("x" * 65536, "db00010000" + "78" * 65536),
    (b"x" * 256, "c50100" + "78" * 256),
    (b"x" * 65536, "c600010000" + "78" * 65536),
    (bytearray(b"x" * 256), "c8010004" + "78" * 256),
    (bytearray(b"x" * 65536), "c90001000004" + "78" * 65536),
    ([1, "a"], "9201a161"),
    ((1, "a"), "d6059201a161"),
    ({"b": 1, "a": 2}, "82a16201a16102"),
    ({3, 1, 2}, "d60693010203"),
    (frozenset(), "d40790"),
    (range(1, 9, 2), "d60893010902"),
    (Decimal("1E+5"), "d61031452b35"),
    (Fraction(-1, 3), "c7031192ff03"),
    (dt.date(2020, 2, 29), "c7061293cd07e4021d"),
    (dt.time(1, 2, 3, 4, fold=1), "c7071396010203 0401c0"),
    (
        dt.datetime(1969, 12, 31, tzinfo=dt.timezone(dt.timedelta(hours=-1), "X")),
        "c7181499cd07b10c1f0000000000" + "c70a16" + "94ffce000143" + "7000a158",
    ),
    (dt.timedelta(-1, 5), "d61593ff0500"),
    (dt.UTC, "d61693000000"),
    (zoneinfo.ZoneInfo("UTC"), "c70317555443"),
    (uuid.UUID(int=1), "d81800000000000000000000000000000001"),
    (pathlib.PurePosixPath("a/b"), "c706199200a3612f62"),
    (pathlib.PureWindowsPath("a"), "d6199201a161"),
    (np.float32(1), "d6320000803f"),
    (np.bool_(True), "d42801"),
    (np.int64(-2), "d72cfeffffffffffffff"),
    (np.complex64(1j), "d734000000000000803f"),
    (np.str_("a"), "d42261"),
    (np.bytes_(b"a"), "d42361"),
    (np.datetime64("1970-01-02", "D"), "c7122192a63c4d385b445dc4080100000000000000"),
    (np.array([[1, 2]], "<i2"), "d82094a33c693292 0102a143c40401000200"),
    (np.array([1], ">i2"), "c70d2094a33e69329101a143c4020001"),
    (
        np.array([(1, 2)], np.dtype([("a", "u1"), ("b", "<u2")], align=True)),
        "c71f209493 9293a161a37c753100 93a162a33c753202 04c3 9101a143c40401000200",
    ),
    (torch.tensor([1.0, 2.0], dtype=torch.bfloat16), "c7124093a862666c6f6174313691 02c404803f0040"),
    (torch.Size([2, 300]), "c7054192 02cd012c"),
    (torch.float32, "c70742666c6f61743332"),
    (torch.device("cuda", 1), "c7074392a463756461 01"),
]


@pytest.mark.parametrize(("value", "data"), GOLDEN, ids=lambda part: repr(part)[:40])
def test_the_bytes_of_each_type_never_change(value: Any, data: str) -> None:
    assert encode(value).hex() == data.replace(" ", "")


# Prints the encodings of values that plain JSON can carry, and of sets whose order in memory
# depends on the hash seed.
ENCODE = """
import json, sys
import msgpack
from synchist.codec import encode, decode
values = json.load(sys.stdin)
values += [{str(n): n for n in range(100)}, [2.0**e for e in range(100)], set(map(str, range(50)))]
values += [[1 << e for e in range(70)], ["\\ud800"] * 20, [None, True, b"x", "y"] * 10]
for value in values:
    print(encode(value).hex(), encode(decode(encode(value))) == encode(value))
print(msgpack.Packer.__module__)
"""


def encoded(values: list[Any], **env: str) -> tuple[list[str], str]:
    done = subprocess.run(
        [sys.executable, "-c", ENCODE],
        input=json.dumps(values),
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *lines, build = done.stdout.splitlines()
    return lines, build


scalars = st.none() | st.booleans() | st.floats(allow_nan=False) | st.text()


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner) | st.dictionaries(st.text(), inner)


plain = st.recursive(scalars | st.integers(), nested, max_leaves=60)


@settings(max_examples=1, database=None)
@given(st.lists(plain, min_size=40, max_size=40))
def test_both_builds_of_msgpack_and_every_hash_seed_give_the_same_bytes(values: list[Any]) -> None:
    lines, build = encoded(values, MSGPACK_PUREPYTHON="1", PYTHONHASHSEED="1")
    assert build == "msgpack.fallback"
    assert not [line for line in lines if line.endswith("False")]
    assert encoded(values, MSGPACK_PUREPYTHON="", PYTHONHASHSEED="2")[0] == lines


@given(st.recursive(scalars | st.integers(-(2**63), 2**64 - 1), nested, max_leaves=30))
def test_plain_values_are_plain_msgpack_in_its_shortest_form(value: Any) -> None:
    assert msgpack.unpackb(encode(value), strict_map_key=False) == value
    assert encode(value) == msgpack.packb(value)


@pytest.mark.parametrize(
    ("count", "entry"),
    [
        *itertools.product([0, 15, 16, 17, 40], [1.5, 7, "x", None, 2**70, "\ud800", (1,)]),
        *itertools.product([2**16], [1.5, (1,)]),
    ],
)
def test_long_containers_are_written_like_short_ones(count: int, entry: Any) -> None:
    """The fast path for plain entries cannot be told from the other."""
    value = [entry] * count
    if count <= 0xF:
        header = bytes([0x90 | count])
    elif count <= 0xFFFF:
        header = b"\xdc" + count.to_bytes(2, "big")
    else:
        header = b"\xdd" + count.to_bytes(4, "big")
    assert encode(value) == header + encode(entry) * count
    keys = dict.fromkeys(range(count), entry)
    pairs = b"".join(encode(key) + encode(entry) for key in keys)
    assert encode(keys).endswith(pairs)
    assert decode(encode(keys)) == keys


@pytest.mark.parametrize("other", ["x" * 20, 7, None, [2.5], 2**63])
def test_a_list_that_starts_with_a_float_may_go_on_with_anything(other: Any) -> None:
    for value in ([1.5, *[other] * 20], [*[1.5] * 20, other], [*[1.5] * 10, other, *[1.5] * 10]):
        assert decode(encode(value)) == value


def test_the_data_of_an_array_does_not_depend_on_its_strides() -> None:
    array = np.arange(24, dtype="f4").reshape(2, 3, 4)
    copy = np.ascontiguousarray(array[:, ::-1, ::2])
    assert encode(array[:, ::-1, ::2]) == encode(copy)
    tensor = torch.arange(24).reshape(2, 3, 4)
    assert encode(tensor[:, :, ::2]) == encode(tensor[:, :, ::2].contiguous())


def test_bytes_of_an_item_that_belong_to_no_field_are_zero() -> None:
    dtype = np.dtype([("a", "u1"), ("b", "<u4")], align=True)
    one, other = (np.frombuffer(bytearray([n] * 8), dtype) for n in (0, 255))
    one["a"], one["b"] = other["a"], other["b"]
    assert one.tobytes() != other.tobytes()
    assert encode(one) == encode(other)
    assert encode(one[0]) == encode(other[0])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long double is not x87's here")
@pytest.mark.parametrize("char", ["g", "G"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_padding_of_long_doubles_is_zero(char: str, order: Any) -> None:
    clean = np.ones(3, np.dtype(char)).astype(np.dtype(char).newbyteorder(order))
    dirty = np.frombuffer(bytearray(clean.tobytes()), clean.dtype)
    raw = dirty.view("u1").reshape(-1, 16)
    raw[:, 10:] = 255
    if order == ">":
        raw[:] = clean.view("u1").reshape(-1, 16)
        raw[:, :6] = 255
    assert clean.tobytes() != dirty.tobytes()
    assert encode(clean) == encode(dirty)


def test_a_float32_nan_keeps_its_payload() -> None:
    signalling = np.frombuffer(b"\x01\x00\x80\x7f", "<f4")
    for value in (signalling, signalling[0], torch.from_numpy(signalling.copy())):
        assert encode(value).endswith(b"\x01\x00\x80\x7f")
        assert encode(decode(encode(value))) == encode(value)


def test_a_decimal_is_written_alike_in_every_context() -> None:
    with localcontext(Context(capitals=0, prec=2)):
        assert encode(Decimal("1.2345E+99")) == encode(decode(encode(Decimal("1.2345E+99"))))
        lower = encode(Decimal("1.2345E+99"))
    assert lower == encode(Decimal("1.2345E+99"))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\xcd\x00\x01", 1),
        (b"\xd3\xff\xff\xff\xff\xff\xff\xff\xff", -1),
        (b"\xd4\x01\x05", 5),
        (b"\xd9\x01a", "a"),
        (b"\xd4\x03a", "a"),
        (b"\xc6\x00\x00\x00\x01a", b"a"),
        (b"\xdd\x00\x00\x00\x01\x01", [1]),
        (b"\xde\x00\x01\x01\x02", {1: 2}),
        (b"\xca\x3f\x80\x00\x00", 1.0),
        (b"\xc8\x00\x02\x05\x91\x01", (1,)),
        (b"\xd6\x06\x93\x03\x01\x02", {1, 2, 3}),
        (b"\xd6\x10\x31\x65\x2b\x35", Decimal("1E+5")),
        (b"\xc7\x03\x11\x92\x02\x04", Fraction(1, 2)),
    ],
)
def test_other_forms_of_a_value_decode_and_come_out_canonical(data: bytes, value: Any) -> None:
    decoded = decode(data)
    assert type(decoded) is type(value)
    assert decoded == value
    canonical = encode(decoded)
    assert canonical == encode(value) != data
    assert encode(decode(canonical)) == canonical


@given(st.sets(st.text() | st.integers(), min_size=2), st.randoms())
def test_a_set_is_written_in_the_order_of_its_encoded_elements(elements: Any, random: Any) -> None:
    shuffled = list(elements)
    random.shuffle(shuffled)
    assert encode(set(shuffled)) == encode(elements)
    packed = sorted(map(encode, elements))
    assert encode(elements).endswith(b"".join(packed))


@settings(max_examples=50)
@given(values())
def test_encoding_leaves_the_value_as_it_is_and_is_repeatable(value: Any) -> None:
    from .values import registry

    assert encode(value, registry=registry) == encode(value, registry=registry)
