"""What `history[-1]` gives in a run of several ranks: dicts whose writes reach the history.

They hold what they show, so that everything which knows dicts and lists (`json`, `==`, `sorted`)
works on them. Only writing is different: it goes to the history first, and what the history refuses
is not shown either. Pickled or copied they are plain dicts and lists.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, NoReturn, Protocol, Self

from synchist import UsageError

__all__ = ["BATCHES", "LOADED", "Epoch", "Row", "Rows", "Writer"]

BATCHES: Final = "batches"

LOADED: Final = -1
"""In place of a rank: rows that came from a file or a list."""


class Writer(Protocol):
    """Where writes go."""

    def record_batch(self, name: str, value: Any) -> None:
        """Record a value in the open batch."""

    def write(self, epoch: Epoch, name: str, value: Any) -> None:
        """Record a value in an epoch, which need not be the open one."""

    def erase(self, epoch: Epoch, name: str) -> None:
        """Take back what this rank recorded under that name."""


class _Written(dict[str, Any]):
    """A dict whose every way of writing is `_write` or `_erase`."""

    __slots__ = ()

    def _write(self, name: str, value: Any) -> None:
        raise NotImplementedError

    def _erase(self, name: str) -> None:
        raise NotImplementedError

    def __setitem__(self, name: str, value: Any) -> None:
        self._write(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._erase(name)

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc,override]
        self.update(other)
        return self

    def popitem(self) -> tuple[str, Any]:
        if not self:
            raise KeyError("popitem(): there is nothing left")
        name = next(reversed(self))
        return name, self.pop(name)

    clear = MutableMapping.clear
    pop = MutableMapping.pop
    setdefault = MutableMapping.setdefault
    update = MutableMapping.update

    def show(self, values: Mapping[str, Any]) -> None:
        """Hold these values too, without writing them to the history."""
        dict.update(self, values)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class Row(_Written):
    """A batch row. Only the open one of this rank can be written to.

    Attributes:
        writer: where writes go while it is open.
    """

    __slots__ = ("writer",)

    writer: weakref.ref[Any] | None

    def _write(self, name: str, value: Any) -> None:
        ref = getattr(self, "writer", None)
        writer: Writer | None = None if ref is None else ref()
        if writer is None:
            raise UsageError(
                f"cannot write {name!r} to this batch: it is closed, or another rank's; record "
                "while the batch is open, with record_batch()"
            )
        writer.record_batch(name, value)

    def _erase(self, name: str) -> None:
        raise UsageError(f"cannot delete {name!r} from a batch; record another value, such as None")


class Rows(list[Row]):
    """The rows of an epoch, of all ranks. Changed by `new_batch()` and by syncing only."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError("open a batch with history.new_batch(); rows cannot be moved or deleted")

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> Any:
        return list, (list(self),)


class Epoch(_Written):
    """One epoch, as this rank sees it.

    Attributes:
        number: index of the epoch in the history that is shared.
        own: names of the values that this rank recorded.
        agreed: names of the values that all ranks agreed on, with the value.
        rows: this rank's rows, those of others as far as they were synced, and loaded ones.
        odd: names of own values, and batches with own values, of which the object that was recorded
            is shown until the next sync, which shows what was recorded.
    """

    __slots__ = ("__weakref__", "_counts", "_writer", "agreed", "number", "odd", "own", "rows")

    def __init__(self, number: int, writer: weakref.ref[Any]) -> None:
        super().__init__({BATCHES: Rows()})
        self.number = number
        self.own: set[str] = set()
        self.agreed: dict[str, Any] = {}
        self.rows: dict[int, list[Row]] = {}
        self.odd: set[str | int] = set()
        self._counts: list[int] = []  # of the rows of each rank, when they were last put in order
        self._writer = writer

    def _write(self, name: str, value: Any) -> None:
        if name == BATCHES:
            raise UsageError(
                "the batches of an epoch cannot be replaced; open them with new_batch()"
            )
        self._writing().write(self, name, value)

    def _erase(self, name: str) -> None:
        if name == BATCHES:
            raise UsageError("the batches of an epoch cannot be deleted; delete the epoch")
        self._writing().erase(self, name)

    def _writing(self) -> Writer:
        writer: Writer | None = self._writer()
        if writer is None:
            raise UsageError("the history that this epoch belonged to is gone")
        return writer

    def rows_seen_by(self, rank: int) -> list[Row]:
        """The rows that count as that rank's own: those that were loaded, and those it opened."""
        return [*self.rows.get(LOADED, ()), *self.rows.get(rank, ())]

    def row_lists(self, rank: int) -> tuple[list[Row], list[Row]]:
        """Where a row that this rank opens has to be put: behind its own, and behind all others."""
        return self.rows.setdefault(rank, []), self[BATCHES]

    def arrange_rows(self) -> None:
        """Loaded rows first, then by batch and rank, as skorch's history has them."""
        loaded = self.rows.get(LOADED, [])
        of_ranks = [self.rows[rank] for rank in sorted(self.rows) if rank != LOADED]
        counts = [len(loaded), *map(len, of_ranks)]
        if counts == self._counts:
            return
        self._counts = counts
        longest = max(map(len, of_ranks), default=0)
        ordered = list(loaded)
        ordered += [
            rows[batch] for batch in range(longest) for rows in of_ranks if batch < len(rows)
        ]
        list.__setitem__(self[BATCHES], slice(None), ordered)

    def forget(self, name: str) -> None:
        """No longer show a value."""
        dict.pop(self, name, None)
        self.own.discard(name)
        self.odd.discard(name)
        self.agreed.pop(name, None)
