"""A history's place among the ranks: how it takes it, and how it leaves."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Self

from synchist import Store, SynchistWarning, UsageError
from synchist_skorch.as_list import AsList
from synchist_skorch.entries import BATCHES
from synchist_skorch.place import Place
from synchist_skorch.sharing import Shared

__all__ = ["Placed"]


class Placed(AsList):
    """Takes its place when it is first written to, or when it was given a store."""

    def _join(self) -> Shared | None:
        """The half that is shared, or None in one process; takes its place when first needed."""
        if not self._joined:
            core = self._place.history()
            self._joined = True
            if core is not None:
                self._shared = Shared(core)
                if len(self):
                    self._shared.load(self, list(self))
        return self._shared

    def _talking(self) -> Shared | None:
        """The same, about to talk to the others: a copy looks where it is now."""
        shared = self._join()
        if shared is not None and shared.adrift:
            self._rejoin(shared)
        return self._shared

    def _rejoin(self, shared: Shared) -> None:
        """A copy takes its place: over the same store, or where this process finds itself."""
        found = self._place.find()
        if found.store is not None and found.world_size > 1:
            shared.attach(self, found.store, found.rank, found.world_size)
            return
        warnings.warn(
            f"a copy of a history of {shared.core.world_size} ranks goes on in one process: there "
            "is no process group here; attach() it to a store to go on with others",
            SynchistWarning,
            stacklevel=4,
        )
        epochs = [{**epoch, BATCHES: list(map(dict, epoch[BATCHES]))} for epoch in self]
        self._shared = None
        self[:] = epochs

    def _take_place(self, rank: int, world_size: int) -> None:
        """Be told where this process stands.

        Raises:
            UsageError: the history stands elsewhere already.
        """
        shared = self._shared
        if self._joined and (shared is None or not shared.adrift):
            place = (self.rank, self.world_size)
        else:
            given = self._place
            given.rank = rank if given.rank is None else given.rank
            given.world_size = world_size if given.world_size is None else given.world_size
            place = (given.rank, given.world_size)
        if place != (rank, world_size):
            raise UsageError(
                f"the history was made for rank {place[0]} of {place[1]}, but the accelerator says "
                f"that this is process {rank} of {world_size}: give the global rank "
                "(accelerator.process_index, not local_process_index), or none at all"
            )

    def _sibling(self, name: str) -> Self:
        """An empty history of another name, in the same place."""
        sibling = type(self)()
        sibling._place = self._place.other(name)
        return sibling

    @property
    def rank(self) -> int:
        """This process's global rank."""
        shared = self._join()
        return 0 if shared is None else shared.core.rank

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        shared = self._join()
        return 1 if shared is None else shared.core.world_size

    def attach(self, *, store: Store, rank: int, world_size: int) -> None:
        """Go on over this store, as after unpickling in another process. Does not talk.

        Args:
            store: any store.
            rank: the global rank.
            world_size: the number of ranks, more than one.
        """
        name, timeout, job = self._place.name, self._place.timeout, self._place.job
        self._place = Place(store, rank, world_size, timeout, name, job)
        if self._shared is None:
            self._joined = False
            self._join()
        else:
            self._shared.attach(self, store, rank, world_size)

    def close(self) -> None:
        """Leave the other ranks in good order, as `synchist.History.close`. Does not sync."""
        if self._shared is not None and not self._shared.adrift:
            self._shared.core.close()

    def abort(self, reason: str | BaseException) -> None:
        """Tell the other ranks that this one gives up; they raise within seconds."""
        if self._shared is not None and not self._shared.adrift:
            self._shared.core.abort(reason)

    def __enter__(self) -> Self:
        """Meet the other ranks. Blocks."""
        shared = self._talking()
        if shared is not None:
            shared.core.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Leave with `close()`, or on an exception with `abort(the exception)`."""
        if error is None:
            self.close()
        else:
            self.abort(error)
