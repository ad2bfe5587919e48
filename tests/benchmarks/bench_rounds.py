"""What a training run pays for one history on two ranks, against the ways it had before.

Two processes over one TCPStore; a few epochs of batches of four floats each, and one agreed column
read at the end of every epoch. Peers in the same run, on the same rows:

- skorch's DistributedHistory (recording, and the read that syncs),
- `all_gather_object` of the rows over gloo,
- the bare floor: `set` and `multi_get` of the same number of bytes, without anything around it.

Prints medians and ratios; nothing is asserted, because time on a shared machine proves nothing.

    python tests/benchmarks/bench_rounds.py [--epochs 3] [--batches 400] [--repeats 15]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, cast

import torch.distributed as dist

from synchist import History, Store
from synchist_torch import launch


def rows(batches: int) -> list[dict[str, float]]:
    return [{"loss": 0.1 * i, "acc": 0.2, "lr": 0.3, "grad": 0.4} for i in range(batches)]


def seconds(repeats: int, run: Callable[[int], Any]) -> list[float]:
    """Seconds of each repeat; the ranks start together."""
    found = []
    for repeat in range(repeats):
        dist.barrier()
        began = time.perf_counter()
        run(repeat)
        found.append(time.perf_counter() - began)
    return found


def measure(epochs: int, batches: int, repeats: int, skorch_repeats: int) -> dict[str, Any]:
    """One rank's part. `sync` is the sync and the read of one epoch; the others whole runs."""
    from skorch.history import DistributedHistory

    rank = dist.get_rank()
    address: list[Any] = [None]
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        address = [store.port]
    dist.broadcast_object_list(address)
    if rank != 0:
        store = dist.TCPStore("127.0.0.1", address[0], is_master=False, wait_for_workers=False)
    data = rows(batches)
    syncs: list[float] = []

    def synchist_run(repeat: int) -> None:
        h = History(store=cast(Store, store), rank=rank, world_size=2, name=f"run {repeat}")
        for epoch in range(epochs):
            h.new_epoch()
            for row in data:
                h.new_batch(row)
            began = time.perf_counter()
            h.sync()
            assert len(h[-1, "batches", :, "loss"]) == 2 * batches
            if epoch:  # the first one meets
                syncs.append(time.perf_counter() - began)

    def gather_run(_: int) -> None:
        for _ in range(epochs):
            mine = [dict(row) for row in data]
            everyone: list[Any] = [None, None]
            dist.all_gather_object(everyone, mine)
            column = [row["loss"] for pair in zip(*everyone, strict=True) for row in pair]
            assert len(column) == 2 * batches

    def skorch_run(repeat: int) -> None:
        # A prefix for each run: it would read the values of the run before otherwise.
        prefixed = dist.PrefixStore(f"skorch {repeat}", store)
        h = DistributedHistory(store=prefixed, rank=rank, world_size=2)
        for _ in range(epochs):
            h.new_epoch()
            for row in data:
                h.new_batch()
                for name, value in row.items():
                    h.record_batch(name, value)
            assert len(h[-1, "batches", :, "loss"]) == 2 * batches

    payload: Any = bytes(4 * 8 * batches)

    def floor_run(repeat: int) -> None:
        store.set(f"floor/{repeat}/{rank}", payload)
        store.multi_get([f"floor/{repeat}/{other}" for other in range(2)])

    found = {
        "synchist": seconds(repeats, synchist_run),
        "all_gather_object": seconds(repeats, gather_run),
        "floor": seconds(repeats * 3, floor_run),
        "sync": syncs,
    }
    found["skorch"] = seconds(skorch_repeats, skorch_run)
    dist.barrier()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--skorch-repeats", type=int, default=3)
    args = parser.parse_args()
    ranks = launch(
        measure, args.epochs, args.batches, args.repeats, args.skorch_repeats, world_size=2
    )
    print(f"2 ranks, TCPStore, {args.epochs} epochs of {args.batches} batches of 4 floats")
    median = {
        name: statistics.median(itertools.chain.from_iterable(rank[name] for rank in ranks))
        for name in ranks[0]
    }
    best = {name: min(min(rank[name]) for rank in ranks) for name in ranks[0]}
    print(f"{'':32}{'median ms':>12}{'best ms':>12}")
    for name, value in median.items():
        print(f"{name:32}{value * 1e3:12.3f}{best[name] * 1e3:12.3f}")
    print(f"{'ratios':32}{'of medians':>12}{'of bests':>12}")
    for name, slow, fast in (
        ("skorch / synchist", "skorch", "synchist"),
        ("all_gather_object / synchist", "all_gather_object", "synchist"),
        ("sync and read / floor", "sync", "floor"),
    ):
        print(f"{name:32}{median[slow] / median[fast]:12.2f}{best[slow] / best[fast]:12.2f}")


if __name__ == "__main__":
    main()
