"""Reductions against oracles that work another way: Fractions, statistics, repeated values."""

from __future__ import annotations

import functools
import math
import operator
import statistics
import struct
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synchist.errors import UsageError
from synchist.reductions import check_rule, reduce_values, rule_id

NAMES = ["mean", "sum", "min", "max", "count", "std", "first", "last"]
BIG = sys.float_info.max

finite_floats = st.floats(allow_nan=False, allow_infinity=False)
tame_floats = st.floats(-1e100, 1e100)
special = st.sampled_from([0.0, -0.0, 0, False, 1, 1.0, True, math.inf, -math.inf, BIG, -BIG])
# NaNs with payloads, both signs.
nans = st.sampled_from([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF800000000BEEF]).map(
    lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]
)
numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.booleans(),
    st.fractions(),
    st.decimals(allow_nan=False, min_value=-1000, max_value=1000, places=2),
    special,
    nans,
    st.floats(width=32, allow_nan=False).map(np.float32),
)
weights_of_any_kind = st.one_of(
    st.floats(min_value=0), st.integers(0, 10**400), st.integers(0, 64), st.fractions(min_value=0)
)


def reduce(values: Any, rule: Any, weights: Any = None) -> Any:
    return reduce_values(values, rule, weights, where="'loss' of epoch 3")


def bits(result: Any) -> tuple[type, str]:
    """The type and every bit; the text of a NaN would hide its sign and payload."""
    if isinstance(result, float):
        return type(result), struct.pack("<d", result).hex()
    return type(result), repr(result)


def nearest(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def is_nan(result: Any) -> bool:
    return bits(result) == bits(math.nan)


# --- the order of the values does not matter ------------------------------------------------------


@pytest.mark.parametrize("rule", ["mean", "sum", "min", "max", "count", "std"])
@given(data=st.data())
def test_the_order_changes_no_bit(rule: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(numbers, min_size=1, max_size=8))
    shuffled = data.draw(st.permutations(values))
    assert bits(reduce(values, rule)) == bits(reduce(shuffled, rule))


@pytest.mark.parametrize("rule", ["mean", "sum", "std"])
@given(data=st.data())
def test_the_order_of_weighted_values_changes_no_bit(rule: str, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(numbers, weights_of_any_kind), min_size=1, max_size=8))
    shuffled = data.draw(st.permutations(pairs))
    results = [reduce([v for v, _ in p], rule, [w for _, w in p]) for p in (pairs, shuffled)]
    assert bits(results[0]) == bits(results[1])


@given(st.lists(numbers, min_size=1, max_size=8))
def test_min_is_the_mirror_image_of_max(values: list[Any]) -> None:
    values = [v if type(v) is not bool else int(v) for v in values]
    mirrored = reduce([-v for v in values], "max")
    expected = reduce(values, "min")
    assert is_nan(mirrored) if is_nan(expected) else -mirrored == expected


# --- sums and means are exact ---------------------------------------------------------------------


@given(st.lists(finite_floats, min_size=1, max_size=20))
def test_a_sum_of_floats_is_the_exact_sum_rounded_once(values: list[float]) -> None:
    assert reduce(values, "sum") == nearest(sum(map(Fraction, values), Fraction()))


@given(st.lists(tame_floats, min_size=1, max_size=20))
def test_the_mean_of_floats_is_fsum_over_n(values: list[float]) -> None:
    assert reduce(values, "mean") == math.fsum(values) / len(values)


@given(st.lists(st.one_of(st.integers(), st.booleans()), min_size=1, max_size=20))
def test_ints_add_exactly_and_their_mean_is_rounded_once(values: list[int]) -> None:
    total = sum(values)
    assert bits(reduce(values, "sum")) == bits(total)
    assert reduce(values, "mean") == nearest(Fraction(total, len(values)))


@given(
    st.lists(
        st.one_of(st.integers(-(10**320), 10**320), st.fractions(), finite_floats),
        min_size=1,
        max_size=20,
    )
)
def test_a_mixed_sum_is_the_exact_sum_rounded_once(values: list[Any]) -> None:
    exact = sum(map(Fraction, values), Fraction())
    result = reduce(values, "sum")
    if all(type(v) is int for v in values):
        assert bits(result) == bits(int(exact))
    else:
        assert type(result) is float
        assert result == nearest(exact)


@given(st.lists(finite_floats, min_size=1, max_size=20))
def test_the_mean_lies_between_min_and_max_even_near_the_largest_float(values: list[float]) -> None:
    mean, low, high = reduce(values, "mean"), min(values), max(values)
    assert math.isfinite(mean)
    assert low - 2 * math.ulp(low) <= mean <= high + 2 * math.ulp(high)


def test_an_overflow_half_way_does_not_show_in_the_result() -> None:
    assert reduce([1e308, 1e308, -1e308], "sum") == 1e308
    assert reduce([1e308, 1e308], "mean") == 1e308
    assert reduce([1e308, -1e308], "sum", [10, 10]) == 0.0
    assert reduce([1e308, 1e308], "mean", [32, 32]) == 1e308
    assert reduce([1.0, 3.0], "mean", [BIG, BIG]) == 2.0
    assert reduce([BIG, -BIG], "std") == BIG
    assert reduce([10**400, 0.5, -(10**400)], "sum") == 0.5
    assert reduce([10**400, 0.5, -(10**400)], "mean", [1.0, 1.0, 1.0]) == 0.5 / 3


def test_a_result_too_large_for_a_float_is_inf_with_its_sign() -> None:
    assert reduce([1e308, 1e308], "sum") == math.inf
    assert reduce([-1e308, -1e308], "sum") == -math.inf
    assert reduce([1e308], "sum", [10.0]) == math.inf
    assert reduce([10**400, 0.5], "sum") == math.inf
    assert reduce([10**400], "mean") == math.inf
    assert reduce([-(10**400)], "mean", [2]) == -math.inf
    assert reduce([0, 10**400], "std") == math.inf


def test_the_sum_of_huge_ints_stays_an_int() -> None:
    assert bits(reduce([10**400, 1], "sum")) == bits(10**400 + 1)
    assert bits(reduce([2**53, 1, 1], "sum")) == bits(2**53 + 2)
    assert reduce([2**53, 1, 1.0], "sum") == 2.0**53 + 2
    assert reduce([2**53 + 1, 0.5, -(2**53)], "sum") == 1.5  # 2**53 + 1 is no float


@pytest.mark.parametrize("rule", ["sum", "mean"])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 1.0]])
def test_infinities_pass_and_inf_minus_inf_is_nan(rule: str, weights: Any) -> None:
    assert reduce([math.inf, 1.0, 2.0], rule, weights) == math.inf
    assert reduce([-math.inf, 10**400, 2.0], rule, weights) == -math.inf
    assert is_nan(reduce([math.inf, 1.0, -math.inf], rule, weights))
    # fsum alone would raise for the first order and not for the second
    assert reduce([1e308, 1e308, math.inf], rule, weights) == math.inf
    assert reduce([math.inf, 1e308, 1e308], rule, weights) == math.inf


@pytest.mark.parametrize("rule", ["mean", "sum", "min", "max", "std"])
@given(data=st.data())
def test_one_nan_makes_the_result_the_plain_nan(rule: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(numbers, max_size=6))
    values.insert(data.draw(st.integers(0, len(values))), data.draw(nans))
    weights = data.draw(st.one_of(st.none(), st.just([1] * len(values))))
    assert is_nan(reduce(values, rule, weights))


def test_nan_is_counted() -> None:
    assert reduce([math.nan, 1.0], "count") == 2


# --- weights --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(tame_floats, st.integers(0, 10**6)), min_size=1, max_size=20))
def test_the_weighted_mean_can_be_worked_out_again_to_the_last_bit(
    pairs: list[tuple[float, int]],
) -> None:
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    products = math.fsum(v * w for v, w in pairs)
    assert reduce(values, "sum", weights) == products
    if sum(weights):
        assert reduce(values, "mean", weights) == products / math.fsum(weights)
    else:
        assert is_nan(reduce(values, "mean", weights))
        assert is_nan(reduce(values, "std", weights))


@given(
    st.lists(
        st.tuples(st.integers(-1000, 1000), st.integers(0, 9)), min_size=1, max_size=20
    ).filter(lambda pairs: any(w for _, w in pairs))
)
def test_an_int_weight_counts_like_that_many_values(pairs: list[tuple[int, int]]) -> None:
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    repeated = [v for v, w in pairs for _ in range(w)]
    for rule in ("sum", "mean", "std"):
        assert bits(reduce(values, rule, weights)) == bits(reduce(repeated, rule))


@given(
    st.lists(st.tuples(finite_floats, st.floats(2.0**-100, 2.0**100)), min_size=1, max_size=10),
    st.integers(-50, 50),
)
def test_the_unit_of_the_weights_does_not_change_the_deviation(
    pairs: list[tuple[float, float]], power: int
) -> None:
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    scaled = [w * 2.0**power for w in weights]
    assert reduce(values, "std", weights) == reduce(values, "std", scaled)


@pytest.mark.parametrize("rule", ["mean", "std"])
@pytest.mark.parametrize("zero", [0, 0.0, -0.0, Fraction(0)])
def test_a_total_weight_of_zero_gives_nan(rule: str, zero: Any) -> None:
    assert is_nan(reduce([1.0, 2.0], rule, [zero, zero]))
    assert reduce([1.0, 2.0], "sum", [zero, zero]) == 0


def test_weights_that_are_tiny_in_sum_are_not_taken_for_zero() -> None:
    tiny = Fraction(1, 10**400)
    assert reduce([1.0, 3.0], "mean", [tiny, tiny]) == 2.0


def test_a_weight_that_is_no_finite_number_makes_the_mean_nan() -> None:
    for weight in (math.inf, math.nan):
        for rule in ("mean", "std"):
            assert is_nan(reduce([1.0, 2.0], rule, [weight, 1.0]))
    assert is_nan(reduce([0.0], "sum", [math.inf]))
    assert reduce([-(10**400)], "sum", [math.inf]) == -math.inf


@pytest.mark.parametrize("rule", ["min", "max", "count", "first", "last"])
def test_rules_that_do_not_weigh_do_not_look_at_weights(rule: str) -> None:
    assert reduce([1.0, 2.0], rule, [-1, None]) == reduce([1.0, 2.0], rule)


@pytest.mark.parametrize("rule", ["mean", "sum", "std"])
@pytest.mark.parametrize(
    ("weight", "told"), [(-1, "-1"), (-math.inf, "-inf"), (None, "NoneType"), ("2", "str")]
)
def test_a_weight_that_is_negative_or_no_number_is_refused_by_name(
    rule: str, weight: Any, told: str
) -> None:
    with pytest.raises(UsageError, match=rf"^'loss' of epoch 3: a weight .*{told}"):
        reduce([1.0, 2.0], rule, [1, weight])


def test_every_value_needs_its_weight() -> None:
    with pytest.raises(UsageError, match=r"^'loss' of epoch 3: got 2 values but 1 weights"):
        reduce([1.0, 2.0], "mean", [1])


# --- standard deviation ---------------------------------------------------------------------------


@given(st.lists(st.one_of(finite_floats, st.integers()), min_size=1, max_size=20))
def test_the_deviation_is_the_one_of_the_whole_population(values: list[Any]) -> None:
    squares = statistics.pvariance(map(Fraction, values))
    result = reduce(values, "std")
    assert is_nearest_root(result, squares)


def is_nearest_root(root: float, square: Fraction) -> bool:
    """Whether no float is closer to the square root: the half way points enclose it."""
    if square == 0 or root == math.inf:
        return root == 0 or square >= (Fraction(BIG) + Fraction(math.ulp(BIG)) / 2) ** 2
    exact = Fraction(root)
    below = (exact + Fraction(math.nextafter(root, 0.0))) / 2
    above = exact + Fraction(math.ulp(root)) / 2
    return below**2 <= square <= above**2


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_the_deviation_agrees_with_the_statistics_module(values: list[float]) -> None:
    assert reduce(values, "std") == statistics.pstdev(values)


@given(finite_floats, st.integers(1, 30))
def test_equal_values_have_a_deviation_of_exactly_zero(value: float, n: int) -> None:
    assert bits(reduce([value] * n, "std")) == bits(0.0)
    assert bits(reduce([value] * n, "std", [0.1] * n)) == bits(0.0)


def test_values_an_ulp_apart_and_far_apart_keep_their_deviation() -> None:
    assert reduce([1.0, 1.0 + 2**-52], "std") == 2.0**-53
    assert reduce([5e-324, 5e-324 * 3], "std") == 5e-324
    assert reduce([0.0, 1e-200], "std") == 5e-201
    assert reduce([2**80, 2**80 + 2], "std") == 1.0


def test_an_infinity_has_no_deviation() -> None:
    assert is_nan(reduce([math.inf, 1.0], "std"))
    assert is_nan(reduce([math.inf], "std"))


# --- min and max ----------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.integers(), st.floats(allow_nan=False)), min_size=1, max_size=20))
def test_min_and_max_are_values_and_nothing_lies_beyond(values: list[Any]) -> None:
    low, high = reduce(values, "min"), reduce(values, "max")
    assert bits(low) in map(bits, values)
    assert bits(high) in map(bits, values)
    assert all(low <= v <= high for v in values)


def test_ties_of_min_and_max_follow_a_fixed_order() -> None:
    assert bits(reduce([0.0, -0.0], "min")) == bits(-0.0)
    assert bits(reduce([-0.0, 0.0], "max")) == bits(0.0)
    assert bits(reduce([-0.0, 0], "max")) == bits(0)
    assert bits(reduce([1, 1.0], "min")) == bits(1.0)
    assert bits(reduce([1, 1.0, True], "max")) == bits(1.0)
    assert bits(reduce([True, False], "max")) == bits(1)
    assert reduce([10**5000, 10**5000], "max") == 10**5000
    assert bits(reduce([Decimal("-0"), 0.0], "min")) == bits(Decimal("-0"))
    assert bits(reduce([Decimal("1.00"), Decimal("1.0")], "min")) == bits(Decimal("1.0"))
    assert bits(reduce([Decimal("1.0"), Decimal("1.00")], "min")) == bits(Decimal("1.0"))
    assert bits(reduce([2**53, 2.0**53 + 2, 2**53 + 1], "max")) == bits(2.0**53 + 2)


# --- first, last, count and callables -------------------------------------------------------------


@given(st.lists(st.one_of(st.text(), st.none(), numbers), min_size=1))
def test_first_last_and_count_take_values_of_any_type(values: list[Any]) -> None:
    assert reduce(values, "first") is values[0]
    assert reduce(values, "equal") is values[0]
    assert reduce(values, "last") is values[-1]
    assert reduce(values, "count") == len(values)


def test_a_callable_gets_lists_and_its_result_is_not_touched() -> None:
    assert reduce(("b", "a"), lambda values: values) == ["b", "a"]
    assert reduce((1, 2), lambda values, weights: (values, weights), (3, 4)) == ([1, 2], [3, 4])


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, np.int8, np.uint64, np.int64, np.bool_]
)
@pytest.mark.parametrize("rule", ["mean", "sum", "std", "min", "max"])
def test_numpy_scalars_count_as_their_python_values(kind: Any, rule: str) -> None:
    values = [kind(1), kind(0), kind(0.1)]
    plain = [int(v.item()) if kind is np.bool_ else v.item() for v in values]
    assert bits(reduce(values, rule)) == bits(reduce(plain, rule))
    assert bits(reduce([np.array(v) for v in values], rule)) == bits(reduce(plain, rule))


def test_decimals_and_fractions_count_at_their_exact_value() -> None:
    assert reduce([Decimal("0.1"), Decimal("0.2")], "sum") == 0.3
    assert reduce([Fraction(1, 3), Decimal("0.5"), 1], "mean") == (11 / 6) / 3
    assert reduce([Decimal("0.1"), Fraction(1, 3)], "max") == Fraction(1, 3)
    assert bits(reduce([Decimal("1.00"), Decimal(2)], "min")) == bits(Decimal("1.00"))
    assert is_nan(reduce([Decimal("sNaN"), 1], "max"))
    assert reduce([Decimal("Infinity"), 1], "sum") == math.inf


def test_subclasses_of_numbers_count_as_their_base() -> None:
    class Metric(float):
        pass

    class Tidy(Decimal):
        pass

    class Ratio(Fraction):
        pass

    assert bits(reduce([Metric(1.0), Metric(2.0)], "max")) == bits(2.0)
    assert bits(reduce([Tidy(1), Tidy("1.0")], "max")) == bits(Decimal(1))
    assert bits(reduce([Ratio(1, 2), Ratio(1, 2)], "max")) == bits(Fraction(1, 2))


@pytest.mark.parametrize("rule", ["mean", "sum", "min", "max", "std"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("0.5", "str"),
        (None, "NoneType"),
        (1j, "complex"),
        ([1.0], "list"),
        (np.array([1.0, 2.0]), "numpy.ndarray"),
        (np.array([1.0]), "numpy.ndarray"),
        (np.complex64(1), "numpy.complex64"),
        (np.timedelta64(5, "ns"), "numpy.timedelta64"),
        (np.datetime64(5, "ns"), "numpy.datetime64"),
    ],
)
def test_what_is_no_number_is_refused_with_its_type_and_the_ways_out(
    rule: str, value: Any, told: str
) -> None:
    expected = (
        rf"^'loss' of epoch 3: '{rule}' needs numbers.* {told}; use 'first', 'last' or a call"
    )
    with pytest.raises(UsageError, match=expected):
        reduce([1.0, value], rule)


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*NAMES, operator.add])
def test_without_values_there_is_no_result(rule: Any) -> None:
    with pytest.raises(UsageError, match=r"^'loss' of epoch 3: there are no values"):
        reduce([], rule)


@pytest.mark.parametrize("rule", [*NAMES, "equal", max, lambda values: 1])
def test_the_named_rules_and_callables_are_accepted(rule: Any) -> None:
    check_rule(rule, what="reduce")


@pytest.mark.parametrize(("rule", "near"), [("maen", "mean"), ("MEAN", "mean"), ("fist", "first")])
def test_an_unknown_rule_is_refused_with_the_allowed_ones_and_the_nearest(
    rule: str, near: str
) -> None:
    expected = (
        f"^reduce for 'dur' must be one of mean, sum, min, max, count, std, first, last, equal, "
        f"or a callable, not '{rule}'; did you mean '{near}'"
    )
    with pytest.raises(UsageError, match=expected):
        check_rule(rule, what="reduce for 'dur'")


@pytest.mark.parametrize("rule", [None, 3, "zzzzzz", ["mean"]])
def test_a_rule_that_resembles_none_gets_no_suggestion(rule: Any) -> None:
    with pytest.raises(UsageError, match=r"callable, not [^;]*$"):
        check_rule(rule, what="reduce")
    with pytest.raises(UsageError, match=r"^'loss' of epoch 3: the reduction must be one of"):
        reduce([1.0], rule)


class Callable:
    def __call__(self, values: list[Any]) -> Any:
        return values[0]

    def method(self, values: list[Any]) -> Any:
        return values[-1]


def test_the_identity_of_a_rule_is_its_name_or_where_its_code_is() -> None:
    assert [rule_id(name) for name in NAMES] == NAMES
    assert rule_id(max) == "builtins:max"
    assert rule_id(statistics.median) == "statistics:median"
    assert rule_id(Callable) == f"{__name__}:Callable"
    assert rule_id(Callable().method) == f"{__name__}:Callable.method"
    assert rule_id(np.maximum) != rule_id(np.minimum)


def test_the_identity_of_an_object_holds_no_address() -> None:
    assert rule_id(Callable()) == rule_id(Callable()) == f"{__name__}:Callable"
    assert rule_id(functools.partial(max, default=0)) == "functools:partial"


def test_the_main_script_of_a_spawned_process_has_the_same_identity() -> None:
    def rule(values: list[Any]) -> Any:
        return values[0]

    rule.__module__, rule.__qualname__ = "__mp_main__", "worst"
    assert rule_id(rule) == "__main__:worst"
