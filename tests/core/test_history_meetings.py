"""Ranks that meet: what fits together, who receives what, and what is refused on every rank."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from synchist import DivergenceError, History, MemoryStore, SyncTimeoutError

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]
AtOnce = Callable[..., list[Any]]


def join(histories: Sequence[History], store: MemoryStore | None = None) -> None:
    """Put them on one store."""
    store = MemoryStore() if store is None else store
    for rank, h in enumerate(histories):
        h.attach(store=store, rank=rank, world_size=len(histories))


def filled(epochs: int, seed: float = 0.0) -> History:
    h = History(timeout=30)
    for epoch in range(epochs):
        h.new_epoch(v=seed + epoch)
        h.new_batch(x=1.0)
    return h


def refusals(at_once: AtOnce, histories: Sequence[History]) -> list[DivergenceError]:
    """What every rank was told; all of them must be."""
    outcomes = at_once([h.sync for h in histories])
    assert all(isinstance(outcome, DivergenceError) for outcome in outcomes), outcomes
    assert [len(h) for h in histories] == [len(copy.deepcopy(h)) for h in histories]
    return outcomes


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "other", "words"),
    [
        ({"name": "train"}, {"name": "valid"}, ["train", "valid", "History(name=...)"]),
        ({"job": "17"}, {"job": "18"}, ["job", "'17'", "'18'", "two jobs"]),
        ({"job": "17"}, {}, ["job", "'17'", "None"]),
        ({"reduce": {"v": "mean"}}, {}, ["reduce", "'v'", "mean"]),
        ({"reduce": {"v": "mean"}}, {"reduce": {"v": "sum"}}, ["reduce", "'v'", "mean", "sum"]),
        ({"reduce": {"v": max}}, {"reduce": {"v": min}}, ["reduce", "max", "min"]),
    ],
)
def test_ranks_made_differently_are_refused_with_what_differs(
    at_once: AtOnce, mine: dict[str, Any], other: dict[str, Any], words: list[str]
) -> None:
    store = MemoryStore()
    for first in (0, 1):
        options = [mine, other] if first == 0 else [other, mine]
        histories = [
            History(store=store, rank=rank, world_size=2, timeout=20, **options[rank])
            for rank in (0, 1)
        ]
        for h in histories:
            h.new_epoch(v=1)
        for error in refusals(at_once, histories):
            for word in words:
                assert word in str(error)
            assert error.rank == 1
        assert [len(h) for h in histories] == [0, 0]


def test_another_world_size_is_refused_on_every_rank(at_once: AtOnce) -> None:
    store = MemoryStore()
    histories = [
        History(store=store, rank=rank, world_size=size, timeout=20)
        for rank, size in enumerate([2, 3])
    ]
    for error in refusals(at_once, histories):
        assert "world_size=2" in str(error)
        assert "world_size=3" in str(error)


def test_different_contents_are_refused_and_after_clear_on_every_rank_all_works(
    at_once: AtOnce, sync_all: Sync
) -> None:
    histories = [filled(2), filled(2, seed=0.5)]
    before = [h.digest() for h in histories]
    join(histories)
    for error in refusals(at_once, histories):
        assert "different histories" in str(error)
    assert [h.digest() for h in histories] == before
    for h in histories:
        h.clear()
        h.new_epoch(v=1)
    sync_all(histories)
    assert histories[0].digest() == histories[1].digest()
    assert len(histories[0]) == 1


def test_clear_on_one_rank_only_is_refused_and_says_so(
    world: World, at_once: AtOnce, sync_all: Sync
) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch(v=1)
    sync_all(histories)
    histories[1].clear()
    histories[1].new_epoch(v=2)
    error = at_once([lambda: histories[0].sync(timeout=3), lambda: histories[1].sync(timeout=3)])
    assert not any(outcome is None for outcome in error)
    assert histories[0][:, "v"] == [1]
    histories[0].clear()
    histories[0].new_epoch(v=2)
    sync_all(histories)
    assert [h[:, "v"] for h in histories] == [[2], [2]]


def test_clearing_on_one_rank_before_all_of_them_clear_is_no_mismatch_if_it_was_empty(
    world: World, sync_all: Sync
) -> None:
    histories = world(2)
    histories[0].clear()
    for h in histories:
        h.clear()
        h.new_epoch(v=1)
    sync_all(histories)
    assert [h[:, "v"] for h in histories] == [[1], [1]]


def test_cleared_more_often_on_one_rank_is_refused_naming_both_counts(
    world: World, at_once: AtOnce, sync_all: Sync
) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch(v=1)
    sync_all(histories)
    histories[0].clear()
    histories[0].new_epoch()
    for h in histories:
        h.clear()
        h.new_epoch(v=2)
    for error in refusals(at_once, histories):
        assert "2 times" in str(error)
        assert "1 times" in str(error)
        assert "clear() on every rank" in str(error)


# -- received --------------------------------------------------------------------------------------


@pytest.mark.parametrize("donor", [0, 1, 2])
def test_ranks_that_hold_nothing_receive_the_history_on_entering(
    donor: int, at_once: AtOnce, sync_all: Sync
) -> None:
    """So that all ranks know how many epochs there are before the loop starts."""
    histories = [filled(3) if rank == donor else History(timeout=30) for rank in range(3)]
    digest, whole = histories[donor].digest(), histories[donor].to_list()
    join(histories)
    assert at_once([h.__enter__ for h in histories]) == histories
    assert [len(h) for h in histories] == [3, 3, 3]
    assert {h.digest() for h in histories} == {digest}
    assert [h.to_list() for h in histories] == [whole] * 3
    for epoch in range(len(histories[2]), 5):
        for h in histories:
            h.new_epoch(v=float(epoch))
        sync_all(histories)
    assert [h[:, "v"] for h in histories] == [[0.0, 1.0, 2.0, 3.0, 4.0]] * 3


def test_ranks_that_hold_the_same_go_on(sync_all: Sync) -> None:
    histories = [filled(2), filled(2)]
    # What rank 1 recorded alone counts as rank 0's: a local history is that of rank 0.
    join(histories)
    for h in histories:
        h.new_epoch(v=9.0)
    sync_all(histories)
    assert [h[:, "v"] for h in histories] == [[0.0, 1.0, 9.0]] * 2


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_rank_that_missed_a_round_receives_it_on_another_store(
    world: World, ahead: int, at_once: AtOnce, sync_all: Sync
) -> None:
    """And what it had brought to that round is not recorded twice."""
    histories = world(2)
    sync_all(histories)
    behind = histories[1 - ahead]
    for rank, h in enumerate(histories):
        h.new_epoch({f"v{rank}": rank})
        h.new_batch({f"x{rank}": float(rank)})
    with pytest.raises(SyncTimeoutError):
        behind.sync(timeout=0)
    histories[ahead].sync()
    behind.record("more", 1)
    assert (len(histories[ahead]), len(behind)) == (1, 0)
    join(histories)
    at_once([h.__enter__ for h in histories])
    assert [len(h) for h in histories] == [1, 1]
    assert histories[0].digest() == histories[1].digest()
    sync_all(histories)
    expected = {"batches": [{"x0": 0.0}, {"x1": 1.0}], "v0": 0, "v1": 1, "more": 1}
    assert [h.to_list() for h in histories] == [[expected]] * 2


def test_what_a_failed_round_held_goes_with_the_first_one_on_another_store(
    world: World, sync_all: Sync
) -> None:
    histories = world(3)
    sync_all(histories)
    for rank, h in enumerate(histories):
        h.new_epoch({f"v{rank}": rank})
    for h in histories[:2]:
        with pytest.raises(SyncTimeoutError):
            h.sync(timeout=0)
        h.record("more", 1)
    join(histories)
    sync_all(histories)
    expected = {"batches": [], "v0": 0, "more": 1, "v1": 1, "v2": 2}
    assert [h.to_list() for h in histories] == [[expected]] * 3
    assert len({h.digest() for h in histories}) == 1


def test_a_meeting_that_timed_out_is_completed_by_the_next_call(
    world: World, at_once: AtOnce
) -> None:
    histories = world(3)
    for h in histories:
        h.new_epoch(v=1)
    for h in (histories[0], histories[2], histories[0]):
        with pytest.raises(SyncTimeoutError) as caught:
            h.sync(timeout=0.05)
        assert caught.value.round is None
        assert 1 in caught.value.missing
    assert at_once([h.sync for h in histories]) == [None] * 3
    assert len({h.digest() for h in histories}) == 1


# -- several histories on a store ------------------------------------------------------------------


def test_named_histories_may_be_made_and_synced_in_any_order(at_once: AtOnce) -> None:
    store = MemoryStore()

    def rank_main(rank: int) -> list[Any]:
        names = ["train", "valid"] if rank == 0 else ["valid", "train"]
        made = {n: History(store=store, rank=rank, world_size=2, name=n) for n in names}
        for name in ("train", "valid"):
            made[name].new_epoch(which=name)
            made[name].sync(timeout=20)
        return [made[name][:, "which"] for name in ("train", "valid")]

    assert at_once([lambda: rank_main(0), lambda: rank_main(1)]) == [[["train"], ["valid"]]] * 2


def test_a_history_called_history_is_not_one_without_a_name(at_once: AtOnce) -> None:
    store = MemoryStore()

    def rank_main(rank: int) -> list[Any]:
        made = [
            History(store=store, rank=rank, world_size=2, timeout=20, name=name)
            for name in ("", "history")
        ]
        for number, h in enumerate(made):
            h.new_epoch(which=number)
        for h in made:
            h.sync()
        return [h[:, "which"] for h in made]

    assert at_once([lambda: rank_main(0), lambda: rank_main(1)]) == [[[0], [1]]] * 2


def test_histories_synced_in_another_order_never_take_each_others_values(
    at_once: AtOnce, sync_all: Sync
) -> None:
    store = MemoryStore()
    pairs = [
        [History(store=store, rank=rank, world_size=2, timeout=20) for _ in range(2)]
        for rank in range(2)
    ]
    for rank, pair in enumerate(pairs):
        for number, h in enumerate(pair):
            h.new_epoch(which=number, rank=rank)
    outcomes = at_once([pairs[0][0].sync, pairs[1][1].sync])
    assert all(isinstance(outcome, DivergenceError) for outcome in outcomes)
    assert [len(h) for pair in pairs for h in pair] == [0] * 4
    for number in (0, 1):
        sync_all([pair[number] for pair in pairs])
        for pair in pairs:
            assert pair[number].per_rank(0, "which") == {0: number, 1: number}
            assert pair[number].per_rank(0, "rank") == {0: 0, 1: 1}


def test_once_met_a_rank_that_waits_in_another_history_is_named_in_the_timeout(
    at_once: AtOnce, sync_all: Sync
) -> None:
    store = MemoryStore()
    pairs = [
        [History(store=store, rank=r, world_size=2, timeout=20, name=n) for n in ("a", "b")]
        for r in range(2)
    ]
    for number in (0, 1):
        sync_all([pair[number] for pair in pairs])
    outcomes = at_once([lambda: pairs[0][0].sync(timeout=1), lambda: pairs[1][1].sync(timeout=2)])
    assert isinstance(outcomes[0], SyncTimeoutError)
    assert "another history" in str(outcomes[0])
    for number in (0, 1):
        sync_all([pair[number] for pair in pairs])


def test_many_closed_histories_and_many_clears_leave_no_keys_behind(
    at_once: AtOnce, sync_all: Sync
) -> None:
    store = MemoryStore()
    for _ in range(10):
        histories = [History(store=store, rank=r, world_size=2, timeout=20) for r in range(2)]
        counts = []
        for _ in range(5):
            for h in histories:
                h.clear()
                h.new_epoch(v=1)
            sync_all(histories)
            sync_all(histories)
            counts.append(store.num_keys())
        assert max(counts) <= 2 * 2 + 4
        assert at_once([h.close for h in histories]) == [None, None]
        assert store.num_keys() <= 2
