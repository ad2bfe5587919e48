"""Saving a history, to a file or into a checkpoint, and loading it: nothing here talks."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping
from typing import Any, Self

from .errors import SynchistWarning, UsageError
from .file import (
    SAVED,
    Contents,
    Header,
    Place,
    read_contents,
    read_file,
    write_contents,
    write_file,
)
from .model.delta import Delta
from .model.log import Log
from .reading.resolve import Rules
from .reductions import Reduction, check_rule
from .syncing import Syncing

__all__ = ["Saving"]

_STATE = "synchist"
"""The one key of a state dict."""


class Saving(Syncing):
    """What `History` adds to recording, reading and syncing: files."""

    _more: Mapping[str, Any] = {}
    """What else the header of the file that it was loaded from said; it is saved again."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, whole or not at all. Does not talk; any rank may call it.

        Saved are the agreed records of all ranks, with their weights, the attributes, the reduce
        table (of callables only what they are called), and this rank's pending records, marked as
        pending. What was at `path` is replaced only when the new file is complete and on the disk.
        Waits for tensors that are still on their device.

        Args:
            path: the file; by convention it ends in `.synchist`.

        Raises:
            OSError: the file cannot be written; what was there is still there.
            TooLargeError: the world size is larger than a file may have.

        Example:
            >>> import os, tempfile
            >>> from synchist import History
            >>> h = History()
            >>> h.new_epoch(lr=(0.1, 2**70))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = os.path.join(folder, "run.synchist")
            ...     h.save(path)
            ...     h == History.load(path)
            True
        """
        write_file(path, self._contents())

    def _contents(self) -> Contents:
        self._settle()
        self._flush()
        header = Header(
            kind=SAVED,
            rank=self.rank,
            world_size=self.world_size,
            name=self.name,
            clears=self._clears,
            lineage=self._log.lineage,
            reduce=self._rule_ids(),
            more=self._more,
        )
        return Contents(header, self._log, self._all_pending(), self._place())

    def state_dict(self) -> dict[str, bytes]:
        """Everything, for a checkpoint. Does not talk.

        It is what `save` writes, as one value of type bytes: `torch.save` takes it, and
        `torch.load(..., weights_only=True)` gives it back. Waits for tensors that are still on
        their device.

        Example:
            >>> from synchist import History
            >>> h, other = History(), History()
            >>> h.new_epoch(lr=0.1)
            >>> other.load_state_dict(h.state_dict())
            >>> other == h
            True
        """
        file = io.BytesIO()
        write_contents(file, self._contents())
        return {_STATE: file.getvalue()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Hold what another history held, instead of what is here. Does not talk.

        This history keeps its rank, world size, store, name, job and timeout; the next sync, or
        `with h:`, meets afresh. Load before the ranks meet, or on every rank. Where only rank 0
        loads, the others, if they hold nothing, receive the history when they meet. A rank that
        loads what another one saved drops that rank's pending records, with a warning.

        Args:
            state_dict: what `state_dict` gave.

        Raises:
            CorruptDataError: it is damaged, or of a later major version; nothing was changed.
            UsageError: it is no state of a history; nothing was changed.
        """
        data = state_dict.get(_STATE) if isinstance(state_dict, Mapping) else None
        if not isinstance(data, bytes):
            raise UsageError(
                f"load_state_dict: expected what History.state_dict() gave, a mapping with bytes "
                f"under {_STATE!r}; got {state_dict!r:.80}"
            )
        contents = read_contents(io.BytesIO(data), "the state of a history")
        rank, world_size, header = self.rank, self.world_size, contents.header
        place = contents.place or (len(contents.log.epochs), -1, -1, False)
        self._restore(header.rank, header.world_size, contents.log, contents.pending, place)
        self._clears, self._more = header.clears, header.more
        self._rules.table.update(
            {n: r for n, r in header.reduce.items() if n not in self._rules.table and ":" not in r}
        )
        if self._store is not None:
            self.attach(store=self._store, rank=rank, world_size=world_size)
            return
        if rank != self.rank:
            self._leave_records(rank)
        self.rank, self.world_size = rank, world_size
        self._intake.shared = self._copied = world_size > 1

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        timeout: float = 1800.0,
        name: str | None = None,
        job: str | None = None,
        reduce: Mapping[str, Reduction] | None = None,
    ) -> Self:
        """The history that `save` wrote to a file. Does not talk, and runs nothing in the file.

        It has the rank and the world size that it was saved with, and no store: with several
        ranks, `attach` brings one. With one rank it goes on recording where it was.

        Args:
            path: the file.
            timeout: as in `History`.
            name: by default that of the file.
            job: as in `History`.
            reduce: rules that are added to those in the file, or take their place. Callables have
                to be given anew.

        Raises:
            CorruptDataError: the file is damaged, no file of synchist, or of a later major version
                of the format; the error has the file and the byte.
            OSError: the file cannot be read.
            UsageError: an option makes no sense.
        """
        for key, rule in (reduce or {}).items():
            check_rule(rule, what=f"reduce for {key!r}")
        contents = read_file(path)
        header = contents.header
        name = header.name if name is None else name
        h = cls(timeout=timeout, name=name, job=job)  # type: ignore[call-arg]  # History's
        place = contents.place or (len(contents.log.epochs), -1, -1, False)
        h._restore(header.rank, header.world_size, contents.log, contents.pending, place)
        h._clears = header.clears
        h._rules = Rules({**header.reduce, **(reduce or {})})
        h._more = header.more
        if contents.dropped:
            warnings.warn(
                f"{os.fsdecode(path)}: dropped the last {contents.dropped} bytes, from byte "
                f"{contents.end}: they were being written when the run ended, and are not whole",
                SynchistWarning,
                stacklevel=2,
            )
        return h

    def _restore(self, rank: int, world_size: int, log: Log, pending: Delta, place: Place) -> None:
        """Be the copy of a history: all that it holds, and where it stands, but no store."""
        self._forget_session()
        self.rank, self.world_size = rank, world_size
        self._hold(log)
        self._restore_records(pending, place)
        self._intake.shared = world_size > 1
        self._copied = True

    def _place(self) -> Place:
        return (self._next_epoch, self._epoch, self._batch, self._row is not None)

    def _all_pending(self) -> Delta:
        """What is not synced, the records of a round that is not complete included.

        Everything recorded must be in columns; the delta shares its pieces with this history.
        """
        frozen = self._frozen_delta()
        if not frozen:
            return self._pending
        pending = Delta(
            {epoch: part.copy() for epoch, part in frozen.parts.items()}, dict(frozen.attributes)
        )
        pending.update(self._pending)
        return pending
