"""`best` and `epochs_since_best` on histories that grow, are patched late, and are ragged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import Best, History, UsageError

Sync = Callable[[Sequence[History]], None]
World = Callable[..., list[History]]

SCORES = st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, math.nan, math.inf])


def slow_best(values: list[Any], mode: str) -> tuple[int, Any] | None:
    """The first of the best values, by looking at all of them; None stands for no value."""
    usable = [(e, v) for e, v in enumerate(values) if v is not None and not math.isnan(v)]
    if not usable:
        return None
    extreme = (min if mode == "min" else max)(v for _, v in usable)
    return next((e, v) for e, v in usable if v == extreme)


def slow_since(values: list[Any], mode: str, min_delta: float) -> int:
    sign = 1 if mode == "min" else -1
    best, since, seen = math.inf, 0, False
    first = True
    for value in values:
        if value is None:
            continue
        if not math.isnan(value) and (first or best - sign * value > min_delta):
            best, since, first = sign * value, 0, False
        else:
            since += seen
        seen = True
    return since


def ask(h: Any, mode: str, min_delta: float) -> tuple[Any, int]:
    try:
        best: Any = tuple(h.best("v", mode=mode))
    except (KeyError, UsageError):
        best = None
    return best, h.epochs_since_best("v", mode=mode, min_delta=min_delta)


@settings(max_examples=150)
@given(
    mode=st.sampled_from(["min", "max"]),
    min_delta=st.sampled_from([0.0, 0.5, 1.0]),
    steps=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(["epoch", "record", "sync"]), SCORES),
        max_size=25,
    ),
)
def test_they_are_right_after_every_sync_also_when_a_slow_rank_fills_in_old_epochs(
    world: World, sync_all: Sync, mode: str, min_delta: float, steps: list[Any]
) -> None:
    histories = world(2, reduce={"v": "sum"})
    recorded: list[list[Any]] = [[], []]
    for rank, what, score in [*steps, (0, "sync", 0.0)]:
        h, mine = histories[rank], recorded[rank]
        if what == "epoch":
            h.new_epoch()
            mine.append(None)
        elif what == "record" and mine:
            h.record("v", score)
            mine[-1] = score
        elif what == "sync":
            sync_all(histories)
            together = []
            for epoch in range(max(map(len, recorded))):
                there = [r[epoch] for r in recorded if epoch < len(r) and r[epoch] is not None]
                together.append(sum(there) if there else None)
            expected = slow_best(together, mode), slow_since(together, mode, min_delta)
            for history in histories:
                for view in (history, history.synced):
                    found = ask(view, mode, min_delta)
                    assert repr(found) == repr(expected)
            for own, values in enumerate(recorded):
                expected = slow_best(values, mode), slow_since(values, mode, min_delta)
                assert repr(ask(histories[0].ranks[own], mode, min_delta)) == repr(expected)
                assert repr(ask(histories[own].local, mode, min_delta)) == repr(expected)


def test_the_epoch_of_best_is_an_index_of_the_history() -> None:
    h = History()
    for score in (0.5, 0.3, 0.4):
        h.new_epoch(score=score)
    best = h.best("score", mode="min")
    assert best == Best(epoch=1, value=0.3)
    assert h[best.epoch, "score"] == best.value


def test_early_stopping_counts_epochs_after_the_best_only() -> None:
    h = History()
    assert h.epochs_since_best("score") == 0
    counts = []
    for score in (1.0, 0.5, 0.6, 0.5, 0.4, 0.41):
        h.new_epoch(score=score)
        counts.append(h.epochs_since_best("score", mode="min"))
    assert counts == [0, 0, 1, 2, 0, 1]


def test_epochs_without_a_value_are_not_counted() -> None:
    h = History()
    h.new_epoch(score=1.0)
    h.new_epoch()
    assert h.epochs_since_best("score") == 0
    h.new_epoch(score=2.0)
    assert h.epochs_since_best("score") == 1


def test_values_recorded_again_in_the_open_epoch_are_seen() -> None:
    h = History()
    h.new_epoch(score=1.0)
    h.new_epoch(score=2.0)
    assert h.epochs_since_best("score") == 1
    h.record("score", 0.5)
    assert h.best("score") == Best(1, 0.5)
    assert h.epochs_since_best("score") == 0
    h.record("score", 3.0)
    assert h.best("score") == Best(0, 1.0)


def test_all_nan_is_an_error_of_best_and_counted_by_epochs_since_best() -> None:
    h = History()
    for _ in range(3):
        h.new_epoch(score=math.nan)
    with pytest.raises(UsageError, match="NaN"):
        h.best("score")
    assert h.epochs_since_best("score") == 2


def test_a_rule_learned_later_changes_the_answer(world: World, sync_all: Sync) -> None:
    """What was worked out under another rule is forgotten."""
    from concurrent.futures import ThreadPoolExecutor

    histories = world(2, reduce={"v": "first"})
    for scores in ((1, 9), (2, 0)):
        for h, score in zip(histories, scores, strict=True):
            h.new_epoch(v=score)
        sync_all(histories)
    assert [h.best("v") for h in histories] == [Best(0, 1)] * 2
    for h in histories:
        h.new_epoch()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda h: h.agree("v", 5, reduce="last"), histories))
    assert [h.best("v") for h in histories] == [Best(1, 0)] * 2


class Counting:
    """A rule that counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, values: list[Any]) -> Any:
        self.calls += 1
        return max(values)


def test_asking_after_every_epoch_looks_at_each_epoch_a_bounded_number_of_times(
    world: World, sync_all: Sync
) -> None:
    rule = Counting()
    histories = world(2, reduce={"v": rule})
    epochs = 100
    for epoch in range(epochs):
        for rank, h in enumerate(histories):
            h.new_epoch(v=epoch + rank)
        sync_all(histories)
        histories[0].epochs_since_best("v", mode="max")
        histories[0].best("v", mode="max")
    assert rule.calls <= 4 * epochs


def test_a_value_that_is_no_number_is_an_error_with_its_name_and_epoch() -> None:
    h = History()
    h.new_epoch(v="high")
    with pytest.raises(UsageError, match=r"epoch 0: 'v'.*str"):
        h.best("v")
