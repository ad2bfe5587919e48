"""What the codec costs: a large array against copying it, small values against other formats.

Everything is measured in turn, in one run; medians and their ratios are printed, and nothing is
asserted, because time on a shared machine proves nothing.

    python -m tests.benchmarks.bench_codec [--megabytes 100] [--rows 20000] [--repeats 15]
"""

from __future__ import annotations

import argparse
import json
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from synchist.codec import decode, encode

from .turns import Run, medians


def peak(run: Run) -> int:
    """Bytes that it takes at most, beyond what is there before."""
    tracemalloc.start()
    result = run()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del result
    return found


def large_array(megabytes: int, repeats: int) -> None:
    array: Any = np.random.default_rng(1).standard_normal(megabytes * 250_000, np.float32)
    data = encode(array)
    time_of = medians(
        repeats,
        {
            "bytes(memoryview(a))": lambda: bytes(memoryview(array)),
            "encode": lambda: encode(array),
            "a.copy()": array.copy,
            "decode": lambda: decode(data),
        },
    )
    print(f"{f'float32 array of {megabytes} MB':40}{'ms':>10}")
    for name, seconds in time_of.items():
        print(f"{name:40}{seconds * 1e3:10.2f}")
    print(f"{'ratios':40}{'is':>10}{'at most':>10}")
    for name, ratio, most in (
        ("encode / bytes(memoryview(a))", time_of["encode"] / time_of["bytes(memoryview(a))"], 1.5),
        ("decode / a.copy()", time_of["decode"] / time_of["a.copy()"], 1.5),
        # What is there before is the array, or its encoding: that counts as well.
        ("peak of encoding / size", 1 + peak(lambda: encode(array)) / array.nbytes, 2.2),
        ("peak of decoding / size", 1 + peak(lambda: decode(data)) / array.nbytes, 2.2),
    ):
        print(f"{name:40}{ratio:10.2f}{most:10.1f}")


def small_values(count: int, repeats: int) -> None:
    rows = [{"loss": i * 0.1, "acc": i * 0.2, "n": i, "lr": 0.3} for i in range(count)]
    dump: dict[str, Callable[[Any], Any]] = {
        "synchist.codec": encode,
        "pickle 5": lambda value: pickle.dumps(value, 5),
        "msgpack": msgpack.packb,
        "json": json.dumps,
    }
    load: dict[str, Callable[[Any], Any]] = {
        "synchist.codec": decode,
        "pickle 5": pickle.loads,
        "msgpack": msgpack.unpackb,
        "json": json.loads,
    }
    dumped = {name: run(rows) for name, run in dump.items()}

    def turn(run: Callable[[Any], Any], value: Any) -> Run:
        return lambda: run(value)

    dumps = medians(repeats, {name: turn(run, rows) for name, run in dump.items()})
    loads = medians(repeats, {name: turn(run, dumped[name]) for name, run in load.items()})
    print(f"{f'{count} rows of 4 numbers, as dicts':40}{'dump ns':>10}{'load ns':>10}{'bytes':>10}")
    for name in dump:
        ns = [seconds / (4 * count) * 1e9 for seconds in (dumps[name], loads[name])]
        size = len(dumped[name]) / (4 * count)
        print(f"{name + ', a value':40}{ns[0]:10.1f}{ns[1]:10.1f}{size:10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    large_array(args.megabytes, args.repeats)
    print()
    small_values(args.rows, args.repeats)


if __name__ == "__main__":
    main()
