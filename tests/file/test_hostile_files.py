"""Files made to do harm, with all checksums right: refused, in little memory, and nothing runs."""

from __future__ import annotations

import gc
import pickle
import struct
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest

from synchist import CorruptDataError
from synchist.codec import decode, encode
from synchist.codec._wire import array_header
from synchist.file import FrameWriter, read_contents
from synchist.file.series import pack_ints

from .making import header, saved

FIXED = 1 << 16
"""Bytes that reading may take whatever the size of the file."""

PLAIN: dict[str, Any] = {
    "rank": 0,
    "sequence": 1,
    "lineage": 0,
    "pending": False,
    "place": None,
    "series": [],
    "epochs": [1, b""],
    "rows": [1, b""],
    "layouts": [],
    "layout": [1, b""],
    "counts": [1, b""],
    "firsts": [1, b""],
    "batches": b"",
    "attributes": [],
}
"""The fields of a record of nothing."""


def file_of(record: bytes, *values: bytes, head: bytes | None = None) -> bytes:
    """A file with one record, and these frames of values; every checksum is right."""
    file = BytesIO()
    frames = FrameWriter(file)
    frames.begin(header("saved").pack() if head is None else head)
    frames.frame(b"RECD", record)
    for payload in values:
        frames.frame(b"VALS", payload)
    frames.end()
    return file.getvalue()


def record(**fields: Any) -> bytes:
    return file_of(encode({**PLAIN, **fields}))


def column(**fields: Any) -> bytes:
    """One epoch with one column of two floats, and something else about it."""
    return record(
        **{
            "series": [["x", "d", 2, struct.pack("<2d", 1, 2)]],
            "epochs": [1, b"\0"],
            "rows": [1, b"\2"],
            "layouts": [[[0], []]],
            "layout": [1, b"\0"],
            "counts": [1, b"\2"],
            "firsts": [1, b"\1"],
            **fields,
        }
    )


def pending(**fields: Any) -> bytes:
    return column(rank=1, pending=True, **fields)


def head(**fields: Any) -> bytes:
    return file_of(encode(PLAIN), head=encode({**decode(header("saved").pack()), **fields}))


def test_the_files_that_the_lies_are_made_of_are_right() -> None:
    for data in (record(), column(), pending(), head(), saved()):
        read_contents(BytesIO(data), "file")


LIES: dict[str, tuple[bytes, str]] = {
    "no record": (file_of(b"\xc0"), "found NoneType"),
    "no value of the codec": (file_of(b"\x91"), "announced"),
    "bytes behind the record": (file_of(encode(PLAIN) + b"\0"), "follow the value"),
    "a field is missing": (file_of(encode({"rank": 0})), "'series'"),
    "a negative rank": (record(rank=-1), "for a count"),
    "a sequence beyond 64 bits": (record(sequence=2**64), "for a count"),
    "a rank that is no int": (record(rank=True), "for a count"),
    "an epoch is left out": (column(epochs=[1, b"\1"]), "only 1 epochs exist"),
    "an epoch is there twice": (column(epochs=[1, b"\0\0"], rows=[1, b"\2\2"], layout=[1, b"\0\0"],
        counts=[1, b"\1\1"], firsts=[1, b"\1\1"]), "epoch 0 comes after epoch 0"),
    "a batch beyond the rows": (column(rows=[1, b"\1"]), "batch 1 of 1"),
    "a first batch beyond the rows": (column(firsts=[8, b"\xff" * 7 + b"\x7f"]), "batch 9223"),
    "ints of a width that there is not": (column(rows=[3, b"\0\0\2"]), "3"),
    "ints that end within one": (column(rows=[2, b"\2"]), "multiple of item size"),
    "ints beyond a count": (column(rows=[8, b"\xff" * 8]), "too large for a count"),
    "more epochs than rows": (column(epochs=[1, b"\0\1"]), "argument"),
    "more values than there are": (column(counts=[1, b"\3"]), "more values"),
    "fewer values than there are": (column(counts=[1, b"\1"]), "left over"),
    "no values": (column(counts=[1, b"\0"]), "an empty column"),
    "more counts than columns": (column(counts=[1, b"\2\2"]), "left over"),
    "fewer counts than columns": (column(counts=[1, b""]), "index out of range"),
    "batches that nobody takes": (column(batches=bytes(8)), "left over"),
    "batches that descend": (column(firsts=[1, b"\0"], batches=struct.pack("<2q", 1, 0)), "ascend"),
    "batches before the first": (
        column(firsts=[1, b"\0"], batches=struct.pack("<2q", -1, 0)), "do not fit"),
    "fewer batches than values": (column(firsts=[1, b"\0"], batches=bytes(8)), "do not fit"),
    "a layout of series that there is not": (column(layouts=[[[1], []]]), "index out of range"),
    "a layout that there is not": (column(layout=[1, b"\1"]), "index out of range"),
    "a negative index": (column(layouts=[[[-1], []]]), "for a count"),
    "a column twice in a layout": (column(layouts=[[[0, 0], []]]), "is there twice"),
    "a column called batches": (
        column(series=[["batches", "d", 2, bytes(16)]]), "'batches' is no name"),
    "a name that is no text": (column(series=[[5, "d", 2, bytes(16)]]), "found int for str"),
    "a kind that there is not": (column(series=[["x", "f", 2, bytes(16)]]), "unknown kind"),
    "numbers of another length": (column(series=[["x", "d", 2, bytes(15)]]), "15 bytes for 16"),
    "values of another length": (column(series=[["x", "x", [1, b"\1\1"], b"\0"]]), "1 bytes for 2"),
    "a value without bytes": (column(series=[["x", "x", [1, b"\1\0"], b"\0"]]), "without bytes"),
    "an epoch value of numbers": (column(layouts=[[[], [[0, None]]]]), "in a series of numbers"),
    "values that are no bytes": (column(series=[["x", "d", 2, "text"]]), "found str for bytes"),
    "a frame of values that is not there": (column(series=[["x", "d", 2, None]]), "are not here"),
    "a frame of values of another length": (
        file_of(encode({**PLAIN, "series": [["x", "d", 2, None]]}), bytes(8)), "are not here"),
    "huge values": (column(series=[["x", "d", 2**60, None]]), "are not here"),
    "pending records of another rank": (column(pending=True), "rank 0 are pending on rank 1"),
    "pending records far ahead": (pending(epochs=[1, b"\7"]), "only 0 epochs exist"),
    "a place in an epoch to come": (pending(place=[1, 1, -1, False]), "epoch 1 is open"),
    "a place far ahead": (pending(place=[2**62, 0, -1, False]), "stands at epoch 0"),
    "an open batch that there is not": (pending(place=[1, 0, 2, True]), "stands at epoch 0, batch"),
    "an open row without a batch": (pending(place=[1, 0, -1, True]), "batch -1 is open"),
    "a place of three": (pending(place=[1, 0, 1]), "unpack"),
    "a kind of file that there is not": (head(kind="other"), "of kind 'other'"),
    "a rank beyond the world": (head(rank=2), "rank 2 of 2"),
    "a world too large to list": (head(world_size=2**40), "of 1099511627776"),
    "a name of the history that is none": (head(name=b"x"), "found bytes for str"),
    "a rule that is none": (head(reduce={"a": 1}), "found int for str"),
    "a reduce table that is none": (head(reduce=[]), "found list for dict"),
    "no header": (file_of(encode(PLAIN), head=b"\xc0"), "found NoneType for dict"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_refused_with_the_byte_and_what_is_wrong(name: str) -> None:
    data, why = LIES[name]
    with pytest.raises(CorruptDataError, match=r"^file is damaged at byte \d") as caught:
        read_contents(BytesIO(data), "file")
    assert why in str(caught.value)
    assert caught.value.path == "file"
    assert caught.value.offset is not None
    assert 16 <= caught.value.offset <= len(data)


def epochs(count: int, **fields: Any) -> bytes:
    return record(
        epochs=pack_ints(range(count)),
        rows=pack_ints([2] * count),
        layout=pack_ints([0] * count),
        **{"layouts": [[[], []]], **fields},
    )


COUNT = 5000
HUNGRY: dict[str, Callable[[], bytes]] = {
    "epochs without anything": lambda: epochs(COUNT),
    "epochs with one small value each": lambda: epochs(
        COUNT,
        series=[["x", "x", pack_ints([1] * COUNT), bytes(COUNT)]],
        layouts=[[[], [[0, None]]]],
    ),
    "epochs with one small column each": lambda: epochs(
        COUNT,
        series=[["x", "x", pack_ints([1] * COUNT), bytes(COUNT)]],
        layouts=[[[0], []]],
        counts=pack_ints([1] * COUNT),
        firsts=pack_ints([1] * COUNT),
    ),
    "series without values": lambda: record(series=[["", "d", 0, b""]] * COUNT),
    "layouts that nobody uses": lambda: record(layouts=[[[], []]] * COUNT),
    "lengths of nothing": lambda: file_of(b"\xdd\xff\xff\xff\xff" * 1000),
    "false lengths inside each other": lambda: file_of(
        b"\xdd\x00\x00\x20\x00" * 60 + b"\xc0" * 8192
    ),
    "a large nest in the header": lambda: file_of(b"", head=array_header(60000) + b"\x90" * 60000),
    "a huge frame of values": lambda: column(series=[["x", "x", [8, b"\xff" * 7 + b"\x7f"], None]]),
}


@pytest.mark.parametrize("name", HUNGRY)
def test_reading_takes_less_than_256_times_the_file(name: str) -> None:
    data = HUNGRY[name]()

    def growth() -> int:
        gc.collect()
        tracemalloc.start()
        try:
            contents = read_contents(BytesIO(data), "file")
            del contents
        except CorruptDataError:
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    growth()  # what is loaded or cached once does not count
    assert growth() < 256 * len(data) + FIXED


def test_reading_never_unpickles_or_runs_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(*args: Any, **options: Any) -> Any:
        raise AssertionError("something was run")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, poisoned)
    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr(f"builtins.{name}", poisoned)
    contents = read_contents(BytesIO(saved()), "file")
    assert [len(parts) for parts in contents.log.epochs] == [2, 2, 2]
    for parts in contents.log.epochs:
        for part in parts.values():
            for values in part.columns.values():
                values.values()
            for cell in part.cells.values():
                cell.value()
