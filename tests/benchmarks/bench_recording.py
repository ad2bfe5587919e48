"""What recording costs, and what a recorded float weighs.

`record_batch` against a class of two lines that stores into a dict, in a short history and in a
long one; and the memory of a synced float.

    python tests/benchmarks/bench_recording.py [--calls 200000] [--epochs 2000] [--batches 100000]
"""

from __future__ import annotations

import argparse
import timeit
import tracemalloc
from typing import Any

from synchist import History


class TwoLines:
    def __init__(self) -> None:
        self.row: dict[str, Any] = {}

    def record_batch(self, name: str, value: Any) -> None:
        self.row[name] = value


def nanoseconds(statement: str, calls: int, **names: Any) -> float:
    """The best of 9 runs, a call."""
    found = timeit.repeat(statement, globals=names, number=calls, repeat=9)
    return min(found) / calls * 1e9


def bytes_per_float(batches: int) -> float:
    """Of a history of one epoch and four columns, after a sync."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    h = History()
    h.new_epoch()
    for i in range(batches):
        h.new_batch(loss=i * 0.5, acc=i * 0.25, lr=i * 0.125, grad=i * 2.0)
    h.sync()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / (4 * batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=2_000)
    parser.add_argument("--batches", type=int, default=100_000)
    args = parser.parse_args()

    call = "h.record_batch('loss', value)"
    plain = nanoseconds(call, args.calls, h=TwoLines(), value=0.5)
    h = History()
    h.new_epoch()
    h.new_batch(loss=1.0)
    short = nanoseconds(call, args.calls, h=h, value=0.5)
    for epoch in range(args.epochs):
        h.new_epoch(valid_loss=0.5)
        for _ in range(args.batches if epoch == args.epochs - 1 else 5):
            h.new_batch(loss=1.0)
    long = nanoseconds(call, args.calls, h=h, value=0.5)
    row = nanoseconds(
        "h.new_batch(loss=value, acc=value, lr=value, grad=value)", args.calls, h=h, value=0.5
    )
    print(f"{'':48}{'ns a call':>10}{'ratio':>8}")
    print(f"{'two lines: self.row[name] = value':48}{plain:10.1f}{1:8.2f}")
    print(f"{'record_batch, 1 epoch, 1 batch':48}{short:10.1f}{short / plain:8.2f}")
    name = f"record_batch, {args.epochs} epochs, {args.batches} batches"
    print(f"{name:48}{long:10.1f}{long / plain:8.2f}")
    print(f"{'new_batch with four floats':48}{row:10.1f}{row / plain:8.2f}")
    print(f"{'bytes a synced float':48}{bytes_per_float(args.batches):10.2f}")


if __name__ == "__main__":
    main()
