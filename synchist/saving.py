"""Saving a history to a file and loading it: neither talks to other ranks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, Self

from .errors import SynchistWarning
from .file import SAVED, Contents, Header, Place, read_file, write_file
from .model.delta import Delta
from .model.log import Log
from .reading.resolve import Rules
from .reductions import Reduction, check_rule, rule_id
from .syncing import Syncing

__all__ = ["Saving"]


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
        self._settle()
        self._flush()
        header = Header(
            kind=SAVED,
            rank=self.rank,
            world_size=self.world_size,
            name=self.name,
            clears=self._clears,
            lineage=self._log.lineage,
            reduce={name: rule_id(rule) for name, rule in self._rules.table.items()},
            more=self._more,
        )
        write_file(path, Contents(header, self._log, self._all_pending(), self._place()))

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
