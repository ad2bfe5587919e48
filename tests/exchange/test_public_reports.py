"""What people reported of other tools, in virtual time; each test is named after its subject."""

from __future__ import annotations

from typing import Any

import pytest

from synchist import History, SyncTimeoutError
from synchist.testing import Killed, World

pytestmark = pytest.mark.usefixtures("no_patience")


def test_a_barrier_key_used_twice() -> None:
    """A barrier that counts under a fixed key lets the next run pass before anybody has come."""
    world = World(2)

    def first(rank: int, store: Any) -> None:
        h = History(store=store, rank=rank, world_size=2, timeout=60)
        h.__enter__()
        raise Killed  # so the keys of the barrier stay

    assert [type(result) for result in world.run(first)] == [Killed, Killed]

    def again(rank: int, store: Any) -> float:
        if rank == 1:
            return 0.0
        began = world.now
        with pytest.raises(SyncTimeoutError) as caught:
            History(store=store, rank=rank, world_size=2, timeout=20).__enter__()
        assert caught.value.missing == [1]
        return world.now - began

    waited, _ = world.run(again)
    assert 20 <= waited < 21


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_reader_25_s_late(late: int) -> None:
    """The others are through, have gone on, and close; what it still has to read is there."""
    world = World(3)

    def body(rank: int, store: Any) -> list[str]:
        digests = []
        with History(store=store, rank=rank, world_size=3, timeout=60) as h:
            for epoch in range(3):
                if rank == late:
                    world.sleep(25)
                h.new_epoch(who=(rank, epoch))
                h.sync()
                digests.append(h.digest())
            if rank == late:
                world.sleep(25)
        return digests

    one, *others = world.run(body)
    assert len(one) == 3
    assert others == [one, one]


def test_wait_on_a_mix_of_present_and_absent_keys() -> None:
    """Three ranks are there and one is not: the round names just that one, and completes later."""
    world = World(4)

    def body(rank: int, store: Any) -> tuple[list[int], str]:
        h = History(store=store, rank=rank, world_size=4, timeout=60)
        h.__enter__()
        h.new_epoch(who=rank)
        if rank == 2:
            world.sleep(10)
        missing: list[int] = []
        try:
            h.sync(timeout=5)
        except SyncTimeoutError as error:
            missing = error.missing
            h.sync()
        return missing, h.digest()

    results = world.run(body)
    assert len({digest for _, digest in results}) == 1
    assert [missing for missing, _ in results] == [[2], [2], [], [2]]
