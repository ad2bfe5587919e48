"""Nets whose every rank sees the same history and takes the same decisions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, Self

from synchist import UsageError
from synchist_skorch.history import SkorchHistory
from synchist_skorch.padding import real_rows
from synchist_skorch.scoring import agreeing, itself

__all__ = ["SyncedHistoryMixin"]

_clones: Final = itertools.count(1)

if TYPE_CHECKING:
    from skorch import NeuralNet as _Net
else:
    _Net = object


class SyncedHistoryMixin(_Net):  # type: ignore[misc]  # skorch has no types
    """For a net whose `history` is a `SkorchHistory`: syncs it, and makes scores agree.

    Stands before the net's class, on either side of `skorch.hf.AccelerateMixin`. Without `history=`
    the net makes itself a `SkorchHistory()`.

    - Syncs where every rank passes, whatever its callbacks: where an epoch begins, where it ends
      (before any callback hears of it), in each `EpochScoring`, and at the end of training. A
      callback that only some ranks have disturbs nobody. Ranks that took different decisions all
      raise `DivergenceError`, instead of waiting for each other.
    - The score of an `EpochScoring`, `valid_acc` among them, is the mean over all ranks, weighted
      by their samples: exact for scores that are means over samples. Whether it is the best so far
      follows from it. So `EarlyStopping`, `Checkpoint`, `LRScheduler` and `load_best` do the same
      everywhere. Every rank has the same scoring callbacks, in the same order; a rank without data
      takes over the score of the others.
    - With accelerate, samples that it repeated to fill up batches are left out of scores.
    - An exception on one rank reaches the others within seconds.
    - A clone (`sklearn.base.clone`, cross-validation, grid search) has a history of its own on the
      same store; all ranks clone in the same order.
    - A history that is loaded (`load_params`) is loaded into the one that is there. Every rank
      loads the same.

    Example:
        >>> from skorch import NeuralNetClassifier
        >>> class Net(SyncedHistoryMixin, NeuralNetClassifier):
        ...     pass
    """

    history_: Any
    callbacks_: Any

    # -- the history ---------------------------------------------------------------------------

    @property
    def history(self) -> Any:
        """The history of the net."""
        return self.history_

    @history.setter
    def history(self, value: Any) -> None:
        held = self.history_
        plain = isinstance(value, list) and not isinstance(value, SkorchHistory)
        if plain and isinstance(held, SkorchHistory):
            held[:] = value
        else:
            self.history_ = value

    def initialize_history(self) -> Any:
        """Make a history where there is none, and clear it."""
        if self.history_ is None:
            self.history_ = SkorchHistory()
        if not isinstance(self.history_, SkorchHistory):
            raise UsageError(
                f"SyncedHistoryMixin needs history=SkorchHistory(...), got "
                f"{type(self.history_).__name__}"
            )
        accelerator = getattr(self, "accelerator", None)
        if accelerator is not None:
            self.history_._take_place(accelerator.process_index, accelerator.num_processes)
        return super().initialize_history()

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        if isinstance(self.history_, SkorchHistory):
            clone.history_ = self.history_._sibling(f"clone {next(_clones)}")
        return clone

    # -- where it syncs ------------------------------------------------------------------------

    def on_train_begin(self, net: Any, *args: Any, **kwargs: Any) -> None:
        """From here on, the net says when to sync."""
        self.history_._steered = True
        super().on_train_begin(net, *args, **kwargs)

    def on_epoch_begin(self, net: Any, *args: Any, **kwargs: Any) -> None:
        """Nobody has stopped: every rank begins this epoch."""
        self.history_._sync(f"the beginning of epoch {len(self.history_)}")
        super().on_epoch_begin(net, *args, **kwargs)

    def on_epoch_end(self, net: Any, *args: Any, **kwargs: Any) -> None:
        """All batches are there before any callback looks at them."""
        super().on_epoch_end(net, *args, **kwargs)
        self.history_._sync(f"the end of epoch {len(self.history_) - 1}")

    def on_train_end(self, net: Any, *args: Any, **kwargs: Any) -> None:
        """What callbacks recorded in the last epoch is there as well."""
        super().on_train_end(net, *args, **kwargs)
        self.history_._sync("the end of training", final=True)

    def on_batch_end(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        """Note how much of the batch is padding."""
        accelerator = getattr(self, "accelerator", None)
        if accelerator is not None:
            self._padding[training] = real_rows(accelerator)
        super().on_batch_end(net, batch=batch, training=training, **kwargs)

    @property
    def _padding(self) -> dict[bool, int | None]:
        """By phase, how many samples of the last batch were real, or None for all."""
        found: dict[bool, int | None] = self.__dict__.setdefault("_real_rows", {})
        return found

    def notify(self, method_name: str, **cb_kwargs: Any) -> None:
        """As in skorch; at the end of an epoch with scores that agree."""
        try:
            if method_name == "on_epoch_end" and self.history_.world_size > 1:
                self._notify_with_agreed_scores(**cb_kwargs)
            else:
                super().notify(method_name, **cb_kwargs)
        except Exception as error:
            self._give_up(error)
            raise

    def _notify_with_agreed_scores(self, **cb_kwargs: Any) -> None:
        self.callbacks_ = [
            (name, agreeing(callback, self._padding.get(getattr(callback, "on_train", False))))
            for name, callback in self.callbacks_
        ]
        try:
            super().notify("on_epoch_end", **cb_kwargs)
        finally:
            self.callbacks_ = [(name, itself(callback)) for name, callback in self.callbacks_]

    def fit_loop(self, *args: Any, **kwargs: Any) -> Any:
        """As in skorch; the other ranks hear of an exception."""
        try:
            return super().fit_loop(*args, **kwargs)
        except Exception as error:
            self._give_up(error)
            raise

    def _give_up(self, error: Exception) -> None:
        if isinstance(self.history_, SkorchHistory):
            self.history_.abort(error)
