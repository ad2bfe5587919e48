"""Exact arithmetic on recorded numbers: sums that the order of their terms cannot change.

Ints, floats and Fractions are taken at their exact value. What cannot be kept exactly is rounded
once, to the nearest float, and is inf only where the exact result is too large for a float.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

__all__ = [
    "Number",
    "as_integers",
    "as_number",
    "exact_sum",
    "is_finite",
    "is_nan",
    "rounded",
    "square_root",
    "total",
]

Number: TypeAlias = int | float | Fraction
"""What `as_number` gives: exactly one of these types, never a subclass."""

# Up to here every int is a float exactly, so that fsum may take ints among its floats.
_EXACT_INT = 2**53


def as_number(value: Any) -> Number | None:
    """`value` as an int, a float or a Fraction of exactly the same value; None if it is no number.

    Takes bool, int, float and their subclasses, Fraction, Decimal, and numpy's bool, integer and
    float scalars (0-d arrays too), without importing numpy. Complex numbers, dates and strings are
    no numbers here.

    >>> as_number(True), as_number(Decimal("0.5")), as_number("0.5")
    (1, Fraction(1, 2), None)
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Fraction):
        return Fraction(value)
    if isinstance(value, Decimal):
        if value.is_nan():
            return math.nan
        return Fraction(value) if value.is_finite() else float(value)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        # Dates are no numbers, but item() makes an int of some. It leaves a longdouble as it is.
        item = value.item() if value.dtype.kind in "biuf" else None
        return as_number(item) if isinstance(item, (int, float)) else None
    return None


def is_finite(number: Number) -> bool:
    """Whether `number` is neither inf nor NaN; unlike `math.isfinite`, for ints of any size."""
    return not isinstance(number, float) or math.isfinite(number)


def is_nan(number: Number) -> bool:
    """Whether `number` is NaN; unlike `math.isnan`, for ints of any size."""
    return isinstance(number, float) and math.isnan(number)


def total(terms: list[Number]) -> int | float:
    """The sum: an exact int for ints, else rounded once. Never raises.

    >>> total([1e308, 1e308, -1e308]), total([2**60, 1])
    (1e+308, 1152921504606846977)
    """
    kinds = set(map(type, terms))
    if kinds == {int}:
        return sum(terms)  # type: ignore[arg-type]  # all of them are ints
    if kinds == {float} or all(
        type(term) is float or (type(term) is int and abs(term) <= _EXACT_INT) for term in terms
    ):
        try:
            return math.fsum(terms)
        except (OverflowError, ValueError):  # overflow half way; inf - inf
            pass
    return rounded(exact_sum(terms))


def exact_sum(values: list[Number], weights: list[Number] | None = None) -> Fraction | float:
    """The sum of values x weights, as a Fraction; inf or NaN if any of them is not finite."""
    terms = values if weights is None else list(map(_times, values, weights))
    not_finite = [term for term in terms if not is_finite(term)]
    if not_finite:
        return float(sum(not_finite))
    numerators, denominator = as_integers(terms)
    return Fraction(sum(numerators), denominator)


def _times(value: Number, weight: Number) -> Number:
    if is_finite(value) and is_finite(weight):
        return Fraction(value) * Fraction(weight)
    # Only the sign of the finite one matters, and it may be too large for a float itself.
    return _sign(value) * _sign(weight)


def _sign(number: Number) -> float:
    return float((number > 0) - (number < 0)) if is_finite(number) else float(number)


def as_integers(numbers: list[Number]) -> tuple[list[int], int]:
    """Finite numbers as numerators over one common denominator."""
    ratios = [number.as_integer_ratio() for number in numbers]
    common = math.lcm(*{denominator for _, denominator in ratios})
    return [numerator * (common // denominator) for numerator, denominator in ratios], common


def rounded(exact: Fraction | float) -> float:
    """The nearest float; inf or -inf where `exact` is too large for one."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def square_root(square: Fraction) -> float:
    """The float nearest to the square root of `square`, which must not be negative."""
    if not square:
        return 0.0
    top, bottom = square.numerator, square.denominator
    # The integer root has 56 bits or more. One bit behind it says whether anything was cut off:
    # that is all that rounding to 53 bits can depend on.
    shift = (113 - top.bit_length() + bottom.bit_length()) // 2
    if shift > 0:
        top <<= 2 * shift
    else:
        bottom <<= -2 * shift
    whole, rest = divmod(top, bottom)
    root = math.isqrt(whole)
    more = rest != 0 or root * root != whole
    return rounded((2 * root + more) / Fraction(2) ** (shift + 1))
