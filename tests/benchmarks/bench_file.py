"""What saving and loading a history costs, against other ways to keep the same values.

- Rows of four numbers, as training loops record them: `h.save` and `History.load` against pickle
  protocol 5, msgpack and JSON of the same rows, all of them to and from a file. `h.save` is also
  timed with its waits for the disk; nothing else here waits for it.
- Ten columns of floats: `History.load`, which verifies its checksums, against `numpy.load` of an
  `.npz`, which does so too.

Everything is measured in turn, in one run; medians and their ratios are printed, and nothing is
asserted, because time on a shared machine proves nothing.

    python -m tests.benchmarks.bench_file [--rows 20000] [--floats 10000000] [--repeats 15]
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import msgpack
import numpy as np

from synchist import History

from .turns import Run, medians


def save_without_waiting(h: History, path: Path) -> None:
    with mock.patch("os.fsync"):
        h.save(path)


def typed_rows(count: int, repeats: int, folder: Path) -> None:
    rows = [{"loss": i * 0.1, "acc": i * 0.2, "n": i, "lr": 0.3} for i in range(count)]
    h = History()
    h.new_epoch()
    for row in rows:
        h.new_batch(row)
    ours, theirs = folder / "rows.synchist", folder / "rows"
    dump: dict[str, Run] = {
        "synchist": lambda: save_without_waiting(h, ours),
        "synchist, waiting for the disk": lambda: h.save(ours),
        "pickle 5": lambda: (folder / "rows.pickle").write_bytes(pickle.dumps(rows, 5)),
        "msgpack": lambda: (folder / "rows.msgpack").write_bytes(msgpack.packb(rows)),
        "json": lambda: (folder / "rows.json").write_text(json.dumps(rows)),
    }
    load: dict[str, Run] = {
        "synchist": lambda: History.load(ours),
        "pickle 5": lambda: pickle.loads((folder / "rows.pickle").read_bytes()),
        "msgpack": lambda: msgpack.unpackb((folder / "rows.msgpack").read_bytes()),
        "json": lambda: json.loads((folder / "rows.json").read_text()),
    }
    saved = medians(repeats, dump)
    loaded = medians(repeats, load)
    values = 4 * count
    print(
        f"{f'{count} rows of 4 numbers, to a file':40}{'save ns':>10}{'load ns':>10}{'bytes':>10}"
    )
    for name in dump:
        suffix = ".synchist" if name.startswith("synchist") else f".{name.split()[0]}"
        size = os.path.getsize(theirs.with_suffix(suffix)) / values
        back = f"{loaded[name] / values * 1e9:10.1f}" if name in loaded else " " * 10
        print(f"{name + ', a value':40}{saved[name] / values * 1e9:10.1f}{back}{size:10.2f}")
    print(f"{'ratios':40}{'save':>10}{'load':>10}{'at most':>10}")
    for name in ("pickle 5", "msgpack", "json"):
        ratios = saved["synchist"] / saved[name], loaded["synchist"] / loaded[name]
        most = f"{1:10.2f}" if name == "pickle 5" else ""
        print(f"{'synchist / ' + name:40}{ratios[0]:10.3f}{ratios[1]:10.3f}{most}")


def columns(floats: int, repeats: int, folder: Path) -> None:
    rng = np.random.default_rng(1)
    arrays: dict[str, Any] = {f"c{i}": rng.standard_normal(floats // 10) for i in range(10)}
    h = History()
    h.new_epoch()
    for row in zip(*(array.tolist() for array in arrays.values()), strict=True):
        h.new_batch(dict(zip(arrays, row, strict=True)))
    h.save(folder / "columns.synchist")
    np.savez(folder / "columns.npz", **arrays)

    def load_npz() -> dict[str, Any]:
        with np.load(folder / "columns.npz") as file:
            return {name: file[name] for name in file.files}

    loaded = History.load(folder / "columns.synchist")
    assert loaded[0, "batches", :, "c7"] == load_npz()["c7"].tolist()
    del loaded
    found = medians(
        repeats,
        {
            "History.load": lambda: History.load(folder / "columns.synchist"),
            "numpy.load of an .npz": load_npz,
        },
    )
    print(f"{f'{floats} floats in 10 columns':40}{'ms':>10}")
    for name, seconds in found.items():
        print(f"{name:40}{seconds * 1e3:10.2f}")
    print(f"{'ratio':40}{'is':>10}{'at most':>10}")
    ratio = found["History.load"] / found["numpy.load of an .npz"]
    print(f"{'History.load / numpy.load':40}{ratio:10.2f}{1.5:10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--floats", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--folder", help="where to put the files; by default a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        typed_rows(args.rows, args.repeats, Path(folder))
        print()
        columns(args.floats, args.repeats, Path(folder))


if __name__ == "__main__":
    main()
