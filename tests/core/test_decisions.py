"""The best epoch and the time since, against a loop that looks at every epoch each time."""

from __future__ import annotations

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synchist.decisions import Best, BestFold
from synchist.errors import UsageError
from synchist.missing import MISSING

modes = st.sampled_from(["min", "max"])
# Few different values, so that ties and gaps of exactly min_delta are common.
steps = st.sampled_from([-1.0, 0.0, -0.0, 0.1, 0.2, 0.30000000000000004, 0.3, 0.4, 0.5, 1, 2**60])
recorded = st.one_of(
    steps, st.integers(-3, 3), st.floats(), st.just(math.nan), st.just(math.inf), st.booleans()
)
epochs = st.lists(st.one_of(recorded, st.just(MISSING)), max_size=12)
deltas = st.one_of(
    st.just(0.0), st.sampled_from([0, 0.1, 1, 0.2, math.inf]), st.floats(min_value=0)
)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def better_by_more_than(value: Any, best: Any, mode: str, delta: Any) -> bool:
    """In exact arithmetic, with infinities as the limits of huge numbers."""
    if mode == "max":
        value, best = -value, -best
    if not value < best:
        return False
    if delta in (0, math.inf):
        return bool(delta == 0)
    if math.isinf(value) or math.isinf(best):
        return True
    return Fraction(value) < Fraction(best) - Fraction(delta)


def looked_at_from_scratch(
    values: list[Any], mode: str, delta: Any
) -> tuple[tuple[int, Any] | None, int]:
    held = [(epoch, value) for epoch, value in enumerate(values) if value is not MISSING]
    if not held:
        return None, 0
    comparable = [(epoch, value) for epoch, value in held if not is_nan(value)]
    if not comparable:
        return None, len(held) - 1
    best = comparable[0]
    for epoch, value in comparable[1:]:
        if better_by_more_than(value, best[1], mode, delta):
            best = epoch, value
    return best, len([epoch for epoch, _ in held if epoch > best[0]])


def agrees(fold: BestFold, values: list[Any], mode: str, delta: Any) -> bool:
    best, since = looked_at_from_scratch(values, mode, delta)
    assert fold.since_best == since
    assert len(fold) == len(values)
    if best is None:
        return fold.best is None
    return fold.best is not None and (fold.best.epoch, repr(fold.best.value)) == (
        best[0],
        repr(best[1]),
    )


@given(epochs, modes, deltas)
def test_folding_epoch_by_epoch_gives_what_a_look_from_scratch_gives(
    values: list[Any], mode: str, delta: Any
) -> None:
    fold = BestFold(mode, delta)
    for epoch, value in enumerate(values):
        fold.extend([value])
        assert agrees(fold, values[: epoch + 1], mode, delta)


@given(epochs, epochs, st.integers(0, 12), modes, deltas)
def test_after_going_back_the_later_epochs_are_forgotten(
    values: list[Any], others: list[Any], keep: int, mode: str, delta: Any
) -> None:
    fold = BestFold(mode, delta)
    fold.extend(values)
    fold.truncate(keep)
    assert agrees(fold, values[:keep], mode, delta)
    fold.extend(others)
    assert agrees(fold, values[:keep] + others, mode, delta)


@given(epochs, modes)
def test_the_best_without_min_delta_is_the_first_extreme(values: list[Any], mode: str) -> None:
    fold = BestFold(mode)
    fold.extend(values)
    comparable = [v for v in values if v is not MISSING and not is_nan(v)]
    if not comparable:
        assert fold.best is None
        return
    extreme = min(comparable) if mode == "min" else max(comparable)
    first = next(i for i, v in enumerate(values) if v is not MISSING and v == extreme)
    assert fold.best is not None
    assert fold.best.epoch == first


def folded(values: list[Any], mode: str = "min", min_delta: Any = 0.0) -> tuple[Any, int]:
    fold = BestFold(mode, min_delta)
    fold.extend(values)
    return fold.best, fold.since_best


def test_before_the_first_value_nothing_is_best() -> None:
    assert folded([]) == (None, 0)
    assert folded([MISSING, MISSING]) == (None, 0)


def test_epochs_without_a_value_are_not_counted() -> None:
    assert folded([MISSING, 1.0, MISSING, 2.0, MISSING, 3.0]) == (Best(1, 1.0), 2)


def test_nan_is_never_best_but_counts() -> None:
    assert folded([1.0, math.nan, math.nan]) == (Best(0, 1.0), 2)
    assert folded([math.nan, 7.0]) == (Best(1, 7.0), 0)
    assert folded([np.float32("nan"), Decimal("nan"), 7.0]) == (Best(2, 7.0), 0)


def test_while_only_nan_was_seen_the_epochs_after_the_first_of_them_count() -> None:
    assert folded([MISSING, math.nan]) == (None, 0)
    assert folded([MISSING, math.nan, MISSING, math.nan, math.nan]) == (None, 2)


def test_of_equal_values_the_first_stays_best() -> None:
    assert folded([2.0, 1.0, 1, 1.0]) == (Best(1, 1.0), 2)
    assert folded([0.0, -0.0]) == (Best(0, 0.0), 1)


def test_min_delta_must_be_exceeded() -> None:
    assert folded([1.0, 0.5], min_delta=0.5) == (Best(0, 1.0), 1)
    assert folded([1.0, math.nextafter(0.5, 0)], min_delta=0.5)[1] == 0
    assert folded([1, 3, 4], "max", min_delta=2) == (Best(2, 4), 0)


def test_small_steps_that_add_up_to_more_than_min_delta_do_count() -> None:
    assert folded([1.0, 0.75, 0.5, 0.25], min_delta=0.5) == (Best(3, 0.25), 0)


def test_the_gap_is_compared_exactly_where_floats_would_round_it() -> None:
    assert not 0.03 < 0.04 - 0.01
    assert folded([0.04, 0.03], min_delta=0.01)[1] == 0
    assert not 0.04 - 0.01 > 0.03
    assert folded([0.04, 0.01], min_delta=0.03)[1] == 0
    assert folded([1.0, 1.0 - 2**-53], min_delta=2**-53)[1] == 1
    assert folded([1.0, 1.0 - 2**-53], min_delta=2**-60)[1] == 0
    assert folded([2**60 + 1, 2**60], min_delta=0.5)[1] == 0
    assert folded([10**400, 10**400 - 1], min_delta=0.5)[1] == 0


def test_infinities_are_values_like_others() -> None:
    assert folded([math.inf, 5.0], min_delta=1e300) == (Best(1, 5.0), 0)
    assert folded([5.0, -math.inf, -math.inf], min_delta=1.0) == (Best(1, -math.inf), 1)
    assert folded([-math.inf, -1e308, -math.inf]) == (Best(0, -math.inf), 2)
    assert folded([math.inf, math.inf]) == (Best(0, math.inf), 1)
    assert folded([math.inf, -math.inf], min_delta=math.inf) == (Best(0, math.inf), 1)


def test_the_best_value_is_returned_as_it_was_given() -> None:
    best, _ = folded([np.float32(0.5), Fraction(1, 3), np.float32(0.1)])
    assert type(best.value) is np.float32
    assert best == Best(2, np.float32(0.1))
    assert folded([True, False])[0].value is False


def test_best_unpacks_and_shows_what_it_is() -> None:
    epoch, value = Best(3, 0.25)
    assert (epoch, value) == (3, 0.25)
    assert repr(Best(3, 0.25)) == "Best(epoch=3, value=0.25)"


def test_missing_survives_copies() -> None:
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING
    assert copy.deepcopy(MISSING) is MISSING


@pytest.mark.parametrize("mode", ["Min", "lower", None, ""])
def test_another_mode_is_refused(mode: Any) -> None:
    with pytest.raises(UsageError, match=r"^mode must be 'min' or 'max', not "):
        BestFold(mode)


@pytest.mark.parametrize("delta", [-0.1, math.nan, -math.inf, None, "0.1", 1j])
def test_a_min_delta_that_makes_no_sense_is_refused(delta: Any) -> None:
    with pytest.raises(UsageError, match=r"^min_delta must be a number that is 0 or more, not "):
        BestFold("min", delta)


@pytest.mark.parametrize("value", ["0.5", None, [1], np.array([1.0, 2.0]), 1j])
def test_a_value_that_cannot_be_ordered_is_refused_with_its_epoch_and_name(value: Any) -> None:
    fold = BestFold("min", name="f1")
    with pytest.raises(
        UsageError, match=f"^epoch 2: 'f1' is of type {type(value).__qualname__}, and only numbers"
    ):
        fold.extend([1.0, MISSING, value, 0.0])
    assert len(fold) == 2
    assert fold.best == Best(0, 1.0)
