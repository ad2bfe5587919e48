"""What a call costs does not grow with the history: function calls are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from synchist import History, NotSyncedError


def calls_in(run: Callable[[], Any]) -> int:
    """How many functions are called, those of C included."""
    count = 0

    def see(frame: Any, event: str, what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def alone(epochs: int, batches: int) -> History:
    h = History()
    fill(h, epochs, batches)
    h.sync()
    h.digest(), h.best("v")
    return h


def pending(epochs: int, batches: int) -> History:
    """One of two ranks that have not synced."""
    h = History(rank=0, world_size=2)
    fill(h, epochs, batches)
    h.local.to_list()
    return h


def fill(h: History, epochs: int, batches: int) -> None:
    for epoch in range(epochs):
        h.new_epoch(v=float(epoch))
        for batch in range(batches):
            h.new_batch(x=float(batch), n=batch)


def refused(h: History) -> None:
    with pytest.raises(NotSyncedError):
        h[-1, "v"]


CALLS: dict[str, Callable[[History], Any]] = {
    "record_batch": lambda h: h.record_batch("x", 0.5),
    "record_batch of something new": lambda h: h.record_batch("y", "text"),
    "new_batch": lambda h: h.new_batch(x=0.5, n=1),
    "record": lambda h: h.record("v", 0.5),
    "new_epoch": lambda h: h.new_epoch(v=0.5),
    "len": len,
    "bool": bool,
    "repr": repr,
}
READS: dict[str, Callable[[History], Any]] = {
    "an epoch value": lambda h: h[-1, "v"],
    "a batch value": lambda h: h[-1, "batches", -1, "x"],
    "a row": lambda h: h[-1, "batches", -1],
    "per_rank": lambda h: h.per_rank(-1, "v"),
    "best": lambda h: h.best("v"),
    "epochs_since_best": lambda h: h.epochs_since_best("v"),
    "the digest": lambda h: h.digest(),
    "sync": lambda h: h.sync(),
}


@pytest.mark.parametrize("call", [*CALLS.values(), *READS.values()], ids=[*CALLS, *READS])
def test_no_call_costs_more_in_a_history_of_many_epochs(call: Callable[[History], Any]) -> None:
    few, many = alone(5, 3), alone(500, 3)
    assert calls_in(lambda: call(many)) <= 1.5 * calls_in(lambda: call(few)) + 5


@pytest.mark.parametrize(
    "call",
    [*CALLS.values(), *(call for name, call in READS.items() if name != "the digest")],
    ids=[*CALLS, *(name for name in READS if name != "the digest")],
)
def test_no_call_costs_more_in_an_epoch_of_many_batches(call: Callable[[History], Any]) -> None:
    few, many = alone(2, 10), alone(2, 5000)
    assert calls_in(lambda: call(many)) <= 1.5 * calls_in(lambda: call(few)) + 5


@pytest.mark.parametrize("call", [*CALLS.values(), refused], ids=[*CALLS, "a refused read"])
def test_no_call_costs_more_when_many_batches_are_pending(call: Callable[[History], Any]) -> None:
    few, many = pending(2, 10), pending(2, 5000)
    assert calls_in(lambda: call(many)) <= 1.5 * calls_in(lambda: call(few)) + 5


def test_reading_after_every_batch_costs_the_same_for_the_last_as_for_the_first() -> None:
    h = History()
    h.new_epoch()
    counts = []
    for batch in range(2500):
        h.new_batch(x=float(batch))
        counts.append(calls_in(lambda: h[-1, "batches", -1, "x"]))
    assert max(counts[10:]) <= 1.5 * min(counts[10:]) + 5
