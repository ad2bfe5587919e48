"""Reductions: one value out of many, the same whatever the order the ranks come in.

Pure functions over plain sequences: nothing here knows histories, ranks or stores.

The rules:

* Sums of floats are `math.fsum`, sums of ints are exact ints. The mean is `fsum(v) / n`, the
  weighted mean `fsum(v * w) / fsum(w)`: anyone can work it out again to the last bit.
* Where that formula overflows half way, the exact result is rounded once instead; it is inf only
  if it is itself too large for a float. That holds for the mean of huge ints too.
* The standard deviation is computed exactly and rounded once.
* NaN is counted and makes the result NaN; inf - inf is NaN; a total weight of 0 gives NaN.
* mean, sum, min, max, std and count are bit-identical under any order of the values. Where equal
  values differ in bits, min and max choose by a fixed order: -0.0 below 0, a float before an int.
* bool counts as int, numpy scalars count as their Python value, Fraction and Decimal at their exact
  value (a sum of those is rounded to a float).
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from .arithmetic import (
    Number,
    as_integers,
    as_number,
    exact_sum,
    is_finite,
    is_nan,
    rounded,
    square_root,
    total,
)
from .errors import UsageError

__all__ = ["Reduction", "check_rule", "reduce_values", "rule_id"]

Reduction: TypeAlias = str | Callable[..., Any]
"""The name of a rule, or a callable that gets `(values)` or `(values, weights)`."""

_NAMES = ("mean", "sum", "min", "max", "count", "std", "first", "last", "equal")


def check_rule(rule: object, *, what: str) -> None:
    """Raise unless `rule` is the name of a reduction or a callable.

    Args:
        rule: what the user gave.
        what: what it was given as, such as "reduce for 'dur'"; the message begins with it.

    Raises:
        UsageError: it is neither; the message names the allowed ones.
    """
    if callable(rule) or (isinstance(rule, str) and rule in _NAMES):
        return
    message = f"{what} must be one of {', '.join(_NAMES)}, or a callable, not {rule!r}"
    near = difflib.get_close_matches(rule.lower(), _NAMES, n=1) if isinstance(rule, str) else []
    raise UsageError(message + "".join(f"; did you mean {name!r}?" for name in near))


def rule_id(rule: Reduction) -> str:
    """A text that says which rule this is, to compare the rules of several processes.

    Two lambdas of one module, or two objects of one callable class, have the same text: only the
    place of the code is compared, not what it holds.

    >>> rule_id("mean"), rule_id(math.hypot)
    ('mean', 'math:hypot')
    """
    if isinstance(rule, str):
        return rule
    place: Any = rule
    if not hasattr(place, "__qualname__") and not hasattr(place, "__name__"):
        place = type(rule)
    module = getattr(place, "__module__", None) or "builtins"
    if module == "__mp_main__":  # the main script's second name, in a process that was spawned
        module = "__main__"
    return f"{module}:{getattr(place, '__qualname__', None) or place.__name__}"


def reduce_values(
    values: Sequence[Any],
    rule: Reduction,
    weights: Sequence[Any] | None = None,
    *,
    where: str,
) -> Any:
    """One value for `values`, which come in canonical order: by epoch, batch and rank.

    Never communicates and keeps nothing, so any thread may call it. min, max, count, first and last
    do not look at the weights; "equal" gives the first value (that all are equal is checked
    elsewhere). first, last, count and callables take values of any type. The sum of ints is an int;
    std divides by n, or by the total weight.

    Args:
        values: at least one.
        rule: the name of a reduction, or a callable; it gets a list of the values, and a list of
            the weights if there are any.
        weights: one number >= 0 for each value, or None.
        where: what is being reduced, such as "'loss' of epoch 3"; error messages begin with it.

    Returns:
        What the rule gives; NaN is always `float("nan")`, with no other payload.

    Raises:
        UsageError: no values; not one weight for each value; a negative weight; a value or weight
            that is no number, where the rule needs numbers; an unknown rule.

    >>> reduce_values([1e308, 1e308, -1e308], "sum", where="'loss'")
    1e+308
    >>> reduce_values([2.0, 5.0], "mean", [1, 2], where="'loss'")
    4.0
    """
    check_rule(rule, what=f"{where}: the reduction")
    if not len(values):
        raise UsageError(f"{where}: there are no values to reduce")
    if weights is not None and len(weights) != len(values):
        raise UsageError(
            f"{where}: got {len(values)} values but {len(weights)} weights; give one for each"
        )
    if not isinstance(rule, str):
        return rule(list(values)) if weights is None else rule(list(values), list(weights))
    if rule == "count":
        return len(values)
    if rule in ("first", "equal"):
        return values[0]
    if rule == "last":
        return values[-1]

    numbers = _numbers(values, rule, where)
    if rule in ("min", "max"):
        return _extreme(values, numbers, rule)
    checked = None if weights is None else _weights(weights, where)
    result = {"mean": _mean, "sum": _sum, "std": _std}[rule](numbers, checked)
    return math.nan if is_nan(result) else result  # fsum passes a NaN's payload on


def _numbers(values: Sequence[Any], rule: str, where: str) -> list[Number]:
    if set(map(type, values)) <= {int, float}:
        return list(values)
    numbers = []
    for value in values:
        number = as_number(value)
        if number is None:
            raise UsageError(
                f"{where}: {rule!r} needs numbers, but one value is {_type_of(value)}; "
                "use 'first', 'last' or a callable instead"
            )
        numbers.append(number)
    return numbers


def _weights(weights: Sequence[Any], where: str) -> list[Number]:
    numbers = []
    for weight in weights:
        number = as_number(weight)
        if number is None:
            raise UsageError(f"{where}: a weight must be a number, but one is {_type_of(weight)}")
        if number < 0:
            raise UsageError(f"{where}: a weight must be 0 or more, but one is {weight!r}")
        numbers.append(number)
    return numbers


def _type_of(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"of type {module}{kind.__qualname__}"


# --- the reductions -------------------------------------------------------------------------------


def _sum(values: list[Number], weights: list[Number] | None) -> int | float:
    if weights is None:
        return total(values)
    try:
        result = total(list(map(operator.mul, values, weights)))
    except OverflowError:  # an int too large for the float that it is multiplied with
        result = math.inf
    return result if is_finite(result) else rounded(exact_sum(values, weights))


def _mean(values: list[Number], weights: list[Number] | None) -> float:
    if weights is not None and not any(weights):
        return math.nan
    try:
        mean = _sum(values, weights) / (len(values) if weights is None else total(weights))
    except (OverflowError, ZeroDivisionError):
        mean = math.inf
    if math.isfinite(mean):
        return mean
    top = exact_sum(values, weights)
    bottom = len(values) if weights is None else exact_sum(weights)
    if isinstance(bottom, float):
        return math.nan  # an infinite weight makes both sums infinite or NaN
    return top if isinstance(top, float) else rounded(top / bottom)


def _std(values: list[Number], weights: list[Number] | None) -> float:
    if not all(map(is_finite, values)):
        return math.nan
    if weights is not None and not (all(map(is_finite, weights)) and any(weights)):
        return math.nan
    # The variance is (W * sum(w x^2) - sum(w x)^2) / W^2, with W = sum(w). In floats the difference
    # would cancel; in integers it is exact. The weights' own denominator falls out.
    xs, denominator = as_integers(values)
    ws = [1] * len(xs) if weights is None else as_integers(weights)[0]
    wx = list(map(operator.mul, ws, xs))
    top = sum(ws) * sum(map(operator.mul, wx, xs)) - sum(wx) ** 2
    return square_root(Fraction(top, (sum(ws) * denominator) ** 2))


def _extreme(values: Sequence[Any], numbers: list[Number], rule: str) -> Any:
    """The smallest or largest value: a Decimal as it was, anything else as a Python number."""
    if any(map(is_nan, numbers)):
        return math.nan
    extreme = min(numbers) if rule == "min" else max(numbers)
    ties = [
        Decimal(value) if isinstance(value, Decimal) else number
        for value, number in zip(values, numbers, strict=True)
        if number == extreme
    ]
    zero_sign = 1 if rule == "min" else -1

    def order(tie: Any) -> tuple[float, int, str]:
        sign = 0.0 if tie else zero_sign * math.copysign(1.0, tie)
        # The text tells equal Decimals apart: 1.0 and 1.00. (A huge int has none: str refuses it.)
        text = str(tie) if isinstance(tie, Decimal) else ""
        return sign, (float, int, Fraction, Decimal).index(type(tie)), text

    return ties[0] if len(ties) == 1 else min(ties, key=order)
