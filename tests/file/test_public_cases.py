"""What people could not save with histories in JSON, one test each: recorded, saved, loaded."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from synchist import History, TooLargeError, UnsupportedTypeError

from ..codec.same import same

World = Callable[..., list[History]]


@pytest.fixture
def back(tmp_path: Path) -> Callable[[Any], Any]:
    """`back(value)`: what comes back when it is recorded in every way, saved and loaded."""

    def through(value: Any) -> Any:
        h = History()
        h.new_epoch(value=value)
        h.new_batch(value=value)
        h.attributes["value"] = value
        h.save(tmp_path / "run.synchist")
        loaded = History.load(tmp_path / "run.synchist")
        assert loaded == h
        for found in (loaded[0, "value"], loaded[0, "batches", 0, "value"]):
            assert same(found, loaded.attributes["value"])
        return loaded[0, "value"]

    return through


Back = Callable[[Any], Any]


def test_a_float32_in_a_history_is_saved_and_stays_a_float32(back: Back) -> None:
    assert same(back(np.float32(0.1)), np.float32(0.1))


def test_int64_and_tensors_in_the_log(back: Back) -> None:
    log = {"step": np.int64(3), "weights": torch.ones(2, 3), "sizes": torch.Size([2, 3])}
    assert same(back(log), log)


def test_a_loss_that_is_a_tensor_comes_back_as_a_number(back: Back) -> None:
    assert same(back(torch.tensor(0.5, requires_grad=True)), 0.5)


def test_nan_steps_do_not_vanish(tmp_path: Path) -> None:
    """Nor do they become None, or another NaN."""
    nan = struct.unpack("<d", b"\x01\x02\x03\x04\x05\x06\xf8\x7f")[0]
    h = History()
    h.new_epoch()
    for loss in (0.5, nan, float("inf"), 0.25):
        h.new_batch(loss=loss)
    h.save(tmp_path / "run.synchist")
    column = History.load(tmp_path / "run.synchist")[0, "batches", :, "loss"]
    assert len(column) == 4
    assert struct.pack("<4d", *column) == struct.pack("<4d", 0.5, nan, float("inf"), 0.25)


def test_timestamps_before_1970_and_after_2262(back: Back) -> None:
    times = [
        np.datetime64("1066-10-14T09:00"),
        np.datetime64("9999-12-31T23:59:59.999999"),
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.timezone(dt.timedelta(hours=-9))),
    ]
    assert same(back(times), times)


def test_structured_arrays(back: Back) -> None:
    dtype = np.dtype([("name", "U8"), ("score", "<f4"), ("box", "i2", (2, 2))])
    array = np.zeros(3, dtype)
    array["name"] = ["a", "b", "ü"]
    assert same(back(array), array)


def test_object_arrays_are_refused_when_they_are_recorded(tmp_path: Path) -> None:
    h = History()
    h.new_epoch(a=1)
    with pytest.raises(
        UnsupportedTypeError, match=r"cannot record 'b' \(rank 0, epoch 0\)"
    ) as told:
        h.record("b", {"x": [np.array([{}, None])]})
    assert told.value.path == "['x'][0]"
    h.save(tmp_path / "run.synchist")
    assert History.load(tmp_path / "run.synchist").to_list() == [{"batches": [], "a": 1}]


def test_deeply_nested_dicts(back: Back) -> None:
    value: Any = "bottom"
    for depth in range(63):  # and a tuple in the innermost dict
        value = {depth: value, "beside": (depth,)}
    assert same(back(value), value)
    with pytest.raises(UnsupportedTypeError, match="nested deeper than 64"):
        back({"one more": value})


def test_an_int_of_20000_bits(back: Back) -> None:
    assert back(-(3 << 20000)) == -(3 << 20000)


def test_tuples_int_keys_and_sets_stay_what_they_are(back: Back) -> None:
    value = {1: (2, 3), (4, 5): {6}, None: b"7", "\ud800": range(3)}
    assert same(back(value), value)


def test_hundreds_of_thousands_of_values_take_megabytes_and_not_hundreds(tmp_path: Path) -> None:
    h = History()
    h.new_epoch()
    for i in range(50_000):
        h.new_batch(loss=i * 0.1, n=i, lr=0.3)
    path = tmp_path / "run.synchist"
    h.save(path)
    assert path.stat().st_size <= 8.2 * 150_000
    assert History.load(path) == h


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_array_of_2_gb_is_refused_over_a_store_and_saved_to_a_file(
    world: World, tmp_path: Path
) -> None:
    array = np.zeros(1 << 28)
    array[[0, 12345, -1]] = 1.5, float("nan"), -0.0
    shared = world(2)[0]
    shared.new_epoch()
    with pytest.raises(TooLargeError, match=r"'a'.*at most 1,073,741,824 bytes.*to a file"):
        shared.record("a", array)
    assert "a" not in shared.local[0]
    path = tmp_path / "run.synchist"
    h = History()
    h.new_epoch(a=array)
    h.save(path)
    del h
    found = History.load(path)[0, "a"]
    path.unlink()
    assert (found.shape, found.dtype) == (array.shape, array.dtype)
    assert np.array_equal(found.view("u8"), array.view("u8"))
