"""Nets with skorch's AccelerateMixin, and the mixin on either side of it."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from accelerate import Accelerator
from nets import TIMEOUT, OnRank0, net, only_on_rank_0, samples, weights, without_dur
from skorch import NeuralNetClassifier
from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring
from skorch.hf import AccelerateMixin
from torch import nn

from synchist import UsageError
from synchist_skorch import SkorchHistory, SyncedHistoryMixin


class CpuAccelerator(Accelerator):
    """accelerate 1.15 wraps criteria without parameters on several CPU processes, which fails."""

    def prepare(self, *objects: Any, **options: Any) -> Any:
        only = objects[0] if len(objects) == 1 else None
        if isinstance(only, nn.Module) and not any(p.requires_grad for p in only.parameters()):
            return only
        return super().prepare(*objects, **options)


class Outside(SyncedHistoryMixin, AccelerateMixin, NeuralNetClassifier):
    pass


class Inside(AccelerateMixin, SyncedHistoryMixin, NeuralNetClassifier):
    pass


def accelerated(folder: str) -> dict[str, Any]:
    """100 samples for validation in batches of 16: some ranks' last batch is padding in part."""
    accelerator = CpuAccelerator(cpu=True)
    assert accelerator.num_processes == dist.get_world_size()
    X, y = samples(500)  # noqa: N806
    results: dict[str, Any] = {}
    for cls in (Outside, Inside):
        scores = [
            (
                "gathered",
                EpochScoring("accuracy", name="gathered", use_caching=False, lower_is_better=False),
            ),
            ("auc", EpochScoring("roc_auc", name="auc", use_caching=False, lower_is_better=False)),
            (
                "train",
                EpochScoring("accuracy", name="train_acc", on_train=True, lower_is_better=False),
            ),
        ]
        fitted = net(
            cls,
            history=SkorchHistory(timeout=TIMEOUT, name=cls.__name__),
            accelerator=accelerator,
            batch_size=16,
            max_epochs=20,
            lr=1.0,
            callbacks=[
                *scores,
                ("best", Checkpoint(monitor="valid_acc_best", dirname=f"{folder}/{cls.__name__}")),
                ("stop", EarlyStopping("valid_acc", patience=3, lower_is_better=False)),
                *only_on_rank_0(("looker", OnRank0())),
            ],
        )
        fitted.fit(X, y)
        history = fitted.history
        results[cls.__name__] = {
            "history": without_dur(history),
            "digest": history.digest(),
            "accuracies": history.per_rank(-1, "valid_acc"),
            "weights": weights(fitted),
            "place": (history.rank, history.world_size),
            "rows": len(history[-1, "batches", :, "valid_loss"]),
        }
        fitted.load_params(checkpoint=dict(fitted.callbacks_)["best"])
        assert fitted.history is history
        results[cls.__name__]["loaded"] = len(history)
    few = net(  # 10 samples for validation: on some ranks all of them are padding
        Outside,
        history=SkorchHistory(timeout=TIMEOUT, name="few"),
        accelerator=accelerator,
        batch_size=16,
        callbacks=[EpochScoring("accuracy", name="gathered", use_caching=False)],
    )
    few.fit(X[:50], y[:50])
    results["few"] = (
        [few.history[:, name] for name in ("valid_acc", "gathered", "valid_acc_best")],
        few.history.per_rank(-1, "valid_acc"),
    )
    wrong = net(
        Outside,
        history=SkorchHistory(
            rank=(dist.get_rank() + 1) % dist.get_world_size(), world_size=dist.get_world_size()
        ),
        accelerator=accelerator,
    )
    try:
        wrong.fit(X, y)
    except UsageError as error:
        results["wrong rank"] = str(error)
    return results
