"""The log: everything that has been synced, the same on every rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..errors import CorruptDataError
from .delta import Delta
from .digest import digest_attributes, digest_epoch, digest_history
from .part import Cell, Part

__all__ = ["Log"]


class Log:
    """A union of deltas, by (epoch, rank). Not thread-safe.

    Attributes:
        epochs: for every epoch, the parts by rank.
        attributes: run-level values by rank.
        sequence: for every rank, the number of the last delta taken over from it.
        lineage: raised on all ranks together when the history is cleared or cut.
    """

    def __init__(self, lineage: int = 0) -> None:
        self.epochs: list[dict[int, Part]] = []
        self.attributes: dict[int, dict[str, Cell]] = {}
        self.sequence: dict[int, int] = {}
        self.lineage = lineage
        self._digests: list[bytes] = []
        self._watchers: list[Callable[[int], None]] = []

    def __bool__(self) -> bool:
        return bool(self.epochs or self.attributes)

    def watch(self, changed: Callable[[int], None]) -> None:
        """Call `changed(epoch)` whenever that epoch, and possibly later ones, changed."""
        self._watchers.append(changed)

    def check(self, rank: int, delta: Delta, length: int) -> int:
        """How many epochs there will be when `delta` is taken over by a log of `length` epochs.

        Raises:
            CorruptDataError: the delta would leave out an epoch.
        """
        for epoch in sorted(delta.parts):
            if epoch > length:
                raise CorruptDataError(
                    f"rank {rank} sent values for epoch {epoch}, but only {length} epochs exist"
                )
            length = max(length, epoch + 1)
        return length

    def apply(self, rank: int, delta: Delta, sequence: int) -> None:
        """Take over what one rank recorded. May keep pieces of `delta`."""
        self.check(rank, delta, len(self.epochs))
        for epoch in sorted(delta.parts):
            if epoch == len(self.epochs):
                self.epochs.append({})
            parts = self.epochs[epoch]
            mine = parts.get(rank)
            if mine is None:
                parts[rank] = delta.parts[epoch]
                if len(parts) > 1:  # ranks ascend wherever they are iterated
                    self.epochs[epoch] = dict(sorted(parts.items()))
            else:
                mine.update(delta.parts[epoch])
        if delta.attributes:
            self.attributes.setdefault(rank, {}).update(delta.attributes)
            self.attributes = dict(sorted(self.attributes.items()))
        self.sequence[rank] = max(sequence, self.sequence.get(rank, 0))
        if delta.parts:
            first = min(delta.parts)
            del self._digests[first:]
            for changed in self._watchers:
                changed(first)

    def union(self, items: Iterable[tuple[int, Delta, int]]) -> None:
        """Take over (rank, delta, sequence) of several ranks, whose epochs fill each other's gaps.

        Raises:
            CorruptDataError: together they leave out an epoch.
        """
        items = list(items)
        epochs = {epoch for _, delta, _ in items for epoch in delta.parts}
        epochs.update(range(len(self.epochs)))
        if epochs and max(epochs) + 1 != len(epochs):
            raise CorruptDataError(
                f"there are values for epoch {max(epochs)}, but only {len(epochs)} epochs exist"
            )
        self.epochs += [{} for _ in range(len(epochs) - len(self.epochs))]
        for rank, delta, sequence in items:
            self.apply(rank, delta, sequence)

    def deltas(self) -> dict[int, Delta]:
        """The whole log as one delta a rank; applied to an empty log they give the same history.

        The deltas share their pieces with this log: encode them, do not change them.
        """
        found: dict[int, Delta] = {rank: Delta() for rank in self.sequence}
        for epoch, parts in enumerate(self.epochs):
            for rank, part in parts.items():
                found.setdefault(rank, Delta()).parts[epoch] = part
        for rank, cells in self.attributes.items():
            found.setdefault(rank, Delta()).attributes = cells
        return dict(sorted(found.items()))

    def digest(self) -> str:
        """SHA-256 (hex) of keys, values, weights and attributes, and of nothing else."""
        for parts in self.epochs[len(self._digests) :]:
            self._digests.append(digest_epoch(parts))
        return digest_history(self._digests, digest_attributes(self.attributes))

    def rank_epochs(self, rank: int) -> int:
        """1 + the last epoch in which that rank has a part."""
        for epoch in range(len(self.epochs) - 1, -1, -1):
            if rank in self.epochs[epoch]:
                return epoch + 1
        return 0
