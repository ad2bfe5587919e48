"""What saving and loading a history costs, against other ways to keep the same values.

- Rows of four numbers, as training loops record them: `h.save` and `History.load` against pickle
  protocol 5, msgpack and JSON of the same rows. "To disk" is done as `h.save` does it for all of
  them: written under another name, fsync, renamed.
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
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from synchist import History
from synchist.file import read_file, replace_file, write_contents

from .turns import Run, medians


def typed_rows(count: int, repeats: int, folder: Path) -> None:
    rows = [{"loss": i * 0.1, "acc": i * 0.2, "n": i, "lr": 0.3} for i in range(count)]
    h = History()
    h.new_epoch()
    for row in rows:
        h.new_batch(row)
    path = folder / "rows.synchist"
    h.save(path)
    contents = read_file(path)
    dumps: dict[str, Callable[[], bytes]] = {
        "pickle 5": lambda: pickle.dumps(rows, 5),
        "msgpack": lambda: msgpack.packb(rows),
        "json": lambda: json.dumps(rows).encode(),
    }
    loads: dict[str, Callable[[bytes], Any]] = {
        "pickle 5": pickle.loads,
        "msgpack": msgpack.unpackb,
        "json": json.loads,
    }

    def safely(name: str, dump: Callable[[], bytes]) -> Run:
        """As `h.save` does it: another name, fsync, rename, fsync of the folder."""
        return lambda: replace_file(folder / name, lambda file: file.write(dump()))

    def back(name: str, load: Callable[[bytes], Any]) -> Run:
        return lambda: load((folder / name).read_bytes())

    memory = medians(repeats, {"synchist": lambda: write_contents(BytesIO(), contents), **dumps})
    disk = medians(
        repeats,
        {"synchist": lambda: h.save(path), **{n: safely(n, dump) for n, dump in dumps.items()}},
    )
    loaded = medians(
        repeats,
        {"synchist": lambda: History.load(path), **{n: back(n, loads[n]) for n in loads}},
    )
    values = 4 * count
    heads = ("to memory", "to disk", "load", "bytes")
    print(f"{f'{count} rows of 4 numbers, ns a value':40}" + "".join(f"{h:>10}" for h in heads))
    for name in memory:
        size = os.path.getsize(path if name == "synchist" else folder / name) / values
        times = "".join(f"{t[name] / values * 1e9:10.1f}" for t in (memory, disk, loaded))
        print(f"{name:40}{times}{size:10.2f}")
    for name in dumps:
        ratios = "".join(f"{t['synchist'] / t[name]:10.3f}" for t in (memory, disk, loaded))
        print(f"{'synchist / ' + name:40}{ratios}")
    print(f"{'at most, of pickle':40}{1:10.1f}{1:10.1f}{1:10.1f}{8.2:10.2f}")


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
