"""Epoch values of several ranks: kept per rank, made one by the rule that was asked for."""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import (
    Best,
    DivergenceError,
    History,
    NotSyncedError,
    SynchistWarning,
    UsageError,
)
from synchist.codec import encode

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]
AtOnce = Callable[..., list[Any]]


def bits(value: Any) -> Any:
    return struct.pack("<d", value) if type(value) is float else value


def test_every_rank_keeps_its_own_value(world: World, sync_all: Sync) -> None:
    histories = world(3)
    for rank, h in enumerate(histories):
        h.new_epoch(dur=float(rank))
        if rank != 1:
            h.record("score", rank)
    sync_all(histories)
    for h in histories:
        assert h.per_rank(-1, "dur") == {0: 0.0, 1: 1.0, 2: 2.0}
        assert h.per_rank(0, "score") == {0: 0, 2: 2}
        assert [h.ranks[rank][-1, "dur"] for rank in h.ranks] == [0.0, 1.0, 2.0]
        with pytest.raises(KeyError):
            h.ranks[1][-1, "score"]
        assert list(h.ranks) == [0, 1, 2]


def test_ranks_shows_every_rank_of_the_world_also_one_that_recorded_nothing(
    world: World, sync_all: Sync
) -> None:
    histories = world(3)
    histories[1].new_epoch(a=1)
    sync_all(histories)
    for h in histories:
        assert [len(h.ranks[rank]) for rank in h.ranks] == [0, 1, 0]
        assert h.ranks[2].to_list() == []
        with pytest.raises(KeyError, match="rank 3"):
            h.ranks[3]


def with_sign(value: float) -> tuple[float, float]:
    """-0.0 counts as below 0."""
    return value, math.copysign(1.0, value)


RULES: dict[str, Any] = {
    "mean": lambda v, w: math.fsum(map(float.__mul__, v, w)) / math.fsum(w),
    "sum": lambda v, w: math.fsum(map(float.__mul__, v, w)),
    "min": lambda v, w: min(v, key=with_sign),
    "max": lambda v, w: max(v, key=with_sign),
    "count": lambda v, w: len(v),
    "first": lambda v, w: v[0],
    "last": lambda v, w: v[-1],
}
FLOATS = st.floats(-1e6, 1e6)


@settings(max_examples=100)
@given(
    rule=st.sampled_from(sorted(RULES)),
    brought=st.lists(
        st.one_of(st.none(), st.tuples(FLOATS, st.floats(0.5, 100))), min_size=2, max_size=4
    ).filter(any),
    weighted=st.booleans(),
)
def test_the_rule_of_a_name_makes_one_value_the_same_on_every_rank(
    world: World, sync_all: Sync, rule: str, brought: list[Any], weighted: bool
) -> None:
    histories = world(len(brought), reduce={"v": rule})
    for h, item in zip(histories, brought, strict=True):
        h.new_epoch()
        if item is not None:
            h.record("v", item[0], weight=item[1] if weighted else None)
    sync_all(histories)
    values = [item[0] for item in brought if item]
    weights = [item[1] for item in brought if item]
    if len(values) == 1 and rule == "mean":
        expected = values[0]  # no arithmetic is done on one value
    elif weighted or rule not in ("mean", "sum"):
        expected = RULES[rule](values, weights)
    else:
        expected = math.fsum(values) / (len(values) if rule == "mean" else 1)
    for h in histories:
        assert bits(h[-1, "v"]) == bits(expected)
        assert bits(h[:, "v"][0]) == bits(expected)
        assert bits(h[-1]["v"]) == bits(expected)
        assert [h.ranks[r][-1, "v"] for r in sorted(h.per_rank(-1, "v"))] == values


def test_a_callable_gets_the_values_in_rank_order_and_the_weights_if_there_are_some(
    world: World, sync_all: Sync
) -> None:
    def show(values: list[Any], weights: Any = "none") -> tuple[Any, Any]:
        return values, weights

    histories = world(3, reduce={"plain": show, "weighted": show})
    for rank, h in enumerate(histories):
        h.new_epoch(plain=rank)
        h.record("weighted", rank, weight=rank + 1)
    sync_all(histories)
    for h in histories:
        assert h[-1, "plain"] == ([0, 1, 2], "none")
        assert h[-1, "weighted"] == ([0, 1, 2], [1, 2, 3])


def test_a_weight_on_some_ranks_only_is_an_error_that_names_the_rank(
    world: World, sync_all: Sync
) -> None:
    histories = world(2, reduce={"v": "mean"})
    for rank, h in enumerate(histories):
        h.new_epoch()
        h.record("v", 1.0, weight=None if rank else 3)
    sync_all(histories)
    for h in histories:
        with pytest.raises(UsageError, match=r"'v' in epoch 0: rank 1.*weight"):
            h[-1, "v"]
        assert h.per_rank(-1, "v") == {0: 1.0, 1: 1.0}


def test_a_numpy_scalar_is_a_weight(world: World, sync_all: Sync) -> None:
    histories = world(2, reduce={"v": "mean"})
    for rank, h in enumerate(histories):
        h.new_epoch()
        h.record("v", float(rank), weight=np.int64(1 + 2 * rank))
    sync_all(histories)
    assert histories[0][-1, "v"] == 0.75


def test_recording_again_replaces_value_and_weight(world: World, sync_all: Sync) -> None:
    histories = world(2, reduce={"v": "mean"})
    for rank, h in enumerate(histories):
        h.new_epoch()
        h.record("v", 100.0, weight=50)
        h.record("v", float(rank))
    sync_all(histories)
    assert histories[1][-1, "v"] == 0.5


# -- without a rule --------------------------------------------------------------------------------


def two_values(world: World, sync_all: Sync, **options: Any) -> list[History]:
    histories = world(2, **options)
    for rank, h in enumerate(histories):
        h.new_epoch(v=0.5 + rank, w=1.0 + rank, same=3.0)
    sync_all(histories)
    return histories


def test_without_a_rule_the_lowest_rank_counts_and_a_difference_warns_once_per_name(
    world: World, sync_all: Sync
) -> None:
    for h in two_values(world, sync_all):
        with pytest.warns(SynchistWarning) as caught:
            assert [h[-1, "v"] for _ in range(3)] == [0.5] * 3
            assert h[:, "w"] == [1.0]
            h.to_list()
            assert h.synced[-1, "v"] == 0.5
        assert [("'v'" in str(w.message), "'w'" in str(w.message)) for w in caught] == [
            (True, False),
            (False, True),
        ]
        assert "rank 0: 0.5" in str(caught[0].message)
        assert "rank 1: 1.5" in str(caught[0].message)


def test_the_warning_points_to_the_line_that_reads(world: World, sync_all: Sync) -> None:
    h = two_values(world, sync_all)[0]
    with pytest.warns(SynchistWarning) as caught:
        h[-1, "v"]
    assert caught[0].filename == __file__


def test_equal_values_of_all_ranks_need_no_rule(world: World, sync_all: Sync) -> None:
    for h in two_values(world, sync_all):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert h[-1, "same"] == 3.0
            assert h.best("same") == Best(0, 3.0)


def test_a_decision_on_values_that_differ_without_a_rule_is_refused_on_every_rank(
    world: World, sync_all: Sync
) -> None:
    for h in two_values(world, sync_all):
        for decide in (h.best, h.epochs_since_best):
            with pytest.raises(DivergenceError, match=r"rank 0: 0.5, rank 1: 1.5.*reduce"):
                decide("v")


def test_a_value_of_one_rank_only_is_its_value_for_all_and_decisions(
    world: World, sync_all: Sync
) -> None:
    histories = world(2)
    for score in (0.25, 0.75, 0.5):
        for h in histories:
            h.new_epoch()
        histories[1].record("f1", score)
        sync_all(histories)
    for h in histories:
        assert h[:, "f1"] == [0.25, 0.75, 0.5]
        assert h.best("f1", mode="max") == Best(1, 0.75)
        assert h.epochs_since_best("f1", mode="max") == 1


def test_values_differ_when_their_types_do(world: World, sync_all: Sync) -> None:
    histories = world(2)
    for h, value in zip(histories, (1, 1.0), strict=True):
        h.new_epoch(v=value)
    sync_all(histories)
    with pytest.raises(DivergenceError):
        histories[0].best("v")


# -- equal -----------------------------------------------------------------------------------------


def test_equal_makes_sync_raise_on_all_ranks_with_who_said_what(
    world: World, at_once: AtOnce
) -> None:
    histories = world(3, reduce={"lr": "equal"})
    for rank, h in enumerate(histories):
        h.new_epoch(lr=0.1 if rank != 1 else 0.2)
    errors = at_once([h.sync for h in histories])
    for error in errors:
        assert isinstance(error, DivergenceError)
        for part in ("'lr'", "epoch 0", "rank 0: 0.1", "rank 1: 0.2", "rank 2: 0.1"):
            assert part in str(error)
    assert len({h.digest() for h in histories}) == 1
    assert histories[0].per_rank(-1, "lr") == {0: 0.1, 1: 0.2, 2: 0.1}


def test_after_an_unequal_round_the_ranks_can_correct_it_and_go_on(
    world: World, at_once: AtOnce, sync_all: Sync
) -> None:
    histories = world(2, reduce={"lr": "equal"})
    for rank, h in enumerate(histories):
        h.new_epoch(lr=rank)
    assert all(isinstance(e, DivergenceError) for e in at_once([h.sync for h in histories]))
    histories[1].record("lr", 0)
    sync_all(histories)
    assert {h[-1, "lr"] for h in histories} == {0}


def test_equal_is_silent_about_equal_values_and_absent_ones(world: World, sync_all: Sync) -> None:
    histories = world(3, reduce={"lr": "equal"})
    for rank, h in enumerate(histories):
        h.new_epoch()
        if rank:
            h.record("lr", float("nan"))
    sync_all(histories)
    assert encode(histories[0][-1, "lr"]) == encode(float("nan"))


def test_equal_compares_only_ranks_whose_value_has_come(
    world: World, at_once: AtOnce, sync_all: Sync
) -> None:
    """A rank that is behind brings its value with a later sync, and is compared then."""
    histories = world(2, reduce={"lr": "equal"})
    histories[0].new_epoch(lr=1)
    sync_all(histories)
    histories[1].new_epoch(lr=2)
    outcomes = at_once([h.sync for h in histories])
    assert all(isinstance(outcome, DivergenceError) for outcome in outcomes)


# -- agree -----------------------------------------------------------------------------------------


def test_agree_gives_every_rank_the_same_value(world: World, at_once: AtOnce) -> None:
    histories = world(3)
    for h in histories:
        h.new_epoch()
    calls = [
        lambda h=h, r=r: h.agree("dev", float(r), reduce="mean", weight=r + 1)
        for r, h in enumerate(histories)
    ]
    assert at_once(calls) == [math.fsum([2.0, 6.0]) / 6] * 3
    assert [h[-1, "dev"] for h in histories] == [8 / 6] * 3


def test_a_rank_without_a_value_joins_and_gets_it(world: World, at_once: AtOnce) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch()
    calls = [lambda: histories[0].agree("dev", 0.5), lambda: histories[1].agree("dev")]
    assert at_once(calls) == [0.5, 0.5]


def test_agree_is_a_key_error_on_every_rank_when_nobody_brings_a_value(
    world: World, at_once: AtOnce
) -> None:
    histories = world(2)
    for outcome in at_once([lambda h=h: h.agree("dev") for h in histories]):
        assert isinstance(outcome, KeyError)


def test_the_rule_given_to_agree_stays_the_rule_of_that_name(
    world: World, at_once: AtOnce, sync_all: Sync
) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch()
    calls = [lambda h=h, r=r: h.agree("v", r, reduce="max") for r, h in enumerate(histories)]
    assert at_once(calls) == [1, 1]
    for rank, h in enumerate(histories):
        h.new_epoch(v=5 - rank)
    sync_all(histories)
    assert [h[:, "v"] for h in histories] == [[1, 5]] * 2
    assert [h.best("v") for h in histories] == [Best(0, 1)] * 2


def test_the_rule_of_agree_reaches_a_rank_that_brings_no_value(
    world: World, at_once: AtOnce, sync_all: Sync
) -> None:
    histories = world(3)
    for h in histories:
        h.new_epoch()
    calls = [
        lambda: histories[0].agree("v", 1, reduce="sum"),
        lambda: histories[1].agree("v"),
        lambda: histories[2].agree("v", 2, reduce="sum"),
    ]
    assert at_once(calls) == [3, 3, 3]
    for h in histories:
        h.new_epoch(v=1)
    sync_all(histories)
    assert [h[-1, "v"] for h in histories] == [3, 3, 3]


@pytest.mark.parametrize(
    "other",
    [
        lambda h: h.sync(),
        lambda h: h.agree("other", 1),
        lambda h: h.agree("dev", 1, reduce="max"),
        lambda h: h.agree("other"),
    ],
    ids=["sync", "other name", "other rule", "other name without a value"],
)
def test_ranks_in_different_calls_get_an_error_and_keep_their_records(
    world: World, at_once: AtOnce, sync_all: Sync, other: Callable[[History], Any]
) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch()
    outcomes = at_once(
        [lambda: histories[0].agree("dev", 1, reduce="min"), lambda: other(histories[1])]
    )
    for outcome in outcomes:
        assert isinstance(outcome, DivergenceError)
        assert "agree('dev'" in str(outcome)
    assert [len(h) for h in histories] == [0, 0]
    sync_all(histories)
    assert all(h.per_rank(0, "dev")[0] == 1 for h in histories)
    assert histories[0].digest() == histories[1].digest()


def test_agree_alone_is_the_value_itself() -> None:
    h = History()
    h.new_epoch()
    assert h.agree("dev", 0.5, reduce="mean", weight=3) == 0.5
    assert h[-1, "dev"] == 0.5


# -- reduce over batches ---------------------------------------------------------------------------


@settings(max_examples=80)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.tuples(FLOATS, st.integers(1, 64))), max_size=4),
        min_size=2,
        max_size=3,
    )
)
def test_reduce_works_over_all_rows_of_all_ranks(
    world: World, sync_all: Sync, shards: list[list[Any]]
) -> None:
    histories = world(len(shards))
    for h, rows in zip(histories, shards, strict=True):
        h.new_epoch()
        for row in rows:
            h.new_batch(size=1)
            if row:
                h.record_batch({"loss": row[0], "n": row[1]})
    sync_all(histories)
    pairs = [row for rows in shards for row in rows if row]
    for h in histories:
        if not pairs:
            with pytest.raises(KeyError):
                h.reduce("loss")
            continue
        total = math.fsum(loss * n for loss, n in pairs)
        mean = math.fsum(loss for loss, _ in pairs) / len(pairs)
        assert bits(h.reduce("loss")) == bits(mean)
        assert bits(h.reduce("loss", weight="n")) == bits(total / sum(n for _, n in pairs))
        assert h.reduce("loss", "sum", weight="n") == total
        assert h.reduce("loss", "count") == len(pairs)
        assert h.reduce("n", "sum", epoch=slice(None)) == sum(n for _, n in pairs)
        in_order = list(h[-1, "batches", :, "loss"])
        assert h.reduce("loss", list) == in_order
        assert (h.reduce("loss", "first"), h.reduce("loss", "last")) == (
            in_order[0],
            in_order[-1],
        )


def test_reduce_names_the_row_that_has_the_name_but_no_weight(world: World, sync_all: Sync) -> None:
    histories = world(2)
    for rank, h in enumerate(histories):
        h.new_epoch()
        h.new_batch(loss=1.0, n=2)
        h.new_batch(loss=1.0)
        if rank == 0:
            h.record_batch("n", 2)
        h.new_batch(n=2)
    sync_all(histories)
    with pytest.raises(UsageError, match=r"rank 1.*'loss'.*'n'.*batch 1 of epoch 0"):
        histories[0].reduce("loss", weight="n")
    assert histories[0].reduce("n", "sum") == 10


def test_reduce_takes_a_slice_of_epochs() -> None:
    h = History()
    for epoch in range(3):
        h.new_epoch()
        h.new_batch(loss=float(epoch))
    assert h.reduce("loss", "sum") == 2.0
    assert h.reduce("loss", "sum", epoch=0) == 0.0
    assert h.reduce("loss", "sum", epoch=slice(1, None)) == 3.0
    assert h.reduce("loss", list, epoch=slice(None, None, -1)) == [2.0, 1.0, 0.0]


def test_a_nan_row_makes_a_mean_nan_and_is_counted() -> None:
    h = History()
    h.new_epoch()
    for loss in (1.0, math.nan):
        h.new_batch(loss=loss)
    assert math.isnan(h.reduce("loss"))
    assert h.reduce("loss", "count") == 2
    assert math.isnan(h.reduce("loss", "max"))


def test_names_are_those_of_an_epochs_values_of_all_ranks(world: World, sync_all: Sync) -> None:
    histories = world(2)
    for h in histories:
        h.new_epoch({"both": 1, f"of rank {h.rank}": 1})
        h.new_batch(loss=1.0)
    sync_all(histories)
    for h in histories:
        assert h.names() == h.names(0) == ["both", "of rank 0", "of rank 1"]
        assert h.ranks[1].names(-1) == ["both", "of rank 1"]
        with pytest.raises(IndexError):
            h.names(1)
    histories[0].record("new", 1)
    with pytest.raises(NotSyncedError, match="'new'"):
        histories[0].names()
    assert histories[1].names(0) == ["both", "of rank 0", "of rank 1"]


def test_the_open_epoch_is_the_one_that_this_rank_opened_last(world: World, sync_all: Sync) -> None:
    histories = world(2)
    assert [h.open_epoch for h in histories] == [None, None]
    for _ in range(2):
        histories[1].new_epoch()
    histories[0].new_epoch()
    sync_all(histories)
    assert [h.open_epoch for h in histories] == [0, 1]
    histories[1].clear()
    assert histories[1].open_epoch is None
