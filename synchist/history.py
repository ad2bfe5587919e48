"""The history: recording, reading and syncing, put together."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from .arguments import group_of, job_of_launcher, seconds
from .decisions import BestFold
from .handover import log_from_bytes, log_to_bytes
from .model.log import Log
from .reading.guard import Guard, NoGuard, StrictGuard
from .reading.resolve import Rules
from .reading.source import AgreedSource, LocalSource, RankSource, Source
from .reading.views import Ranks, RecordedAttributes, View
from .reductions import Reduction, check_rule
from .saving import Saving
from .segment import decode_delta, encode_delta
from .stores import Store
from .unsynced import Unsynced

__all__ = ["History"]


class History(Saving):
    """A training history (epochs, batches, recorded values) that is the same on every rank.

    Recording and reading never communicate; `sync()` is the one place that talks (and what belongs
    to it: `agree`, `close`, entering `with h:`). After the n-th completed sync, `h[...]` and
    `h.digest()` are equal on every rank, to the bit. Use one history from one thread at a time.

    Args:
        store: any `Store`, a `torch.distributed` store as it is included. None: one process, where
            `sync()` has nothing to do.
        rank: this process's global rank, 0 <= rank < world_size.
        world_size: number of processes that share the history.
        timeout: seconds that `sync`, `agree` and entering `with h:` wait at most.
        name: tells histories on one store apart; the same on every rank.
        job: identity of the job, so that two jobs in one store refuse each other. Taken from the
            launcher (`SYNCHIST_JOB`, `TORCHELASTIC_RUN_ID`, `SLURM_JOB_ID`) when None.
        reduce: by name of an epoch value, how `h[...]` makes one value of those of several ranks:
            "mean", "sum", "min", "max", "count", "std", "first", "last", a callable, or "equal",
            which makes `sync()` raise on all ranks when they differ. The same on every rank.

    Raises:
        UsageError: arguments that make no sense together.

    Example:
        >>> h = History()
        >>> for epoch in range(2):
        ...     h.new_epoch(lr=0.1)
        ...     for loss in (2.0, 1.0):
        ...         h.new_batch(loss=loss, batch_size=32)
        ...     h.record("valid_loss", h.reduce("loss", weight="batch_size", epoch=epoch))
        ...     h.sync()
        >>> h[:, "valid_loss"], h.best("valid_loss").epoch
        ([1.5, 1.5], 0)
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        timeout: float = 1800.0,
        name: str = "",
        job: str | None = None,
        reduce: Mapping[str, Reduction] | None = None,
    ) -> None:
        self.rank, self.world_size = group_of(store, rank, world_size)
        super().__init__()
        for key, rule in (reduce or {}).items():
            check_rule(rule, what=f"reduce for {key!r}")
        self.timeout = seconds(timeout)
        self.name = name
        self._job = job if job is not None else job_of_launcher()
        self._rules = Rules(reduce or {})
        self._clears = 0
        self._start_alone()
        self._hold(Log())
        if store is not None:
            self._connect(store)

    def _hold(self, log: Log) -> None:
        self._log = log
        folds = self._folds = dict[tuple[Any, ...], BestFold]()

        def changed(epoch: int) -> None:
            for fold in folds.values():
                fold.truncate(epoch)

        # Not a method: with it, the log would hold the history, and its memory would wait for the
        # garbage collector.
        log.watch(changed)

    # -- reading -------------------------------------------------------------------------------

    def _source(self) -> Source:
        self._settle()
        return AgreedSource(self._log)

    def _guard(self) -> Guard:
        if self.world_size == 1 or not self._has_pending():
            return NoGuard()
        return StrictGuard(Unsynced(self, self._frozen_delta()))

    def _settle(self) -> None:
        """With one rank, what was recorded is agreed already."""
        if self.world_size == 1 and self._dirty():
            number = self._log.sequence.get(self.rank, 0) + 1
            self._log.apply(self.rank, self._take(None), number)

    def _fold(self, name: str, mode: str, min_delta: float) -> BestFold:
        key = (name, mode, min_delta)
        if key not in self._folds:
            self._folds[key] = BestFold(mode, min_delta, name=name)
        return self._folds[key]

    def _agreed_value(self, epoch: int, name: str) -> Any:
        return self._value(epoch, name)

    @property
    def synced(self) -> View:
        """What all ranks agree on, without the check for this rank's own pending records."""
        return View("h.synced", self._source, self._rules)

    @property
    def local(self) -> View:
        """This rank's own records, pending ones included. Fetches tensors from their device."""

        def source() -> Source:
            self._settle()
            self._flush()
            deltas = [d for d in (self._frozen_delta(), self._pending) if d is not None]
            return LocalSource(self._log, self.rank, deltas)

        return View("h.local", source, self._rules)

    def _rank_numbers(self) -> list[int]:
        self._settle()
        there = {rank for parts in self._log.epochs for rank in parts}
        return sorted(there.union(range(self.world_size)))

    def _rank_source(self, rank: int) -> Source:
        self._settle()
        return RankSource(self._log, rank)

    @property
    def ranks(self) -> Mapping[int, View]:
        """By rank, what that rank recorded, as far as it has been synced."""
        return Ranks(self._rank_numbers, self._rank_source, self._rules)

    @property
    def attributes(self) -> MutableMapping[str, Any]:
        """Run-level values by name; assigning records one. Synced like epoch values.

        Example:
            >>> h = History()
            >>> h.attributes["optimizer"] = "sgd"
            >>> h.attributes["optimizer"]
            'sgd'
        """
        return RecordedAttributes(self, self._record_attribute)

    def digest(self) -> str:
        """SHA-256 (hex) of everything that is agreed: keys, values, weights and attributes.

        Equal on all ranks after the same number of syncs, and equal for equal histories however
        they came about. Never communicates.
        """
        self._settle()
        return self._log.digest()

    def __eq__(self, other: object) -> bool:
        """Whether both histories agree on the same things: whether their digests are equal."""
        if not isinstance(other, History):
            return NotImplemented
        return self is other or self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]  # it is compared by contents, which change

    def __repr__(self) -> str:
        parts = [f"{len(self)} epochs"]
        if len(self):
            rows = sum(part.rows for part in self._log.epochs[-1].values())
            parts.append(f"{rows} batches in the last")
        if self.name:
            parts.insert(0, repr(self.name))
        if self.world_size > 1:
            parts.append(f"rank {self.rank} of {self.world_size}")
            if self._has_pending():
                parts.append("unsynced records")
            if self._session is None:
                parts.append(self._ended or "no store attached")
        return f"<History: {', '.join(parts)}>"

    # -- copying -------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the store, in plain values."""
        self._settle()
        self._flush()
        return {
            "rank": self.rank,
            "world_size": self.world_size,
            "timeout": self.timeout,
            "name": self.name,
            "job": self._job,
            "rules": self._rules.table,
            "clears": self._clears,
            "log": log_to_bytes(self._log),
            "pending": encode_delta(self._all_pending()),
            "place": self._place(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(  # type: ignore[misc]
            timeout=state["timeout"], name=state["name"], job=state["job"]
        )
        self._rules = Rules(state["rules"])
        self._clears = state["clears"]
        log = log_from_bytes(state["log"], "a pickled history")
        pending = decode_delta(state["pending"], "a pickled history")
        self._restore(state["rank"], state["world_size"], log, pending, state["place"])
