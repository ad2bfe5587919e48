"""A rank that restarts alone: the others are told at once, attach, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synchist import DirectoryStore, History, RankFailedError
from synchist.deadline import Deadline

AtOnce = Callable[..., list[Any]]


def opened(path: Path, rank: int, world: int) -> History:
    """A history of a process of its own, as far as the store can tell."""
    return History(store=DirectoryStore(path), rank=rank, world_size=world, timeout=30)


@pytest.mark.parametrize(("world", "restarts"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_the_others_are_told_at_once_attach_and_hand_over_the_history(
    tmp_path: Path, at_once: AtOnce, world: int, restarts: int
) -> None:
    histories = [opened(tmp_path, rank, world) for rank in range(world)]
    for epoch in range(2):
        for h in histories:
            h.new_epoch(v=epoch)
            h.new_batch(x=float(h.rank))
        at_once([h.sync for h in histories])
    before = histories[0].to_list()
    # A process that died deletes nothing any more; this one has a thread that may still tidy up.
    session = histories[restarts]._session
    assert session is not None
    session.exchange._worker.run(lambda: None, Deadline(30), "idle")  # type: ignore[attr-defined]

    def survive(h: History) -> None:
        h.new_epoch(v=2)
        h.new_batch(x=float(h.rank))
        began = time.monotonic()
        with pytest.raises(RankFailedError, match="restarted") as caught:
            h.sync()
        # Or rank 0, if that one has attached before this rank saw the first restart.
        assert caught.value.rank in {restarts, 0}
        assert caught.value.round == 3
        assert time.monotonic() - began < 20  # the deadline is at 30
        h.attach(store=DirectoryStore(tmp_path), rank=h.rank, world_size=world)
        with h:
            assert h.synced.to_list() == before
            h.sync()

    def restart() -> None:
        fresh = histories[restarts] = opened(tmp_path, restarts, world)
        with fresh:
            assert fresh.to_list() == before
            fresh.new_epoch(v=2)
            fresh.new_batch(x=float(restarts))
            fresh.sync()

    outcomes = at_once(
        [restart if r == restarts else lambda h=h: survive(h) for r, h in enumerate(histories)]
    )
    assert outcomes == [None] * world
    assert len({h.digest() for h in histories}) == 1
    for h in histories:
        assert len(h) == 3
        assert h.per_rank(-1, "v") == dict.fromkeys(range(world), 2)
        assert h[-1, "batches", :, "x"] == [float(rank) for rank in range(world)]


def test_a_rank_that_cleared_after_a_round_is_no_alarm_to_one_that_still_reads_it(
    tmp_path: Path, at_once: AtOnce
) -> None:
    first, second = (opened(tmp_path, rank, 2) for rank in range(2))
    for h in (first, second):
        h.new_epoch(v=1)
    at_once([first.sync, second.sync])
    for h in (first, second):
        h.record("v", 2)

    def goes_on() -> None:
        first.sync()
        first.clear()
        first.new_epoch(v=3)
        first.sync()

    def is_slow() -> None:
        second.sync()
        assert second[-1, "v"] == 2
        second.clear()
        second.new_epoch(v=3)
        second.sync()

    assert at_once([goes_on, is_slow]) == [None, None]
    assert first.digest() == second.digest()
    assert first[:, "v"] == [3]


def test_a_rank_that_meets_in_another_history_has_not_restarted(
    tmp_path: Path, at_once: AtOnce
) -> None:
    """The challenge is then a newer one, but about something else."""
    both = [
        [
            History(store=store, rank=rank, world_size=2, name=name, timeout=30)
            for name in ("train", "other")
        ]
        for rank, store in enumerate((DirectoryStore(tmp_path), DirectoryStore(tmp_path)))
    ]
    at_once([both[0][0].sync, both[1][0].sync])

    def rank0() -> None:
        with pytest.raises(Exception, match="did not come to the meeting"):
            both[0][1].sync(timeout=1)
        both[0][0].sync()

    assert at_once([rank0, both[1][0].sync]) == [None, None]
