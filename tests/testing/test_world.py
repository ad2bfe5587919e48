"""The simulated world itself: it replays, its time is virtual, and it notices what never ends."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from synchist import History, SyncTimeoutError
from synchist.testing import Faults, FaultyStore, Killed, StuckError, World

pytestmark = pytest.mark.usefixtures("no_patience")


def train(rank: int, store: Any) -> str:
    with History(store=store, rank=rank, world_size=3, timeout=600) as h:
        for epoch in range(3):
            h.new_epoch(loss=float(rank + epoch))
            h.sync()
        return h.digest()


def trace(seed: int) -> list[tuple[float, int, str, str]]:
    world = World(3, seed=seed)
    digests = world.run(train)
    assert len({*digests}) == 1
    return [(t, r, op, re.sub("[0-9a-f]{32}", "nonce", key)) for t, r, op, key in world.trace]


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_deadlines_cost_nothing() -> None:
    def alone(rank: int, store: Any) -> float:
        if rank == 1:
            return 0.0
        h = History(store=store, rank=rank, world_size=2)
        began = world.now
        with pytest.raises(SyncTimeoutError):
            h.sync(timeout=900)
        return world.now - began

    world = World(2)
    began = time.monotonic()
    assert 900 <= world.run(alone)[0] < 901
    assert time.monotonic() - began < 60


def test_a_killed_rank_makes_no_further_store_call() -> None:
    world = World(3, seed=3)
    results = world.run(train, kill=(1, 5))
    assert isinstance(results[1], Killed)
    assert sum(rank == 1 for _, rank, _, _ in world.trace) == 4


def test_a_store_call_that_blocks_past_the_deadline_does_not_take_the_rank_along() -> None:
    def body(rank: int, store: Any) -> tuple[str, float]:
        slow = FaultyStore(store, seed=rank, faults=Faults(delay=1.0, delay_seconds=1e6))
        h = History(store=slow, rank=rank, world_size=2)
        began = world.now
        try:
            h.sync(timeout=5)
        except Exception as error:  # noqa: BLE001
            return type(error).__name__, world.now - began
        return "returned", 0

    world = World(2)
    for name, seconds in world.run(body):
        assert name == "StoreError"
        assert seconds <= 6


def test_a_program_without_end_is_noticed() -> None:
    def body(rank: int, store: Any) -> None:
        while True:
            store.check(["never"])

    with pytest.raises(StuckError, match="steps"):
        World(2, most_steps=5000).run(body)


@pytest.mark.parametrize("field", ["drop", "duplicate", "stale", "delay"])
def test_faults_follow_from_the_seed(field: str) -> None:
    def body(rank: int, store: Any) -> list[str]:
        heard = []
        for n in range(60):
            try:
                store.set("k", b"%d" % n)
                heard.append(str(store.get("k")))
            except Exception as error:  # noqa: BLE001
                heard.append(repr(error))
        return [*heard, str(world.now)]

    runs = []
    for faults in (Faults(**{field: 0.2}), Faults(**{field: 0.2}), None):
        world = World(1, seed=5, faults=faults)
        runs.append(world.run(body))
    assert runs[0] == runs[1] != runs[2]
