"""The best epoch, and how long ago it was: what early stopping asks.

A fold over the epochs of one name: one step for each epoch, and every state is kept, so that a new
epoch costs one step however long the run is, and going back costs nothing.

The rules:

* NaN is never best. Of equal values the first stays best.
* A value replaces the best only if it is better by more than `min_delta`. That is compared exactly:
  the difference of the two is not rounded first. Where an infinity is involved, the better value is
  better by more than any finite `min_delta`; nothing is better by more than an infinite one.
* An epoch counts as "since the best" if it holds a value, NaN or not. While every value so far is
  NaN, the first epoch that holds one takes the place of the best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import attrs

from .arithmetic import Number, as_number, is_nan
from .errors import UsageError
from .missing import MISSING

__all__ = ["Best", "BestFold"]


@attrs.frozen
class Best:
    """The best epoch and its value; unpacks as `epoch, value = ...`.

    Attributes:
        epoch: index of the epoch, counted from 0.
        value: what that epoch holds, as it was given.
    """

    epoch: int
    value: Any

    def __iter__(self) -> Iterator[Any]:
        yield self.epoch
        yield self.value


@attrs.frozen
class _State:
    """What is known after an epoch.

    Attributes:
        best: the best epoch so far, or None.
        number: its value as a number; means nothing without `best`.
        since: epochs with a value after the best one.
        seen: whether any epoch held a value.
    """

    best: Best | None = None
    number: Number = math.nan
    since: int = 0
    seen: bool = False


_START = _State()


class BestFold:
    """The best epoch of one name, brought up to date an epoch at a time.

    Never communicates. Not safe to extend from several threads at once.

    Args:
        mode: "min" if lower values are better, "max" if higher ones are.
        min_delta: a value must be better by more than this; 0 or more, in the unit of the values.
        name: what the values are called in error messages.

    Raises:
        UsageError: another mode; a `min_delta` that is negative, NaN or no number.

    >>> fold = BestFold("min", min_delta=0.1)
    >>> fold.extend([1.0, 0.5, MISSING, 0.45, float("nan")])
    >>> fold.best, fold.since_best
    (Best(epoch=1, value=0.5), 2)
    """

    def __init__(self, mode: str, min_delta: Any = 0.0, *, name: str = "value") -> None:
        if mode not in ("min", "max"):
            raise UsageError(f"mode must be 'min' or 'max', not {mode!r}")
        delta = as_number(min_delta)
        if delta is None or not delta >= 0:
            raise UsageError(f"min_delta must be a number that is 0 or more, not {min_delta!r}")
        self._lower_is_better = mode == "min"
        self._min_delta = delta
        self._name = name
        self._states: list[_State] = []

    def __len__(self) -> int:
        """How many epochs are folded in."""
        return len(self._states)

    @property
    def best(self) -> Best | None:
        """The best epoch so far; None while no epoch holds a value other than NaN."""
        return self._last.best

    @property
    def since_best(self) -> int:
        """How many epochs after the best one hold a value; 0 before the first value."""
        return self._last.since

    @property
    def seen(self) -> bool:
        """Whether any epoch holds a value, be it NaN."""
        return self._last.seen

    def extend(self, values: Iterable[Any]) -> None:
        """Fold in the values of the next epochs, one for each, `MISSING` where there is none.

        Raises:
            UsageError: a value that is no number; the epochs before it are folded in.
        """
        for value in values:
            self._states.append(self._step(self._last, len(self._states), value))

    def truncate(self, epochs: int) -> None:
        """Keep the first `epochs` (0 or more) and forget the later ones."""
        del self._states[epochs:]

    @property
    def _last(self) -> _State:
        return self._states[-1] if self._states else _START

    def _step(self, state: _State, epoch: int, value: Any) -> _State:
        if value is MISSING:
            return state
        number = as_number(value)
        if number is None:
            raise UsageError(
                f"epoch {epoch}: {self._name!r} is of type {type(value).__qualname__}, and only "
                "numbers can be compared to find the best"
            )
        if not is_nan(number) and (state.best is None or self._improves(number, state.number)):
            return _State(best=Best(epoch, value), number=number, since=0, seen=True)
        return attrs.evolve(state, since=state.since + state.seen, seen=True)

    def _improves(self, number: Number, best: Number) -> bool:
        if not (number < best if self._lower_is_better else number > best):
            return False
        if self._min_delta == 0:
            return True
        if math.inf in (self._min_delta, abs(number), abs(best)):
            return self._min_delta != math.inf
        # Exact, because a rounded difference can fall on either side of min_delta.
        return abs(Fraction(number) - Fraction(best)) > self._min_delta
