"""Scores of `EpochScoring` that every rank agrees on.

The best score so far, and its direction, live in the callback. So the callback itself has to be
given the agreed score: its `_scoring`, which skorch calls once at the end of an epoch, is replaced
for just that call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from skorch.callbacks import EpochScoring
from skorch.dataset import get_len

from synchist_skorch.padding import first_rows

__all__ = ["agreeing", "itself"]


def agreeing(callback: Any, real: int | None) -> Any:
    """The callback, or what stands in for it where it is an `EpochScoring`.

    Args:
        callback: a callback of a net.
        real: how many samples of its last cached batch are no padding; None for all.
    """
    return _Agreeing(callback, real) if isinstance(callback, EpochScoring) else callback


def itself(callback: Any) -> Any:
    """The inverse of `agreeing`."""
    return callback._callback if type(callback) is _Agreeing else callback


class _Agreeing:
    """Stands in for an `EpochScoring` while a net notifies its callbacks of the end of an epoch.

    Other callbacks may look at the net's right then: they find the attributes and the class of
    what it stands for. It is pickled as that too, because a checkpoint may pickle the net.
    """

    __slots__ = ("_callback", "_real")

    def __init__(self, callback: Any, real: int | None) -> None:
        object.__setattr__(self, "_callback", callback)
        object.__setattr__(self, "_real", real)

    @property  # type: ignore[misc]  # of an object it can be written to
    def __class__(self) -> Any:
        return type(self._callback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._callback, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._callback, name, value)

    def __reduce__(self) -> Any:
        return _same, (self._callback,)

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Score this rank's samples, agree, and let the callback take the agreed score."""
        callback = self._callback
        score = _Score(callback)
        cached = callback.y_trues_, callback.y_preds_
        if self._real is not None:
            callback.y_trues_, callback.y_preds_ = (_without_padding(c, self._real) for c in cached)
        callback._scoring = score
        try:
            callback.on_epoch_end(net, **kwargs)
        finally:
            del callback._scoring
            callback.y_trues_, callback.y_preds_ = cached
        if not score.asked:  # no data here, but the others wait; and decisions follow from it
            try:
                agreed = net.history.agree(callback.name_)
            except KeyError:
                return
            callback._record_score(net.history, agreed)


class _Score:
    """`callback._scoring`, over the samples of all ranks."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback
        self.asked = False

    def __call__(self, net: Any, X: Any, y: Any) -> float:  # noqa: N803  (as skorch has it)
        self.asked = True
        callback = self._callback
        samples = _samples(net, callback, X, y)
        if samples == 0:  # all of them were padding
            try:
                joined: float = net.history.agree(callback.name_)
            except KeyError:
                return math.nan
            return joined
        own = type(callback)._scoring(callback, net, X, y)
        agreed: float = net.history.agree(callback.name_, float(own), reduce="mean", weight=samples)
        return agreed


def _samples(net: Any, callback: Any, X: Any, y: Any) -> int:  # noqa: N803
    """How many samples the score is of."""
    cached = callback.use_caching if net.use_caching == "auto" else net.use_caching
    if cached:
        return sum(get_len(batch) for batch in callback.y_preds_)
    return int(get_len(X if y is None else y))


def _without_padding(batches: Sequence[Any], real: int) -> list[Any]:
    if not batches:
        return []
    last = [first_rows(batches[-1], real)] if real else []
    return [*batches[:-1], *last]


def _same(callback: Any) -> Any:
    return callback
