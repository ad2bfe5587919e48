"""Strict reading: a read that this rank's own unsynced records would change raises.

What is pending is worked out here, when something is read, so that recording pays nothing for it.
The rule is by (epoch, scope, name): values are not compared.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Any, Final, Protocol

from ..errors import NotSyncedError
from .rows import RowAxis

__all__ = ["ALL", "EVERY_EPOCH", "Guard", "NoGuard", "PendingNames", "StrictGuard"]

ALL: Any = None
"""In place of names: every name."""

EVERY_EPOCH: Final = range(sys.maxsize)
"""In place of epochs: every one, those that only this rank has opened included."""


class PendingNames(Protocol):
    """What a rank has recorded and not shared, by name."""

    rank: int

    def pending_epochs(self) -> Collection[int]:
        """Epochs in which something is pending."""

    def pending_length(self) -> int:
        """1 + the highest epoch that this rank has opened, synced or not."""

    def pending_values(self, epoch: int) -> Collection[str]:
        """Names of pending epoch values."""

    def pending_batch_values(self, epoch: int) -> Collection[str]:
        """Names of pending batch values."""

    def pending_rows(self, epoch: int) -> int:
        """How many batches this rank has opened in that epoch, if some are pending; else 0."""

    def pending_attributes(self) -> Collection[str]:
        """Names of pending attributes."""


class Guard(Protocol):
    """Asked before each piece of a read; raises `NotSyncedError` to stop it."""

    def epoch_axis(self, index: int | slice, length: int) -> None:
        """An index or slice over `length` agreed epochs."""

    def values(self, epochs: Iterable[int], names: Iterable[str] | None) -> None:
        """Epoch values of those names."""

    def row_axis(self, epoch: int, index: int | slice, counts: dict[int, int]) -> None:
        """An index or slice over the agreed rows of an epoch."""

    def batch_values(self, epochs: Iterable[int], names: Iterable[str] | None) -> None:
        """Batch values of those names."""

    def attributes(self, names: Iterable[str] | None) -> None:
        """Attributes of those names."""


class NoGuard:
    """Lets everything through: for views that say themselves what they leave out."""

    def epoch_axis(self, index: int | slice, length: int) -> None: ...
    def values(self, epochs: Iterable[int], names: Iterable[str] | None) -> None: ...
    def row_axis(self, epoch: int, index: int | slice, counts: dict[int, int]) -> None: ...
    def batch_values(self, epochs: Iterable[int], names: Iterable[str] | None) -> None: ...
    def attributes(self, names: Iterable[str] | None) -> None: ...


class StrictGuard:
    """Stops a read that would answer without what this rank has pending."""

    def __init__(self, pending: PendingNames) -> None:
        self._pending = pending

    def epoch_axis(self, index: int | slice, length: int) -> None:
        longer = max(length, self._pending.pending_length())
        if longer == length:
            return
        if isinstance(index, slice):
            changed = range(*index.indices(length)) != range(*index.indices(longer))
        else:
            changed = _position(index, length) != _position(index, longer)
        if changed:
            self._stop(f"opened epoch {longer - 1}")

    def values(self, epochs: Iterable[int], names: Iterable[str] | None) -> None:
        self._names(epochs, names, self._pending.pending_values, "")

    def batch_values(self, epochs: Iterable[int], names: Iterable[str] | None) -> None:
        self._names(epochs, names, self._pending.pending_batch_values, "batch value ")

    def _names(
        self, epochs: Iterable[int], names: Iterable[str] | None, of: Any, what: str
    ) -> None:
        touched = self._pending.pending_epochs()
        if not touched:
            return
        asked = None if names is None else set(names)
        epochs = epochs if isinstance(epochs, range) else set(epochs)
        for epoch in touched:
            if epoch in epochs:
                for name in of(epoch):
                    if asked is None or name in asked:
                        self._stop(f"recorded {what}{name!r} in epoch {epoch}")

    def row_axis(self, epoch: int, index: int | slice, counts: dict[int, int]) -> None:
        opened = self._pending.pending_rows(epoch)
        if opened <= counts.get(self._pending.rank, 0):
            return
        now, later = RowAxis(counts), RowAxis({**counts, self._pending.rank: opened})
        if isinstance(index, slice):
            changed = now.select(index) != later.select(index)
        else:
            changed = _at(now, index) != _at(later, index)
        if changed:
            self._stop(f"opened batch {opened - 1} of epoch {epoch}")

    def attributes(self, names: Iterable[str] | None) -> None:
        pending = self._pending.pending_attributes()
        asked = None if names is None else set(names)
        for name in pending:
            if asked is None or name in asked:
                self._stop(f"recorded attribute {name!r}")

    def _stop(self, what: str) -> None:
        raise NotSyncedError(
            f"rank {self._pending.rank} has {what} since the last sync, and this read "
            "would miss it: call sync() first, or read h.synced[...] (what all ranks agree on, "
            "without it) or h.local[...] (this rank's own records, with it)"
        )


def _position(index: int, length: int) -> int | None:
    return index % length if -length <= index < length else None


def _at(axis: RowAxis, position: int) -> tuple[int, int] | None:
    try:
        return axis.at(position)
    except IndexError:
        return None
