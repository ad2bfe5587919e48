"""Making files: the golden ones, and small ones that tests damage.

`python -m tests.file.making` writes the golden files anew. They pin the format: when they change,
what people have saved can no longer be read, so there has to be a new version of the format.
"""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import uuid
import zoneinfo
from array import array
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from synchist.codec import Opaque, encode
from synchist.file import JOURNAL, SAVED, FrameWriter, Header, Record, write_record
from synchist.model.column import CODED, FLOATS, INTS, Column
from synchist.model.delta import Delta
from synchist.model.part import Cell, Part

__all__ = ["GOLDEN", "VALUES", "journal", "numbers", "saved"]

GOLDEN: Final = Path(__file__).parent / "golden"
NAN: Final = float("nan")


def header(kind: str, **more: Any) -> Header:
    """A header that does not depend on when and by what it is written."""
    return Header(
        kind=kind,
        rank=1,
        world_size=2,
        name="gold\ud800",
        clears=1,
        lineage=2,
        reduce={"f1": "mean", "gap": "train:widest"},
        created="2025-01-02T03:04:05+00:00",
        synchist="0.1.0",
        more=more,
    )


def numbers(count: int, first: float = 0.0) -> Column:
    return Column(FLOATS, array("d", [first + n / 4 for n in range(count)]), 0)


def delta(rank: int, epoch: int, rows: int) -> Delta:
    """One epoch with columns of every kind, epoch values with and without weight."""
    ints = array("q", [-(2**63), *range(rows - 2), 2**63 - 1])
    notes = [encode(value) for value in ("ü", (1, None), b"x" * 300, -0.0)]
    columns = {
        "loss": numbers(rows, rank),
        "n": Column(INTS, ints, 0),
        "note": Column(CODED, notes, 1, array("q", [1, 2, 5, rows - 1])),
    }
    cells = {"f1": Cell(encode(0.5 + rank), encode(32 * rank)), "who": Cell(encode(f"rank {rank}"))}
    if epoch % 2:
        columns = dict(reversed(columns.items()))
        cells = {"who": cells["who"], "image": Cell(encode(bytes(range(256)) * 5))}
    return Delta({epoch: Part(rows, columns, cells)})


def whole(rank: int) -> Delta:
    """Several epochs, the last of them without any batches, and attributes."""
    found = delta(rank, 0, 9 if rank else 140)
    found.update(delta(rank, 1, 9))
    found.update(Delta({2: Part(0, {}, {})}, {"opt\udcff": Cell(encode({"lr": 0.1}), None)}))
    return found


def saved(**more: Any) -> bytes:
    """A file of kind "saved"."""
    file = BytesIO()
    frames = FrameWriter(file)
    frames.begin(header(SAVED, **more).pack())
    for rank in range(2):
        write_record(frames, Record(rank, 3 + rank, 2, whole(rank)))
    pending = Delta({2: Part(2, {"loss": numbers(2)}), 3: Part()}, {"seed": Cell(encode(7))})
    write_record(frames, Record(1, 4, 2, pending, True, (4, 3, -1, False)))
    frames.end()
    return file.getvalue()


def journal(rounds: int = 2) -> tuple[bytes, list[int]]:
    """A file of kind "journal", and where it may end: behind its header, and behind each round."""
    file = BytesIO()
    frames = FrameWriter(file)
    frames.begin(header(JOURNAL).pack())
    ends = [frames.offset]
    for number in range(rounds):
        for rank in range(2):
            write_record(frames, Record(rank, number + 1, 2, delta(rank, number, 8 + number)))
        frames.end()
        ends.append(frames.offset)
    return file.getvalue(), ends


STRUCTURED: Final = np.dtype([("a", "u1"), ("b", [("c", "<f8", (2,)), ("d", "U2")])], align=True)

VALUES: Final[dict[str, tuple[Any, Any]]] = {
    # What the independent decoder makes of it: as it is, or (extension code, what is in it).
    "none": (None, None),
    "bools": ([True, False], [True, False]),
    "ints": ([0, -1, 127, -33, 2**64 - 1, -(2**63)], [0, -1, 127, -33, 2**64 - 1, -(2**63)]),
    "huge ints": ([2**64, -(2**70)], [2**64, -(2**70)]),
    "floats": ([0.1, -0.0, float("inf")], [0.1, -0.0, float("inf")]),
    "complex": (1.5 - 2j, 1.5 - 2j),
    "texts": (["", "ü", "x" * 40, "\ud800"], ["", "ü", "x" * 40, "\ud800"]),
    "bytes": ([b"", b"\x00" * 300], [b"", b"\x00" * 300]),
    "bytearray": (bytearray(b"ab"), (4, b"ab")),
    "tuples": (((), (1, (2.5,))), ((), (1, (2.5,)))),
    "dict": ({1: "a", (2, b"b"): {"c": []}, None: 0}, {1: "a", (2, b"b"): {"c": []}, None: 0}),
    "sets": ([{3, 1, "a"}, frozenset({(1,), 2})], [{3, 1, "a"}, frozenset({(1,), 2})]),
    "ranges": (range(9, 1, -2), range(9, 1, -2)),
    "Decimal": (Decimal("-1E+400"), (16, b"-1E+400")),
    "Fraction": (Fraction(-7, 3), (17, -7, 3)),
    "date": (dt.date(9999, 12, 31), (18, 9999, 12, 31)),
    "time": (dt.time(1, 2, 3, 4, fold=1), (19, 1, 2, 3, 4, 1, None)),
    "datetime": (
        dt.datetime(1, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
        (20, 1, 1, 1, 0, 0, 0, 0, 0, (23, b"Europe/Berlin")),
    ),
    "timedelta": (dt.timedelta(-1, 5, 7), (21, -1, 5, 7)),
    "timezones": (
        [dt.timezone(dt.timedelta(hours=-1)), dt.timezone(dt.timedelta(0), "X")],
        [(22, -1, 82800, 0), (22, 0, 0, 0, "X")],
    ),
    "UUID": (uuid.UUID(int=5), (24, bytes(15) + b"\x05")),
    "paths": (
        [pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("C:/x")],
        [(25, 0, "a/b"), (25, 1, "C:\\x")],
    ),
    "array": (np.arange(3, dtype=">i2"), (32, ">i2", [3], "C", b"\0\0\0\1\0\2")),
    "array in Fortran order": (
        np.asfortranarray([[1, 2], [3, 4]], dtype="u1"),
        (32, "|u1", [2, 2], "F", bytes([1, 3, 2, 4])),
    ),
    "structured array": (
        np.zeros(1, STRUCTURED),
        (32, [[["a", "|u1", 0], ["b", [[["c", ["<f8", [2]], 0], ["d", "<U2", 16]], 24, True], 8]],
              32, True], [1], "C", bytes(32)),
    ),
    "numpy scalars": (
        [np.float32(1.5), np.int64(-1), np.bool_(True), np.str_("é"), np.bytes_(b"a")],
        [(50, b"\0\0\xc0?"), (44, b"\xff" * 8), (40, b"\1"), (34, "é".encode()), (35, b"a")],
    ),
    "date of numpy": (np.datetime64("1066-10-14"), (33, "<M8[D]", b"\x5b\xf7\xfa" + b"\xff" * 5)),
    "tensor": (
        torch.tensor([[1.0, -2.0]], dtype=torch.bfloat16),
        (64, "bfloat16", [1, 2], b"\x80?\0\xc0"),
    ),
    "of torch": (
        [torch.Size([2, 3]), torch.float16, torch.device("cuda", 1)],
        [(65, 2, 3), (66, b"float16"), (67, "cuda", 1)],
    ),
    "of a class that nobody knows": (
        Opaque(96, b"\x92\xa8mine.A/1\x07", "mine.A/1"),
        (96, "mine.A/1", 7),
    ),
    "of a later version": (Opaque(100, b"\x91\x01", "extension 100"), (100, 1)),
}  # fmt: skip


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / "saved.synchist").write_bytes(saved(later=[1, "x"]))
    (GOLDEN / "journal.synchist").write_bytes(journal()[0])
    coded = {name: encode(value).hex() for name, (value, _) in VALUES.items()}
    (GOLDEN / "values.json").write_text(json.dumps(coded, indent=1) + "\n")


if __name__ == "__main__":
    main()
