"""What people lose or cannot save with JSON histories, one test each."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import torch

from synchist.codec import decode, encode

from .same import same


def back(value: Any) -> Any:
    result = decode(encode(value))
    assert same(value, result)
    return result


def test_a_float32_stays_a_float32() -> None:
    assert type(back({"loss": np.float32(0.1)})["loss"]) is np.float32


def test_int64_and_tensors_in_a_log_entry() -> None:
    back({"step": np.int64(3), "loss": torch.tensor(0.5), "sizes": torch.Size([2, 3])})


def test_nan_steps_do_not_vanish() -> None:
    values = back([0.1, float("nan"), 0.3, float("-inf")])
    assert len(values) == 4
    assert values[1] != values[1]


def test_timestamps_before_1970_and_after_2262() -> None:
    back([np.datetime64("1066-10-14"), np.datetime64("9999-12-31T23:59:59.999999")])
    back([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)])  # noqa: DTZ001
    back([dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.date.min, dt.date.max])
    back(np.array(["NaT", "2300-01-01"], "M8[us]"))


def test_both_times_of_the_hour_that_happens_twice() -> None:
    from zoneinfo import ZoneInfo

    first = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)
    assert back(first).utcoffset() != back(second).utcoffset()


def test_structured_arrays() -> None:
    dtype = np.dtype([("name", "U8"), ("score", "<f4"), ("box", "i2", (2, 2))])
    array = np.zeros(3, dtype)
    array["name"] = ["a", "b", "ü"]
    assert back(array)["name"].tolist() == ["a", "b", "ü"]


def test_tuples_and_int_keys_stay_what_they_are() -> None:
    assert back({1: (2, 3), (4, 5): {6}, None: b"7"}) == {1: (2, 3), (4, 5): {6}, None: b"7"}


def test_an_int_of_20000_bits() -> None:
    assert back(-(3 << 20000)) == -(3 << 20000)


def test_lone_surrogates_as_file_names_have_them() -> None:
    back({"file\udcff": "x\ud800"})


def test_all_numpy_orders_are_told_apart() -> None:
    array = np.arange(6, dtype="f4").reshape(2, 3)
    for one in (array, array.astype(">f4"), np.asfortranarray(array), array[:, ::-1]):
        back(one)
    assert back(np.asfortranarray(array)).flags.f_contiguous


def test_an_all_ones_bfloat16_and_a_float8_tensor() -> None:
    back(torch.ones(4).to(torch.bfloat16))
    back(torch.ones(4).to(torch.float8_e4m3fn))
