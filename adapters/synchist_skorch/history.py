"""A history for skorch that is the same on every process."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Final, Self

from skorch.history import History as PlainHistory

from synchist import History, Store, SynchistWarning
from synchist_skorch.entries import BATCHES
from synchist_skorch.json_file import read_json, write_json
from synchist_skorch.place import Place
from synchist_skorch.placed import Placed
from synchist_skorch.sharing import Shared

__all__ = ["SkorchHistory"]

_UNSET: Any = object()

# The net itself records these, after each of its passes over the data, whatever its callbacks.
_ENDS_OF_PASSES: Final = frozenset({"train_batch_count", "valid_batch_count"})


class SkorchHistory(Placed):
    """skorch's `History`, shared by several processes: `NeuralNet(..., history=SkorchHistory())`.

    In one process it is skorch's own. In a run of several ranks, every rank has its own records at
    once and those of the others after the next sync:

    - Slices and lists of batches have the rows of all ranks, in the order (batch, rank). An integer
      batch index, as in `history[-1, "batches", -1]`, counts this rank's own.
    - An epoch value is what `agree` returned, else this rank's own, else that of the lowest rank
      that recorded one.
    - Reading never communicates. Syncing happens where every rank passes. With
      `SyncedHistoryMixin` that is where each epoch begins and ends, in scores, and at the end of
      training. Without it, it is the end of each pass over the training and the validation data,
      so that `train_loss` and `valid_loss`, which skorch derives from batches, agree.
    - `del history[i]` deletes an epoch on every rank, with the next sync. `del history[i]["k"]`
      takes back what this rank recorded. Both are records like others.
    - Epochs that were loaded have no rank and keep their order. Every rank loads the same.
    - Values are stored exactly, or refused when they are recorded.

    Args:
        epochs: a list of epochs as skorch has them.
        store: any store, a `torch.distributed` store too. What is not given is found as
            `synchist_torch.distributed_history` finds it, when the history is first written to.
        rank: the global rank.
        world_size: the number of ranks.
        timeout: seconds that a sync waits at most.
        name: tells histories on one store apart; the same on every rank.
        job: identity of the job, as in `synchist.History`.

    Raises:
        UsageError: the arguments make no sense together.

    Example:
        >>> history = SkorchHistory()
        >>> history.new_epoch()
        >>> history.record("train_loss", 0.5)
        >>> history[-1]["note"] = "warm-up"
        >>> history[:, ("train_loss", "note")]
        [(0.5, 'warm-up')]
    """

    def __init__(
        self,
        epochs: Iterable[Any] = (),
        *,
        store: Store | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        timeout: float = 1800.0,
        name: str = "",
        job: str | None = None,
    ) -> None:
        super().__init__(epochs)
        self._place = Place(store, rank, world_size, timeout, name, job)
        self._shared: Shared | None = None
        self._joined = False
        self._steered = False  # whether a net says when to sync
        if store is not None:
            self._join()

    # -- writing, as skorch does it ------------------------------------------------------------

    def new_epoch(self) -> None:
        """Open the next epoch. Does not communicate."""
        shared = self._join()
        if shared is None:
            list.append(self, {BATCHES: []})
        else:
            shared.new_epoch(self)

    def new_batch(self) -> None:
        """Open the next batch of the open epoch. Does not communicate."""
        shared = self._shared or self._join()
        if shared is not None:
            shared.new_batch()
        else:
            PlainHistory.new_batch(self)

    def record(self, attr: str, value: Any) -> None:
        """Record a value of the epoch.

        Does not communicate, but for the number of batches, which a net without
        `SyncedHistoryMixin` records at the end of each pass over the data: there the ranks sync.

        Raises:
            UnsupportedTypeError: ranks cannot share the value exactly; nothing was recorded.
            ValueError: no epoch is open.
        """
        shared = self._join()
        if shared is None:
            PlainHistory.record(self, attr, value)
            return
        shared.record(self, attr, value)
        if attr in _ENDS_OF_PASSES and not self._steered:
            self._sync(f"the end of a pass ({attr})")

    def record_batch(self, attr: str, value: Any) -> None:
        """Record a value of the open batch. Does not communicate.

        Raises:
            UnsupportedTypeError: ranks cannot share the value exactly; nothing was recorded.
        """
        shared = self._shared or self._join()
        if shared is not None:
            shared.record_batch(attr, value)
        else:
            PlainHistory.record_batch(self, attr, value)

    # -- talking -------------------------------------------------------------------------------

    def sync(self, *, timeout: float | None = None) -> None:
        """Share what was recorded, and take over what the others recorded. Every rank calls it.

        Blocks until every rank has called it. In one process there is nothing to do.

        Args:
            timeout: seconds; by default that of the history.

        Raises:
            SynchistError: as `synchist.History.sync`.
        """
        self._sync(None, timeout=timeout)

    def _sync(
        self, point: str | None, *, timeout: float | None = None, final: bool = False
    ) -> None:
        """Sync at a named point of the training; ranks at another one all raise."""
        shared = self._talking()
        if shared is None:
            return
        shared.sync(self, point, timeout)
        for text in shared.check_scores(final=final):
            warnings.warn(text, SynchistWarning, stacklevel=3)

    def agree(
        self,
        name: str,
        value: Any = _UNSET,
        *,
        reduce: Any = None,
        weight: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """Record an epoch value, sync, and return what all ranks agree on.

        Every rank calls it, with the same name; blocks until they have. Without a value, this rank
        joins as having none. `history[-1, name]` is then the same on every rank.

        Args:
            name: name of the epoch value.
            value: this rank's value.
            reduce: how one value is made of those of the ranks, as in `synchist.History`.
            weight: how much this rank's value counts, such as its number of samples.
            timeout: seconds; by default that of the history.

        Raises:
            KeyError: no rank brought a value.
            SynchistError: as `synchist.History.agree`.

        Example:
            >>> history = SkorchHistory()
            >>> history.new_epoch()
            >>> history.agree("score", 0.5, reduce="mean", weight=100)
            0.5
        """
        shared = self._talking()
        bring = {} if value is _UNSET else {"value": value, "weight": weight}
        if reduce is not None:
            bring["reduce"] = reduce
        if shared is not None:
            return shared.agree(self, name, bring, timeout)
        alone = History()
        if len(self):
            alone.new_epoch()
        agreed = alone.agree(name, **bring)
        self.record(name, agreed)
        return agreed

    def per_rank(self, epoch: int, name: str) -> dict[int, Any]:
        """What each rank recorded under an epoch value's name, as far as it was synced.

        Raises:
            KeyError: no rank recorded it.
            IndexError: no such epoch.
        """
        if self._shared is not None:
            return self._shared.per_rank(self, epoch, name)
        return {0: self[epoch, name]}

    def digest(self) -> str:
        """SHA-256 (hex) of what all ranks agree on: equal on every rank after the same syncs."""
        if self._shared is not None:
            return self._shared.core.digest()
        alone = History()
        for entry in self:
            alone.new_epoch({name: value for name, value in entry.items() if name != BATCHES})
            for row in entry[BATCHES]:
                alone.new_batch(row)
        return alone.digest()

    # -- reading and files ---------------------------------------------------------------------

    def __getitem__(self, i: Any) -> Any:
        """As in skorch, but that an integer batch index counts this rank's own rows."""
        if isinstance(i, int):
            return list.__getitem__(self, i)
        if not isinstance(i, tuple) or not i or not isinstance(i[0], int | slice):
            return PlainHistory.__getitem__(self, i)
        # Only the epochs that are asked for: skorch's own looks at all of them.
        single = isinstance(i[0], int)
        epochs: Any = list.__getitem__(self, i[0])
        epochs = [epochs] if single else epochs
        if self._shared is not None and len(i) > 2 and isinstance(i[2], int) and i[1] == BATCHES:
            rank = self._shared.core.rank
            epochs = [{BATCHES: epoch.rows_seen_by(rank)} for epoch in epochs]
        return PlainHistory(epochs)[(0 if single else slice(None), *i[1:])]

    def to_list(self) -> list[dict[str, Any]]:
        """The epochs in a list."""
        return list(self)

    @classmethod
    def from_file(cls, f: Any) -> Self:
        """Load skorch's JSON.

        Args:
            f: a path, or an open text file, which is closed as skorch does it.
        """
        return cls(read_json(f))

    def to_file(self, f: Any) -> None:
        """Write what was synced and this rank's own records, as skorch's JSON. Never communicates.

        Args:
            f: a path, or an open text file.

        Raises:
            UnsupportedTypeError: JSON cannot hold a value, which is named; the file is as it was.
        """
        write_json(self, f)
