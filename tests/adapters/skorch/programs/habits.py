"""What people do to nets between and within fits, with the mixin."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from nets import TIMEOUT, Synced, SyncedAlone, net, shard
from sklearn.base import clone
from skorch.callbacks import Callback, Checkpoint

from synchist_skorch import SkorchHistory


class Interrupts(Callback):
    """Ctrl-C after the first batch of a phase of the second epoch, on these ranks."""

    def __init__(self, ranks: Any, training: bool = True) -> None:
        self.ranks = ranks
        self.training = training

    def on_batch_end(self, net: Any, training: bool = False, **_: Any) -> None:
        there = len(net.history) == 2 and training is self.training
        if there and dist.get_rank() in self.ranks:
            raise KeyboardInterrupt


class RecordsInTheEnd(Callback):
    def on_train_end(self, net: Any, **_: Any) -> None:
        net.history.record("in the end", dist.get_rank())
        net.history[0]["of the first"] = dist.get_rank()


class NamesOfItsOwn(Callback):
    """Batch values, and epoch values, that one rank alone has."""

    def on_batch_end(self, net: Any, **_: Any) -> None:
        net.history.record_batch(f"batch of {dist.get_rank()}", 1)

    def on_epoch_end(self, net: Any, **_: Any) -> None:
        net.history.record(f"epoch of {dist.get_rank()}", 1)


def rows(fitted: Any) -> tuple[list[int], str]:
    """The number of rows of each epoch, and the digest."""
    history = fitted.history
    assert type(history) is SkorchHistory
    return [len(epoch["batches"]) for epoch in history], history.digest()


def run(folder: str) -> dict[str, Any]:
    """By habit, what this rank saw of it."""
    everybody = range(dist.get_world_size())
    X, y = shard(240)  # noqa: N806

    def make(name: str, cls: type = Synced, **options: Any) -> Any:
        history = SkorchHistory(timeout=TIMEOUT, name=name)
        return net(cls, history=history, max_epochs=options.pop("max_epochs", 2), **options)

    def interrupted(training: bool) -> Any:
        fitted = make("interrupted", callbacks=[Interrupts(everybody, training)], max_epochs=4)
        fitted.fit(X, y)
        found = rows(fitted)
        fitted.set_params(callbacks=None, max_epochs=1)
        fitted.partial_fit(X, y)
        return found, rows(fitted)

    def interrupted_alone() -> Any:
        fitted = make("interrupted alone", SyncedAlone, callbacks=[Interrupts([1])], max_epochs=4)
        return told(lambda: fitted.fit(X, y))

    def different_epochs() -> Any:
        fitted = make("epochs", SyncedAlone, max_epochs=1 + dist.get_rank())
        return told(lambda: fitted.fit(X, y))

    def warm_start() -> Any:
        fitted = make("warm", warm_start=True).fit(X, y)
        return rows(fitted), rows(fitted.fit(X, y))

    def without_validation() -> Any:
        fitted = make("no validation", train_split=None).fit(X, y)
        return rows(fitted), fitted.history[:, "train_loss"]

    def copied() -> Any:
        fitted = make("copied").fit(X, y)
        copied = copy.deepcopy(fitted)
        copied.partial_fit(X, y)
        fitted.fit(X, y)
        again = copy.deepcopy(copied).fit(X, y)
        return rows(fitted), rows(copied), rows(again)

    def clones() -> Any:
        first = clone(make("cloned"))
        second = clone(first)
        return rows(second.fit(X, y)), rows(first.fit(X, y))

    def late_records() -> Any:
        fitted = make("late", callbacks=[RecordsInTheEnd()]).fit(X, y)
        fitted.history.sync()
        history = fitted.history
        found = history.per_rank(0, "of the first"), history.per_rank(-1, "in the end")
        return found, rows(fitted.partial_fit(X, y))

    def own_names() -> Any:
        fitted = make("own", callbacks=[NamesOfItsOwn()]).fit(X, y)
        fitted.history.sync()
        epoch = fitted.history[-1]
        names = {name for row in epoch["batches"] for name in row} | set(epoch)
        return sorted(name for name in names if " of " in name)

    def own_checkpoints() -> Any:
        files = f"{folder}/own {dist.get_rank()}"
        best = Checkpoint(monitor="valid_acc_best", dirname=files, load_best=True)
        fitted = make("checkpoints", callbacks=[best]).fit(X, y)
        return told(lambda: fitted.partial_fit(X, y))

    habits: dict[str, Callable[[], Any]] = {
        "interrupted in training": lambda: interrupted(training=True),
        "interrupted in validation": lambda: interrupted(training=False),
        "interrupted alone": interrupted_alone,
        "different epochs": different_epochs,
        "warm start": warm_start,
        "without validation": without_validation,
        "copied": copied,
        "clones of clones": clones,
        "late records": late_records,
        "own names": own_names,
        "own checkpoints": own_checkpoints,
    }
    found = {}
    for name, habit in habits.items():
        found[name] = habit()
        dist.barrier()
    return found


def told(fit: Callable[[], Any]) -> tuple[str, str, bool]:
    """What a fit raised, what it says, and whether that came long before any deadline."""
    began = time.monotonic()
    try:
        fit()
    except Exception as error:  # noqa: BLE001  (the test looks at it)
        return type(error).__name__, str(error), time.monotonic() - began < TIMEOUT / 2
    return "nothing", "", True
