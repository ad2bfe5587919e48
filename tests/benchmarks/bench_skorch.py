"""What a skorch fit on two ranks pays for its history: skorch's DistributedHistory and ours.

Two processes that train under DistributedDataParallel, 10 epochs of 50 batches, 10 of them for
validation. Timed is what a rank spends inside calls of its history; each net fits a few times, in
turns, on one TCPStore.

Prints medians and ratios; nothing is asserted, because time on a shared machine proves nothing.

    python tests/benchmarks/bench_skorch.py [--epochs 10] [--batches 50] [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from skorch import NeuralNet
from skorch.history import DistributedHistory, History
from torch import nn

from synchist import Store
from synchist_skorch import SkorchHistory, SyncedHistoryMixin
from synchist_torch import launch

CALLS = ("new_epoch", "new_batch", "record", "record_batch", "clear", "__getitem__", "__len__")
TALKS = ("sync", "_sync", "agree")
BATCH_SIZE = 8


class Net(NeuralNet):  # type: ignore[misc]
    """Averages gradients."""

    module_: Any

    def initialize_module(self) -> Any:
        super().initialize_module()
        self.module_ = nn.parallel.DistributedDataParallel(self.module_)
        return self


class SyncedNet(SyncedHistoryMixin, Net):
    """With our mixin."""


class Clock:
    """Seconds inside calls; calls of each other count once.

    Ranks that are about to talk wait for each other first, off the clock: that one of them still
    computes is no cost of a history.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began: float | None = None

    def watching(self, cls: Any) -> Any:
        """A subclass whose calls are timed."""
        names = [name for name in (*CALLS, *TALKS) if hasattr(cls, name)]
        return type(cls.__name__, (cls,), {name: self._timed(cls, name) for name in names})

    def _timed(self, cls: Any, name: str) -> Callable[..., Any]:
        call = getattr(cls, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            outermost = self._began is None
            if name in TALKS:
                self._pause()
                dist.barrier()
            if outermost or name in TALKS:
                self._began = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                if outermost:
                    self._pause()

        return timed

    def _pause(self) -> None:
        if self._began is not None:
            self.seconds += time.perf_counter() - self._began
            self._began = None


def measure(epochs: int, batches: int, repeats: int) -> dict[str, list[float]]:
    """One rank's part: seconds in history calls of each fit."""
    torch.set_num_threads(1)  # as torchrun has it; threads of two processes would share the cores
    rank = dist.get_rank()
    address: list[Any] = [None]
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        address = [store.port]
    dist.broadcast_object_list(address)
    if rank != 0:
        store = dist.TCPStore("127.0.0.1", address[0], wait_for_workers=False)
    random = np.random.RandomState(rank)
    X = random.randn(batches * BATCH_SIZE, 5).astype("float32")  # noqa: N806
    y = (X[:, 0] > 0).astype("int64")
    found: dict[str, list[float]] = {}
    for repeat in range(repeats):
        # A prefix for each fit: DistributedHistory would read the values of the one before.
        prefixed = dist.PrefixStore(f"repeat {repeat}", store)
        for name, net_cls, history_cls in (
            ("DistributedHistory", Net, DistributedHistory),
            ("SkorchHistory", Net, SkorchHistory),
            ("SkorchHistory with the mixin", SyncedNet, SkorchHistory),
            ("History, not shared", Net, History),
        ):
            clock = Clock()
            place = {"store": cast(Store, prefixed), "rank": rank, "world_size": 2}
            history = clock.watching(history_cls)(**(place if history_cls is not History else {}))
            torch.manual_seed(0)
            net = net_cls(
                nn.Linear,
                module__in_features=5,
                module__out_features=2,
                criterion=nn.CrossEntropyLoss,
                max_epochs=epochs,
                batch_size=BATCH_SIZE,
                verbose=0,
                history=history,
            )
            dist.barrier()
            net.fit(X, y)
            found.setdefault(name, []).append(clock.seconds)
    dist.barrier()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    ranks = launch(measure, args.epochs, args.batches, args.repeats, world_size=2)
    print(f"2 ranks, TCPStore, {args.epochs} epochs of {args.batches} batches")
    print(f"{'in calls of':32}{'median ms':>12}{'best ms':>12}")
    median, best = {}, {}
    for name in ranks[0]:
        seconds = [found for rank in ranks for found in rank[name]]
        median[name], best[name] = statistics.median(seconds), min(seconds)
        print(f"{name:32}{median[name] * 1e3:12.3f}{best[name] * 1e3:12.3f}")
    print(f"{'DistributedHistory / ...':32}{'of medians':>12}{'of bests':>12}")
    for name in list(median)[1:]:
        skorchs = "DistributedHistory"
        print(f"{name:32}{median[skorchs] / median[name]:12.1f}{best[skorchs] / best[name]:12.1f}")


if __name__ == "__main__":
    main()
