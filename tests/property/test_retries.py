"""Syncs that time out, are repeated, and lose nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from synchist import History, SyncTimeoutError
from synchist.codec import encode

Run = Callable[[int, Callable[[int], Any]], list[Any]]

STEP = st.tuples(
    st.sampled_from(["new_epoch", "new_batch", "record", "record_batch", "attribute"]),
    st.dictionaries(st.sampled_from("ab"), st.integers(), max_size=2),
)
TIMEOUT = st.sampled_from([0.0, 0.0, 0.0005, 0.002, 0.01])
STRETCH = st.tuples(
    st.lists(STEP, max_size=5),
    st.lists(st.tuples(TIMEOUT, st.lists(STEP, max_size=2)), max_size=3),
)
"""Steps, then a sync: tries with their timeouts, and what is recorded after each that failed."""

RUNS = settings().max_examples
"""100, unless the profile asks for more."""

RULES = dict.fromkeys("ab", "first")


@st.composite
def worlds(draw: st.DrawFn) -> list[list[Any]]:
    rounds = draw(st.integers(1, 5))
    size = draw(st.integers(2, 4))
    stretches = st.lists(STRETCH, min_size=rounds, max_size=rounds)
    return [draw(stretches) for _ in range(size)]


@settings(max_examples=3 * RUNS)
@given(worlds(), st.booleans())
def test_after_timeouts_and_retries_every_completed_sync_has_one_digest(
    run_ranks: Run, world: Any, model_of: Any, merge_models: Any, programs: Any, meet: bool
) -> None:
    """What was recorded after a failed try goes with a later round, and arrives."""
    histories = world(len(programs), reduce=RULES)

    def body(number: int) -> tuple[Any, list[str]]:
        rank = model_of(histories[number])
        h: History = rank.history
        digests = []
        if meet:
            h.__enter__()
        for steps, tries in programs[number]:
            for step in steps:
                rank.do(*step, make=lambda value: value)
            for timeout, meanwhile in tries:
                try:
                    h.sync(timeout=timeout)
                    break
                except SyncTimeoutError as error:
                    assert number not in error.missing
                    for step in meanwhile:
                        rank.do(*step, make=lambda value: value)
            else:
                h.sync()
            digests.append(h.digest())
        h.sync()
        digests.append(h.digest())
        return rank, digests

    ended = run_ranks(len(programs), body)
    assert all(digests == ended[0][1] for _, digests in ended)
    models = [rank.model for rank, _ in ended]
    for rank, _ in ended:
        assert encode(rank.history.to_list()) == encode(merge_models(models))
        assert encode(rank.history.local.to_list()) == encode(rank.model.to_list())
        for number, model in enumerate(models):
            assert encode(dict(rank.history.ranks[number].attributes)) == encode(model.attributes)


def test_a_rank_that_timed_out_where_the_other_completed_ends_with_the_same_digest(
    run_ranks: Run, world: Any
) -> None:
    """The other rank has read this one's part by then, and this one has recorded more since."""
    for first in (0, 1):
        histories = world(2)
        late, done = histories[first], histories[1 - first]
        run_ranks(2, lambda r: histories[r].sync())
        late.new_epoch(a=1)
        try:
            late.sync(timeout=0)
            raise AssertionError("the other rank has not come")
        except SyncTimeoutError as error:
            assert error.missing == [1 - first]
            assert error.round == 2
        done.new_epoch(b=2)
        done.sync()
        late.record("more", 3)
        late.sync()
        assert late.digest() == done.digest()
        assert done.to_list() == [{"batches": [], "a": 1, "b": 2}]
        run_ranks(2, lambda r: histories[r].sync())
        assert late.digest() == done.digest()
        assert done[-1, "more"] == 3


def test_a_timeout_of_zero_comes_back_at_once(world: Any) -> None:
    h = world(2)[0]
    h.new_epoch(a=1)
    start = time.monotonic()
    for _ in range(20):
        try:
            h.sync(timeout=0)
            raise AssertionError("nobody else is there")
        except SyncTimeoutError as error:
            assert error.missing == [1]
            assert error.last_seen == {1: None}
    assert time.monotonic() - start < 2
    assert h.local[-1, "a"] == 1
