"""Ranks that keep a history together."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import torch.distributed as dist

from synchist import History, StoreError
from synchist_torch import _default_store, c10d, distributed_history


def fit(h: History, epochs: int = 2) -> dict[str, Any]:
    """Rank r records 2 + r batches an epoch, and rank 0 a score; what all of them agree on."""
    digests = []
    with h:
        for epoch in range(epochs):
            h.new_epoch()
            for batch in range(2 + h.rank):
                h.new_batch(loss=float(batch), batch_size=batch + 1)
            if h.rank == 0:
                h.record("score", epoch)
            h.sync()
            digests.append(h.digest())
        return {"rank": h.rank, "digests": digests, "losses": h[-1, "batches", :, "loss"]}


def over_the_group(new_store: str) -> dict[str, Any]:
    """Histories one after another and at once, then over the store of a second group."""
    results = {
        "first": fit(distributed_history(timeout=30)),
        "second": fit(distributed_history(timeout=30), epochs=3),
    }
    a, b = distributed_history(timeout=30), distributed_history(timeout=30)
    with a, b:
        for h in (a, b, a):
            h.new_epoch(name="a" if h is a else "b")
            h.sync()
        results["at once"] = a.to_list(), b.to_list()

    results["same object"] = _default_store.default_store(1) is _default_store.default_store(1)
    gone = weakref.ref(_default_store.default_store(1))
    del a, b, h
    rank, world_size = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    gc.collect()
    results["let go"] = gone() is None
    dist.init_process_group(
        "gloo", store=c10d.FileStore(new_store, world_size), rank=rank, world_size=world_size
    )
    results["second group"] = fit(distributed_history(timeout=30))
    return results


def without_the_private_name() -> dict[str, Any]:
    """A torch that does not give its store away."""
    _default_store._torch_store = lambda: None
    results: dict[str, Any] = {}

    def fail(use_libuv: bool) -> c10d.Store:
        raise RuntimeError("no socket")

    host, _default_store._host = _default_store._host, fail
    try:
        distributed_history(timeout=30)
    except StoreError as error:
        results["error"] = str(error)
    _default_store._host = host
    results["first"] = fit(distributed_history(timeout=30))
    results["second"] = fit(distributed_history(timeout=30))
    return results
