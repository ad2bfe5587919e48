"""What goes wrong with skorch's DistributedHistory, done with SkorchHistory and plain nets."""

from __future__ import annotations

import copy
import pickle
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch.distributed as dist
from nets import (
    TIMEOUT,
    Alone,
    OnRank0,
    Plain,
    net,
    only_on_rank_0,
    shard,
    weights,
    without_dur,
)
from skorch.callbacks import BatchScoring, Callback
from skorch.utils import train_loss_score

from synchist import Store, SynchistWarning
from synchist_skorch import SkorchHistory


def own_store() -> Any:
    """A TCPStore on rank 0, at a free port."""
    address: list[Any] = [None]
    store: Any = None
    if dist.get_rank() == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        address = [store.port]
    dist.broadcast_object_list(address)
    if store is None:
        store = dist.TCPStore("127.0.0.1", address[0], wait_for_workers=False)
    return store


VALUES = {
    "np.float32": np.float32(0.1),
    "np.int64": np.int64(3),
    "array": np.arange(3),
    "bytes": b"x",
    "set": {1},
    "tuple": (1, (2,)),
}


class Values(Callback):
    """Records what JSON refuses."""

    def on_batch_end(self, net: Any, training: bool = False, **_: Any) -> None:
        if training:
            for name, value in VALUES.items():
                net.history.record_batch(name, value)

    def on_epoch_end(self, net: Any, **_: Any) -> None:
        for name, value in VALUES.items():
            net.history.record(name, value)


def loss_of_the_batch(net: Any, X: Any, y: Any) -> float:  # noqa: N803
    """Reads in the middle of a batch, as stock scores do."""
    return float(train_loss_score(net))


class OwnRow(Callback):
    """Compares what it reads with what the net has just recorded."""

    wrong = 0

    def on_batch_end(self, net: Any, loss: Any = None, training: bool = False, **_: Any) -> None:
        name = "train_loss" if training else "valid_loss"
        self.wrong += net.history[-1, "batches", -1, name] != loss.item()


def run() -> dict[str, Any]:
    """Plain nets with a SkorchHistory on a store of their own."""
    rank, size = dist.get_rank(), dist.get_world_size()
    store = own_store()

    def history(name: str) -> SkorchHistory:
        return SkorchHistory(
            store=cast(Store, store), rank=rank, world_size=size, timeout=TIMEOUT, name=name
        )

    results: dict[str, Any] = {"rank": rank}
    own = OwnRow()
    callbacks = [
        ("values", Values()),
        ("batch score", BatchScoring(loss_of_the_batch, name="again", on_train=True)),
        ("own", own),
        *only_on_rank_0(OnRank0()),
    ]
    fitted = net(Plain, history=history("faults"), callbacks=callbacks)
    X, y = shard(seed=0)  # noqa: N806
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(X, y)
    results["warnings"] = [str(w.message) for w in caught if w.category is SynchistWarning]
    results["first"] = losses(fitted)
    results["wrong own rows"] = dict(fitted.callbacks_)["own"].wrong
    results["values"] = [
        {name: row[name] for name in VALUES} for row in fitted.history[0, "batches", :4]
    ]
    results["keys"] = store.num_keys()

    # Again on the same store, with other data; rank 0 is faster.
    if rank:
        time.sleep(0.3)
    with ignored():
        fitted.fit(*shard(seed=1))
    fitted.history.sync()
    results["second"] = losses(fitted)
    results["history"] = without_dur(fitted.history)
    results["dur"] = fitted.history.per_rank(0, "dur")
    results["digest"] = fitted.history.digest()
    results["weights"] = weights(fitted)
    results["keys after the second"] = store.num_keys()

    # Copies.
    results["copies"] = {}
    for how, duplicate in (
        ("deepcopy", copy.deepcopy),
        ("pickle", lambda net: pickle.loads(pickle.dumps(net.history))),
    ):
        copied = duplicate(fitted)
        if how == "pickle":
            copied = net(Plain, history=copied, max_epochs=2)
        with ignored():
            copied.fit(X, y)
        results["copies"][how] = losses(copied)
    assert losses(fitted) == results["second"]

    # Different numbers of batches.
    ragged = net(Alone, history=history("ragged"), batch_size=64 + 32 * rank, max_epochs=2)
    with ignored():
        ragged.fit(X, y)
    results["ragged"] = losses(ragged)
    dist.barrier()
    return results


def losses(fitted: Any) -> dict[str, Any]:
    """What the ranks have to agree on without the mixin, and where it comes from."""
    history = fitted.history
    return {
        "rows": history[-1, "batches", :, ("train_loss", "train_batch_size")],
        "valid rows": history[-1, "batches", :, ("valid_loss", "valid_batch_size")],
        "train_loss": history[-1, "train_loss"],
        "valid_loss": history[-1, "valid_loss"],
        "best": history[:, "valid_loss_best"],
        "epochs": len(history),
        "batches": sum(history.per_rank(-1, "train_batch_count").values()),
    }


@contextmanager
def ignored() -> Iterator[None]:
    """Scores that differ by rank are told of; where they are expected, that is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SynchistWarning)
        yield
