"""What the programs share: data, a module under DistributedDataParallel, callbacks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn

from synchist_skorch import SyncedHistoryMixin

torch.set_num_threads(1)
warnings.filterwarnings("error", category=UserWarning, module="synchist")

TIMEOUT = 60.0
"""Seconds of every history here. A run that waited for it would raise."""


def samples(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Noisy, so that no score of two shards is the same."""
    random = np.random.RandomState(seed)
    X = random.randn(count, 5).astype("float32")  # noqa: N806
    y = (X[:, 0] + 1.5 * random.randn(count) > 0).astype("int64")
    return X, y


def shard(count: int = 480, seed: int = 0) -> tuple[Any, Any]:
    """This rank's samples; a tenth more on rank 0 than on the others."""
    rank, size = dist.get_rank(), dist.get_world_size()
    X, y = samples(count * size, seed)  # noqa: N806
    mine = slice(rank, None, size)
    fewer = slice(0, count if rank == 0 else count * 9 // 10)
    return X[mine][fewer], y[mine][fewer]


class Plain(NeuralNetClassifier):
    """Without the mixin: gradients are averaged, and nothing else is shared."""

    def initialize_module(self) -> Any:
        super().initialize_module()
        self.module_ = nn.parallel.DistributedDataParallel(self.module_)
        return self


class Synced(SyncedHistoryMixin, Plain):
    """With the mixin."""


class Alone(NeuralNetClassifier):
    """No DistributedDataParallel, so that ranks need not have the same number of batches."""


class SyncedAlone(SyncedHistoryMixin, Alone):
    """With the mixin, but each rank trains for itself."""


def net(cls: type, **options: Any) -> Any:
    """A net of that class, with the same initial weights on every rank."""
    torch.manual_seed(0)
    options = {"max_epochs": 3, "lr": 0.3, "batch_size": 64, "verbose": 0, **options}
    return cls(
        nn.Linear,
        module__in_features=5,
        module__out_features=2,
        criterion=nn.CrossEntropyLoss,
        **options,
    )


def weights(fitted: Any) -> list[bytes]:
    """The parameters, to the bit."""
    return [p.detach().numpy().tobytes() for p in fitted.module_.parameters()]


def without_dur(history: Any) -> list[dict[str, Any]]:
    """Everything that has to be the same on every rank."""
    return [{name: value for name, value in epoch.items() if name != "dur"} for epoch in history]


class OnRank0(Callback):
    """As TensorBoard or a progress bar on the main process: reads whatever there is to read."""

    def on_batch_end(self, net: Any, **_: Any) -> None:
        net.history[-1, "batches", -1]
        net.history[-1]["batches"][-1]
        net.history[:, "batches"]

    def on_epoch_end(self, net: Any, **_: Any) -> None:
        dict(net.history[-1])
        net.history.to_list()
        net.history.record("only on rank 0", len(net.history))


def only_on_rank_0(*callbacks: Any) -> list[Any]:
    """These callbacks on rank 0, and none on the others."""
    return list(callbacks) if dist.get_rank() == 0 else []
