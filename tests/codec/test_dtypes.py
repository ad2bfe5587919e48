"""Descriptions of numpy dtypes: what another platform has, and what nobody has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from synchist.codec import Opaque, decode, encode
from synchist.codec._limits import MAX_EMPTY_ITEM, MAX_FIELDS
from synchist.codec._torch import swapped
from synchist.codec._wire import bin_header, ext
from synchist.errors import CorruptDataError, UnsupportedTypeError

from .forged import shaped


def scalar(dtype: Any, data: bytes) -> bytes:
    return ext(33, b"\x92" + encode(dtype) + bin_header(len(data)) + data)


OTHER_LONG_DOUBLE = "quad" if np.finfo(np.longdouble).nmant == 63 else "x87"


@pytest.mark.parametrize("token", [f"<f16{OTHER_LONG_DOUBLE}", f">c32{OTHER_LONG_DOUBLE}", "<i4:q"])
def test_a_type_that_only_another_platform_has_is_kept_as_it_is(token: str) -> None:
    for data in (shaped(token, (1,), b"x" * 16), scalar(token, b"x" * 16)):
        value = decode(data)
        assert type(value) is Opaque
        assert encode(value) == data


@pytest.mark.parametrize("char", list("bhilqBHILQdD"))
def test_both_c_types_of_one_size_are_told_apart(char: str) -> None:
    dtype = np.dtype(char)
    assert decode(encode(np.zeros(2, dtype))).dtype.char == dtype.char
    assert type(decode(encode(dtype.type(1)))) is dtype.type


BAD: list[Any] = [
    "|S2147483648",
    "<U536870912",
    "<M8[10000000000s]",
    "<f4:O",
    [1, 2, 3, 4],
    ["<f4", []],
    ["<f4", 3],
    ["<f4", [1] * 65],
    ["<f4", [1.5]],
    ["<f4", [-1]],
    ["<f8", [2**29]],
    ["x", 8, False],
    [[], 8.0, False],
    [[], 8, 0],
    [[], -1, False],
    [[], 2**31, False],
    [["a"], 8, False],
    [[["a", "<f4"]], 4, False],
    [[["a", "<f4", 0, "t", "u"]], 4, False],
    [[[1, "<f4", 0]], 4, False],
    [[["a", "<f4", 0, 1]], 4, False],
    [[["a", "<f4", 0.0]], 4, False],
    [[["a", "<f4", 2]], 8, True],
    [[["a", "<f4", 0, "a"]], 4, False],
    [[[f"f{n}", "|u1", 0] for n in range(MAX_FIELDS + 1)], 1, False],
]


@pytest.mark.parametrize("described", BAD, ids=lambda value: repr(value)[:30])
def test_a_wrong_description_is_corrupt_data(described: Any) -> None:
    for data in (shaped(described, (1,), b"\0" * 8), scalar(described, b"\0" * 8)):
        with pytest.raises(CorruptDataError):
            decode(data)


def test_an_item_cannot_itself_be_a_subarray() -> None:
    for data in (shaped(["<f4", [2]], (1,), b"\0" * 8), scalar(["<f4", [2]], b"\0" * 8)):
        with pytest.raises(CorruptDataError, match="cannot be a subarray"):
            decode(data)


def test_subarrays_inside_each_other_come_out_canonical() -> None:
    data = shaped([[["a", [["<i2", [2]], [3]], 0]], 12, False], (1,), bytes(range(12)))
    value = decode(data)
    assert value["a"].tolist() == np.frombuffer(bytes(range(12)), "<i2").reshape(1, 3, 2).tolist()
    assert encode(decode(encode(value))) == encode(value)


def test_as_many_fields_as_may_be() -> None:
    dtype = np.dtype([(f"f{n}", "u1") for n in range(MAX_FIELDS)])
    assert decode(encode(np.ones(2, dtype))).dtype == dtype
    more = np.dtype([(f"f{n}", "u1") for n in range(MAX_FIELDS + 1)])
    with pytest.raises(UnsupportedTypeError, match="cannot be stored exactly"):
        encode(np.ones(2, more))


def test_a_title_that_is_no_str_is_refused() -> None:
    layout: Any = {"names": ["a"], "formats": ["u1"], "titles": [(1, 2)]}
    with pytest.raises(UnsupportedTypeError, match="title of field 'a'"):
        encode(np.zeros(1, np.dtype(layout)))


@pytest.mark.parametrize("dtype", ["V0", "S0", "U0", []])
def test_items_without_bytes_are_limited_in_number(dtype: Any) -> None:
    few: Any = np.ndarray((MAX_EMPTY_ITEM,), np.dtype(dtype))
    assert decode(encode(few)).shape == few.shape
    assert decode(encode(few)).dtype.itemsize == 0
    many: Any = np.ndarray((MAX_EMPTY_ITEM + 1,), np.dtype(dtype))
    with pytest.raises(UnsupportedTypeError, match="without any bytes"):
        encode(many)


def test_empty_arrays_keep_their_shape() -> None:
    for shape in ((0,), (0, 784), (3, 0, 2**40)):
        assert decode(encode(np.zeros(shape))).shape == shape
        assert decode(encode(torch.zeros(shape))).shape == shape


def test_byte_swapping_for_big_endian_machines() -> None:
    numbers = np.arange(5, dtype="<f4")
    assert swapped(numbers.tobytes(), 4) == numbers.astype(">f4").tobytes()
    assert swapped(b"abc", 1) == b"abc"
