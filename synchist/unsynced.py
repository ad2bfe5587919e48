"""What a recorder holds that is not synced, by name, for strict reading."""

from __future__ import annotations

from collections.abc import Collection

from .model.delta import Delta
from .model.draft import Draft
from .recording import Recorder

__all__ = ["Unsynced"]


class Unsynced:
    """Looks at a recorder without changing it or fetching anything from a device."""

    def __init__(self, recorder: Recorder, frozen: Delta | None) -> None:
        """`frozen` is what was taken for a round that is not complete."""
        self.rank = recorder.rank
        self._recorder = recorder
        self._deltas = [d for d in (frozen, recorder._pending) if d]
        drafts = (*recorder._closed, recorder._draft)
        self._drafts = [draft for draft in drafts if recorder._news(draft)]

    def pending_epochs(self) -> Collection[int]:
        epochs = {epoch for delta in self._deltas for epoch in delta.parts}
        epochs.update(draft.epoch for draft in self._drafts)
        return epochs

    def pending_length(self) -> int:
        return self._recorder._next_epoch

    def pending_values(self, epoch: int) -> Collection[str]:
        names: dict[str, None] = {}
        for delta in self._deltas:
            if epoch in delta.parts:
                names.update(dict.fromkeys(delta.parts[epoch].cells))
        for draft in self._of(epoch):
            names.update(dict.fromkeys(draft.cells))
        return names

    def pending_batch_values(self, epoch: int) -> Collection[str]:
        names: dict[str, None] = {}
        for delta in self._deltas:
            if epoch in delta.parts:
                names.update(dict.fromkeys(delta.parts[epoch].columns))
        for draft in self._of(epoch):
            for row in draft.rows:
                names.update(dict.fromkeys(row))
        return names

    def pending_rows(self, epoch: int) -> int:
        rows = [delta.parts[epoch].rows for delta in self._deltas if epoch in delta.parts]
        rows += [draft.first + len(draft.rows) for draft in self._of(epoch)]
        return max(rows, default=0)

    def pending_attributes(self) -> Collection[str]:
        names = dict.fromkeys(self._recorder._attributes)
        for delta in self._deltas:
            names.update(dict.fromkeys(delta.attributes))
        return names

    def _of(self, epoch: int) -> list[Draft]:
        return [draft for draft in self._drafts if draft.epoch == epoch]
