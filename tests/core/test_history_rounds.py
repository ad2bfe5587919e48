"""Rounds that fail, and calls that are repeated: nothing is lost, nothing is recorded twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from synchist import DivergenceError, History, RankFailedError, SyncTimeoutError

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]
AtOnce = Callable[..., list[Any]]


@pytest.fixture
def met(world: World, sync_all: Sync) -> list[History]:
    """Two histories whose ranks have met, with an open epoch."""
    histories = world(2)
    for h in histories:
        h.new_epoch()
    sync_all(histories)
    return histories


def times_out(call: Callable[[], Any]) -> None:
    with pytest.raises(SyncTimeoutError):
        call()


# -- a rank that fails inside sync -----------------------------------------------------------------


def test_a_rank_that_cannot_bring_its_records_tells_all_and_nothing_is_merged(
    met: list[History], at_once: AtOnce, sync_all: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = met[0].digest()
    for rank, h in enumerate(met):
        h.record(f"v{rank}", rank)
    with monkeypatch.context() as patch:

        def fail(deadline: Any) -> Any:
            raise MemoryError("no room for the records")

        patch.setattr(met[1], "_take", fail)
        told, own = at_once([h.sync for h in met])
    assert isinstance(told, RankFailedError)
    assert (told.rank, told.round) == (1, 2)
    assert "MemoryError: no room for the records" in str(told)
    assert isinstance(own, MemoryError)
    assert [h.digest() for h in met] == [before, before]
    for rank, h in enumerate(met):
        assert h.local[-1, f"v{rank}"] == rank
    sync_all(met)
    assert [h.to_list() for h in met] == [[{"batches": [], "v0": 0, "v1": 1}]] * 2


def test_ctrl_c_before_a_rank_published_leaves_its_records_pending(
    met: list[History], sync_all: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    met[0].record("v", 1)
    with monkeypatch.context() as patch:

        def interrupted(deadline: Any) -> Any:
            raise KeyboardInterrupt

        patch.setattr(met[0], "_take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            met[0].sync()
    assert met[0].local[-1, "v"] == 1
    sync_all(met)
    assert met[1][-1, "v"] == 1


# -- agree, repeated -------------------------------------------------------------------------------


def test_agree_repeated_after_a_timeout_records_once_and_completes_the_same_round(
    met: list[History], at_once: AtOnce, sync_all: Sync
) -> None:
    times_out(lambda: met[0].agree("dev", 1, reduce="sum", timeout=0))
    times_out(lambda: met[0].agree("dev", 1, reduce="sum", timeout=0))
    outcomes = at_once([lambda h=h: h.agree("dev", 1, reduce="sum") for h in met])
    assert outcomes == [2, 2]
    assert [h.per_rank(-1, "dev") for h in met] == [{0: 1, 1: 1}] * 2
    sync_all(met)
    assert met[0].digest() == met[1].digest()


def test_agree_repeated_where_the_other_rank_has_completed_the_round(
    met: list[History], sync_all: Sync
) -> None:
    times_out(lambda: met[0].agree("dev", 1, reduce="sum", timeout=0))
    assert met[1].agree("dev", 5, reduce="sum") == 6
    assert met[0].agree("dev", 1, reduce="sum") == 6
    sync_all(met)
    assert met[0].digest() == met[1].digest()


def test_agree_in_the_next_epoch_is_no_repetition_of_one_that_failed_in_this(
    met: list[History], at_once: AtOnce
) -> None:
    times_out(lambda: met[0].agree("dev", 1, reduce="sum", timeout=0))

    def other() -> list[Any]:
        first = met[1].agree("dev", 10, reduce="sum")
        met[1].new_epoch()
        return [first, met[1].agree("dev", 20, reduce="sum")]

    met[0].new_epoch()
    assert at_once([lambda: met[0].agree("dev", 2, reduce="sum"), other]) == [22, [11, 22]]
    assert [h[:, "dev"] for h in met] == [[11, 22]] * 2


def test_agree_without_a_value_in_the_next_epoch_is_no_repetition_either(
    met: list[History], at_once: AtOnce
) -> None:
    times_out(lambda: met[0].agree("dev", timeout=0))

    def other() -> list[Any]:
        first = met[1].agree("dev", 10)
        met[1].new_epoch()
        return [first, met[1].agree("dev", 20)]

    met[0].new_epoch()
    assert at_once([lambda: met[0].agree("dev"), other]) == [20, [10, 20]]


def test_agree_after_a_sync_that_failed_completes_that_round_first(
    met: list[History], at_once: AtOnce
) -> None:
    met[0].record("v", 1)
    times_out(lambda: met[0].sync(timeout=0))

    def other() -> Any:
        met[1].sync()
        return met[1].agree("dev", 3)

    assert at_once([lambda: met[0].agree("dev"), other]) == [3, 3]
    assert [h[-1, "v"] for h in met] == [1, 1]


def test_sync_after_an_agree_that_failed_completes_it_and_counts_as_that_call(
    met: list[History], at_once: AtOnce
) -> None:
    times_out(lambda: met[0].agree("dev", 1, reduce="max", timeout=0))
    outcomes = at_once([met[0].sync, lambda: met[1].agree("dev", 2, reduce="max")])
    assert outcomes == [None, 2]
    assert [h[-1, "dev"] for h in met] == [2, 2]


def test_a_callable_given_to_an_agree_that_failed_becomes_the_rule_when_sync_completes_it(
    met: list[History], at_once: AtOnce
) -> None:
    times_out(lambda: met[0].agree("dev", 1, reduce=max, timeout=0))
    assert at_once([met[0].sync, lambda: met[1].agree("dev", 2, reduce=max)]) == [None, 2]
    assert [h[-1, "dev"] for h in met] == [2, 2]


def test_a_repeated_agree_may_bring_a_new_object_of_the_same_rule(
    met: list[History], at_once: AtOnce
) -> None:
    def again(h: History, timeout: float) -> Any:
        return h.agree("dev", 1, reduce=lambda values: sum(values) + 0, timeout=timeout)

    times_out(lambda: again(met[0], 0))
    assert at_once([lambda h=h: again(h, 20) for h in met]) == [2, 2]


def test_agree_in_which_the_meeting_timed_out_records_once(world: World, at_once: AtOnce) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch()
    for _ in range(2):
        times_out(lambda: histories[0].agree("dev", 1, reduce="sum", timeout=0.02))
    assert at_once([lambda h=h: h.agree("dev", 1, reduce="sum") for h in histories]) == [2, 2]


# -- records made between tries --------------------------------------------------------------------


def test_a_value_overwritten_after_a_failed_try_reaches_the_others_one_round_later(
    met: list[History], sync_all: Sync
) -> None:
    """The round keeps the bytes it was begun with: another rank may have read them."""
    h, other = met
    h.new_batch(x=1.0)
    h.record("v", "old")
    times_out(lambda: h.sync(timeout=0))
    h.record_batch("x", 2.0)
    h.record("v", "new")
    assert h.local[-1] == {"batches": [{"x": 2.0}], "v": "new"}
    sync_all(met)
    assert other[-1] == {"batches": [{"x": 1.0}], "v": "old"}
    assert h.synced[-1] == other[-1]
    assert h.local[-1] == {"batches": [{"x": 2.0}], "v": "new"}
    sync_all(met)
    assert other[-1] == h[-1] == {"batches": [{"x": 2.0}], "v": "new"}


def test_a_deadline_of_the_call_wins_over_that_of_the_history(met: list[History]) -> None:
    with pytest.raises(SyncTimeoutError) as caught:
        met[0].sync(timeout=0.05)
    assert (caught.value.missing, caught.value.round) == ([1], 2)
    assert caught.value.last_seen[1] is not None
    assert "rank 1" in str(caught.value)


def test_records_given_back_by_a_failed_round_do_not_overwrite_newer_ones(
    met: list[History], at_once: AtOnce, sync_all: Sync
) -> None:
    h, other = met
    h.new_batch(x=1.0)
    h.record("v", "old")
    h.attributes["a"] = "old"
    times_out(lambda: h.sync(timeout=0))
    h.record_batch("x", 2.0)
    h.record("v", "new")
    h.attributes["a"] = "new"
    outcomes = at_once([h.sync, lambda: other.agree("dev")])
    assert all(isinstance(outcome, DivergenceError) for outcome in outcomes)
    assert h.local[-1] == {"batches": [{"x": 2.0}], "v": "new"}
    sync_all(met)
    for history in met:
        assert history[-1] == {"batches": [{"x": 2.0}], "v": "new"}
        assert history.attributes["a"] == "new"
