"""Nets with the mixin: every rank takes the same decisions, and nobody waits for a deadline."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist
from nets import (
    TIMEOUT,
    OnRank0,
    Synced,
    SyncedAlone,
    net,
    only_on_rank_0,
    shard,
    weights,
    without_dur,
)
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_validate
from skorch.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    LoadInitState,
    LRScheduler,
)
from skorch.dataset import Dataset
from skorch.helper import predefined_split

from synchist_skorch import SkorchHistory


def history(**options: Any) -> SkorchHistory:
    return SkorchHistory(timeout=TIMEOUT, **options)


def deciding(folder: Path, history: Any) -> Any:
    """Every stock callback that decides by a score, all of them by one that differs by rank."""
    rank = dist.get_rank()
    files: dict[str, Any] = {"dirname": str(folder / f"rank {rank}")}
    return net(
        Synced,
        history=history,
        max_epochs=40,
        lr=1.0,
        callbacks=[
            ("f1", EpochScoring("f1", lower_is_better=False, name="f1")),
            ("best", Checkpoint(monitor="valid_acc_best", f_pickle="net.pkl", **files)),
            ("plateau", LRScheduler("ReduceLROnPlateau", monitor="valid_acc", patience=1)),
            ("stop", EarlyStopping("valid_acc", patience=5, lower_is_better=False, load_best=True)),
            *only_on_rank_0(("looker", OnRank0())),
        ],
    )


def decide(folder: str) -> dict[str, Any]:
    """Early stopping, checkpoints and learning rates, all by a score that differs by rank."""
    fitted = deciding(Path(folder), history())
    X, y = shard()  # noqa: N806
    fitted.fit(X, y)
    pickled = (Path(folder) / f"rank {dist.get_rank()}" / "net.pkl").read_bytes()
    restored = pickle.loads(pickled)
    callbacks = [callback for _, callback in [*fitted.callbacks_, *restored.callbacks_]]
    return {
        "history": without_dur(fitted.history),
        "digest": fitted.history.digest(),
        "accuracies": fitted.history.per_rank(-1, "valid_acc"),
        "samples": own_samples(fitted.history),
        "weights": weights(fitted),
        "lr": fitted.optimizer_.param_groups[0]["lr"],
        "checkpoints": fitted.history[:, "event_cp"],
        "restored": (type(restored).__name__, len(restored.history)),
        "left behind": [name for cb in callbacks for name in vars(cb) if name == "_scoring"],
        "kinds": {type(callback).__name__ for callback in callbacks},
    }


def own_samples(history: SkorchHistory) -> int:
    """How many samples this rank validated the last epoch with; validation comes last."""
    count = history[-1, "valid_batch_count"]
    own = (history[-1, "batches", -1 - batch, "valid_batch_size"] for batch in range(count))
    return int(sum(own))


def survive(folder: str) -> dict[str, Any]:
    """Clones, cross-validation, grid search, files and copies keep the history shared."""
    rank = dist.get_rank()
    X, y = shard(120)  # noqa: N806
    base = net(Synced, history=history(name="base"), max_epochs=2, batch_size=60)
    base.fit(X, y)
    held, before = base.history, base.history.digest()
    results: dict[str, Any] = {"before": before}

    cloned = clone(base)
    assert cloned.history is not held
    assert not cloned.history
    cloned.fit(X, y)
    results["clone"] = shared(cloned)

    validated = cross_validate(base, X[:100], y[:100], cv=2, return_estimator=True)
    results["cross-validation"] = [shared(estimator) for estimator in validated["estimator"]]
    grid = GridSearchCV(base, {"lr": [0.3, 0.1]}, cv=2, scoring=agreed_accuracy)
    grid.fit(X[:100], y[:100])
    results["grid search"] = shared(grid.best_estimator_), grid.best_params_
    results["grid scores"] = [float(score) for score in grid.cv_results_["mean_test_score"]]
    assert base.history is held
    assert held.digest() == before

    # The main process writes; everybody loads.
    file = Path(folder) / "history.json"
    if rank == 0:
        base.save_params(f_history=str(file))
    dist.barrier()
    base.load_params(f_history=str(file))
    assert base.history is held
    results["loaded"] = base.history.to_list()
    base.partial_fit(X, y)
    assert base.history is held
    results["went on"] = shared(base), len(base.history)

    files = Path(folder) / f"rank {rank}"
    checkpoint = Checkpoint(monitor="valid_loss_best", dirname=str(files), load_best=True)
    trained = net(Synced, history=history(name="best"), callbacks=[checkpoint], max_epochs=3)
    trained.fit(X, y)
    results["load_best"] = type(trained.history).__name__, weights(trained)
    resumed = net(
        Synced, history=history(name="resumed"), callbacks=[LoadInitState(checkpoint)], max_epochs=2
    )
    epochs = len(trained.history)
    # The files of one rank, as on a file system that all of them share.
    dist.barrier()
    checkpoint.dirname = str(Path(folder) / "rank 0")
    resumed.fit(X, y)
    results["resumed"] = shared(resumed), len(resumed.history) - epochs, weights(resumed)
    return results


def agreed_accuracy(net: Any, X: Any, y: Any) -> float:  # noqa: N803
    """A score for grid search that is the same on every rank."""
    score = accuracy_score(y, net.predict(X))
    return float(net.history.agree("test", score, reduce="mean", weight=len(y)))


def shared(fitted: Any) -> tuple[str, int, str]:
    """Whether it has a history of all ranks."""
    kind = type(fitted.history).__name__
    return kind, len(fitted.history[-1, "batches", :, "train_loss"]), fitted.history.digest()


def ragged() -> dict[str, Any]:
    """Rank 0 alone has validation data, and ranks have different numbers of batches."""
    rank = dist.get_rank()
    X, y = shard()  # noqa: N806
    valid = predefined_split(Dataset(X[:100], y[:100])) if rank == 0 else None
    fitted = net(
        SyncedAlone,
        history=history(),
        batch_size=64 + 32 * rank,
        train_split=valid,
        max_epochs=40,
        lr=0.1 + rank,
        callbacks=[EarlyStopping("valid_acc", patience=2, lower_is_better=False)],
    )
    fitted.fit(X, y)
    return {
        "history": [
            {name: value for name, value in epoch.items() if "batch_count" not in name}
            for epoch in without_dur(fitted.history)
        ],
        "counts": fitted.history.per_rank(-1, "train_batch_count"),
        "digest": fitted.history.digest(),
    }


class StopsOnRank1(Callback):
    def on_epoch_end(self, net: Any, **_: Any) -> None:
        if dist.get_rank() == 1 and len(net.history) == 2:
            raise KeyboardInterrupt


class FailsOnRank1(Callback):
    def on_batch_end(self, net: Any, **_: Any) -> None:
        if dist.get_rank() == 1 and len(net.history) == 2:
            raise ValueError("rank 1 ran out of luck")


def disagree() -> dict[str, Any]:
    """One rank stops, or fails, and the others do not: what each raises, and after how long."""
    X, y = shard()  # noqa: N806
    results = {}
    for name, cls, callback in (
        ("stops", Synced, StopsOnRank1()),
        ("fails", SyncedAlone, FailsOnRank1()),
        (
            "scores",
            SyncedAlone,
            EpochScoring("f1", name="f1") if dist.get_rank() == 1 else OnRank0(),
        ),
    ):
        fitted = net(cls, history=history(name=name), callbacks=[callback])
        began = time.monotonic()
        try:
            fitted.fit(X, y)
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            results[name] = type(error).__name__, str(error), time.monotonic() - began
        dist.barrier()
        fitted.set_params(callbacks=None)
        fitted.fit(X, y)  # a new fit begins afresh
        results[f"after {name}"] = shared(fitted)
    return results
