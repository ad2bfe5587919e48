"""Epochs from a file or a list: they have no rank, and every rank has to load the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from synchist import DivergenceError, UsageError
from synchist.codec import encode
from synchist_skorch.entries import BATCHES

__all__ = ["MARK", "check_loaded", "mark_of", "plain"]

MARK: Final = "skorch.loaded"
"""Name of the attribute under which each rank says what it loaded."""


def plain(entry: Any, index: int) -> dict[str, Any]:
    """A copy of an epoch in plain dicts and lists.

    Raises:
        UsageError: it is no epoch.
    """
    rows = entry.get(BATCHES, []) if isinstance(entry, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(
            f"entry {index} is no epoch: ranks share dicts with a list of dicts under 'batches', "
            f"got {entry!r:.80}"
        )
    return {**entry, BATCHES: [dict(row) for row in rows]}


def mark_of(epochs: Sequence[dict[str, Any]]) -> list[Any]:
    """What a rank says of the epochs that it loaded: their digest and their number.

    Raises:
        UnsupportedTypeError: ranks cannot share a value exactly.
    """
    return [sha256(encode(list(epochs))).hexdigest(), len(epochs)]


def check_loaded(views: Mapping[int, Any]) -> None:
    """Whether all ranks loaded the same, as far as they recorded anything in those epochs.

    Args:
        views: by rank, what it recorded.

    Raises:
        DivergenceError: they did not.
    """
    marks = {rank: view.attributes.get(MARK) for rank, view in views.items()}
    length = max((mark[1] for mark in marks.values() if mark), default=0)
    told = {
        rank: mark[0] if mark else None
        for rank, mark in marks.items()
        if mark or any(map(views[rank].names, range(min(length, len(views[rank])))))
    }
    if len(set(told.values())) > 1:
        reason = ", ".join(
            f"rank {rank}: {digest[:8] if digest else 'nothing'}" for rank, digest in told.items()
        )
        raise DivergenceError(
            f"ranks loaded different histories ({reason}): load the same file on every rank, or "
            "clear() on every rank",
            reason=reason,
        )
