"""What can be read: all that was agreed, one rank of it, or this rank with what is pending."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ..model.delta import Delta
from ..model.log import Log
from ..model.part import Cell, Overlay, PartView

__all__ = ["AgreedSource", "LocalSource", "RankSource", "Source"]


class Source(Protocol):
    """A history as reading sees it: epochs of parts by rank."""

    @property
    def reduces(self) -> bool:
        """Whether epoch values of several ranks have to be made one."""

    def __len__(self) -> int:
        """Number of epochs."""

    def parts(self, epoch: int) -> Mapping[int, PartView]:
        """The parts of one epoch, ranks ascending."""

    def attributes(self) -> Mapping[int, Mapping[str, Cell]]:
        """Run-level values by rank, ranks ascending."""


class AgreedSource:
    """Everything that has been synced, of all ranks."""

    reduces = True

    def __init__(self, log: Log) -> None:
        self._log = log

    def __len__(self) -> int:
        return len(self._log.epochs)

    def parts(self, epoch: int) -> Mapping[int, PartView]:
        return self._log.epochs[epoch]

    def attributes(self) -> Mapping[int, Mapping[str, Cell]]:
        return self._log.attributes


class RankSource:
    """What one rank recorded, as far as it has been synced."""

    reduces = False

    def __init__(self, log: Log, rank: int) -> None:
        self._log = log
        self._rank = rank

    def __len__(self) -> int:
        return self._log.rank_epochs(self._rank)

    def parts(self, epoch: int) -> Mapping[int, PartView]:
        part = self._log.epochs[epoch].get(self._rank)
        return {} if part is None else {self._rank: part}

    def attributes(self) -> Mapping[int, Mapping[str, Cell]]:
        cells = self._log.attributes.get(self._rank)
        return {} if cells is None else {self._rank: cells}


class LocalSource:
    """What this rank recorded: the synced part and, over it, what is pending (oldest first)."""

    reduces = False

    def __init__(self, log: Log, rank: int, pending: Iterable[Delta]) -> None:
        self._log = log
        self._rank = rank
        self._pending: Sequence[Delta] = [delta for delta in pending if delta]

    def __len__(self) -> int:
        pending = (epoch + 1 for delta in self._pending for epoch in delta.parts)
        return max(self._log.rank_epochs(self._rank), *pending, 0, 0)

    def parts(self, epoch: int) -> Mapping[int, PartView]:
        layers: list[PartView] = []
        if epoch < len(self._log.epochs) and self._rank in self._log.epochs[epoch]:
            layers.append(self._log.epochs[epoch][self._rank])
        layers += [delta.parts[epoch] for delta in self._pending if epoch in delta.parts]
        if not layers:
            return {}
        return {self._rank: layers[0] if len(layers) == 1 else Overlay(layers)}

    def attributes(self) -> Mapping[int, Mapping[str, Cell]]:
        cells = dict(self._log.attributes.get(self._rank, {}))
        for delta in self._pending:
            cells.update(delta.attributes)
        return {self._rank: cells} if cells else {}
