"""The read half of a history and of its views. Nothing here communicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..decisions import Best, BestFold
from ..errors import UsageError
from ..missing import MISSING
from ..model.part import Cell
from ..reductions import Reduction, check_rule, reduce_values
from .guard import ALL, EVERY_EPOCH, Guard, NoGuard
from .indexing import read_epoch, read_index
from .resolve import Rules, resolve_cells
from .source import Source

__all__ = ["Attributes", "Reader"]


class Reader:
    """Reading, the same for `h`, `h.synced`, `h.local` and `h.ranks[r]`."""

    _rules: Rules

    def _source(self) -> Source:
        raise NotImplementedError

    def _guard(self) -> Guard:
        return _NO_GUARD

    def _fold(self, name: str, mode: str, min_delta: float) -> BestFold:
        """A fold over the epochs, which may remember those of an earlier call."""
        return BestFold(mode, min_delta, name=name)

    def _value(self, epoch: int, name: str) -> Any:
        return self._resolve(self._source(), epoch, name, decide=False)

    def _resolve(self, source: Source, epoch: int, name: str, *, decide: bool) -> Any:
        cells: dict[int, Cell] = {}
        for rank, part in source.parts(epoch).items():
            cell = part.cell(name)
            if cell is not None:
                if not source.reduces:
                    return cell.value()
                cells[rank] = cell
        return resolve_cells(cells, name, f"epoch {epoch}", self._rules, decide=decide)

    def __getitem__(self, index: Any) -> Any:
        """Read by the four indices of skorch, `[epochs, key, batches, key]`. Never communicates.

        Batch rows come in the order (batch, rank). `h[...]` of a run of several ranks raises
        `NotSyncedError` where records of this rank that are not synced yet would change the answer;
        the views `h.synced`, `h.local` and `h.ranks[r]` never do.

        Raises:
            KeyError: nothing that was selected has the key.
            IndexError: no such epoch or batch.
            TypeError: an index of a type that means nothing here.
            NotSyncedError: this rank's own pending records would change the answer.

        Example:
            >>> from synchist import History
            >>> h = History()
            >>> h.new_epoch(lr=0.1)
            >>> h.new_batch(loss=2.0)
            >>> h.new_batch(loss=1.0)
            >>> h[-1, "lr"], h[-1, "batches", :, "loss"], h[-1, "batches", 0]
            (0.1, [2.0, 1.0], {'loss': 2.0})
        """
        source = self._source()

        def value(epoch: int, name: str) -> Any:
            return self._resolve(source, epoch, name, decide=False)

        return read_index(source, self._guard(), value, index)

    def __len__(self) -> int:
        """Number of epochs. Answers for what is synced, whatever is pending."""
        return len(self._source())

    def __bool__(self) -> bool:
        """Whether there is an epoch."""
        return len(self._source()) > 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The epochs as dicts, each with its batch rows under "batches"."""
        source = self._source()
        for epoch in range(len(source)):
            yield read_epoch(source, self._value, epoch)

    def to_list(self) -> list[dict[str, Any]]:
        """A list of epochs as dicts, each with its batch rows under "batches", as skorch has it.

        Raises:
            NotSyncedError: this rank has pending records.
        """
        epochs: list[dict[str, Any]] = self[:]
        return epochs

    def names(self, epoch: int = -1) -> list[str]:
        """Names of the values of an epoch, its batch values not included. Never communicates.

        Raises:
            IndexError: no such epoch.
            NotSyncedError: this rank's own pending records would change the answer.

        Example:
            >>> from synchist import History
            >>> h = History()
            >>> h.new_epoch(lr=0.1)
            >>> h.names()
            ['lr']
        """
        source, guard = self._source(), self._guard()
        (number,) = _epochs(source, guard, epoch)
        guard.values([number], ALL)
        return list(
            dict.fromkeys(n for part in source.parts(number).values() for n in part.names())
        )

    def per_rank(self, epoch: int, name: str) -> dict[int, Any]:
        """What each rank recorded under an epoch value's name: `{rank: value}`, ranks ascending.

        Ranks that recorded nothing are left out. Never communicates.

        Raises:
            KeyError: no rank recorded it.
            IndexError: no such epoch.
            NotSyncedError: this rank's own pending records would change the answer.
        """
        source, guard = self._source(), self._guard()
        (number,) = _epochs(source, guard, epoch)
        guard.values([number], [name])
        found = {
            rank: cell.value()
            for rank, part in source.parts(number).items()
            if (cell := part.cell(name)) is not None
        }
        if not found:
            raise KeyError(f"{name!r} was not recorded in epoch {number}")
        return found

    def reduce(
        self,
        name: str,
        how: Reduction = "mean",
        *,
        weight: str | None = None,
        epoch: int | slice = -1,
    ) -> Any:
        """Reduce a batch value over all rows of all ranks. Local and exact, never communicates.

        Sums are `math.fsum`, so the order of ranks cannot change a bit. The weighted mean is
        `fsum(value * weight) / fsum(weight)`. NaN counts: it makes a mean NaN.

        Args:
            name: a batch value.
            how: "mean", "sum", "min", "max", "count", "std" (divides by n), "first", "last", or a
                callable that takes the list of values (and the list of weights, if any).
            weight: a batch value to weigh by, such as "batch_size". Rows without `name` do not
                count.
            epoch: an epoch, or a slice of epochs.

        Raises:
            KeyError: no row has that name.
            UsageError: a row has the name but no weight, or a value is no number.
            NotSyncedError: this rank's own pending records would change the answer.

        Example:
            >>> from synchist import History
            >>> h = History()
            >>> h.new_epoch()
            >>> h.new_batch(loss=1.0, batch_size=30)
            >>> h.new_batch(loss=4.0, batch_size=10)
            >>> h.reduce("loss", "mean", weight="batch_size")
            1.75
        """
        check_rule(how, what=f"reduce({name!r}, {how!r})")
        source, guard = self._source(), self._guard()
        epochs = _epochs(source, guard, epoch)
        names = [name] if weight is None else [name, weight]
        guard.batch_values(epochs, names)
        values: list[Any] = []
        weights: list[Any] = []
        for number in epochs:
            parts = source.parts(number)
            guard.row_axis(number, slice(None), {rank: part.rows for rank, part in parts.items()})
            rows = []
            for rank, part in parts.items():
                column = part.column(name)
                if column is None:
                    continue
                weighed = None if weight is None else _weights(part.column(weight))
                for batch, value in zip(*column, strict=True):
                    if weighed is not None and batch not in weighed:
                        raise UsageError(
                            f"rank {rank} recorded {name!r} without {weight!r} in batch {batch} of "
                            f"epoch {number}: record both in every row"
                        )
                    rows.append((batch, rank, value, weighed and weighed[batch]))
            rows.sort(key=lambda row: row[:2])
            values += [row[2] for row in rows]
            weights += [row[3] for row in rows]
        if not values:
            raise KeyError(f"{name!r} was not recorded in the batches of the chosen epochs")
        return reduce_values(
            values, how, weights if weight is not None else None, where=f"batch value {name!r}"
        )

    def best(self, name: str, mode: str = "min") -> Best:
        """The best epoch value so far and its epoch, the same on every rank. Never communicates.

        NaN is never best; of equal values the first is.

        Raises:
            KeyError: the name was never recorded.
            DivergenceError: ranks recorded different values and no `reduce` rule says which counts.
            UsageError: all values are NaN, or `mode` is neither "min" nor "max".
            NotSyncedError: this rank's own pending records would change the answer.

        Example:
            >>> from synchist import History
            >>> h = History()
            >>> for value in (0.5, 0.3, 0.4): h.new_epoch(valid_loss=value)
            >>> h.best("valid_loss", mode="min")
            Best(epoch=1, value=0.3)
        """
        fold = self._folded(name, mode, 0.0)
        if fold.best is not None:
            return fold.best
        if fold.seen:
            raise UsageError(f"every value of {name!r} is NaN, so none of them is the best")
        raise KeyError(f"{name!r} was never recorded as an epoch value")

    def epochs_since_best(self, name: str, mode: str = "min", min_delta: float = 0.0) -> int:
        """How many later epochs hold a value that did not improve. Never communicates.

        0 before the first value. An improvement has to exceed `min_delta`.

        Raises:
            DivergenceError: ranks recorded different values and no `reduce` rule says which counts.
            UsageError: `mode` is neither "min" nor "max", or `min_delta` is negative.
            NotSyncedError: this rank's own pending records would change the answer.
        """
        return self._folded(name, mode, min_delta).since_best

    def _folded(self, name: str, mode: str, min_delta: float) -> BestFold:
        source = self._source()
        self._guard().values(EVERY_EPOCH, [name])
        fold = self._fold(name, mode, min_delta)
        for epoch in range(len(fold), len(source)):
            fold.extend([self._resolve(source, epoch, name, decide=True)])
        return fold

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Run-level values by name. Read-only in views; on `h`, assign to record."""
        return Attributes(self)

    def _attribute(self, name: str) -> Any:
        source = self._source()
        cells = {r: c[name] for r, c in source.attributes().items() if name in c}
        if cells and not source.reduces:
            return next(iter(cells.values())).value()
        return resolve_cells(cells, name, "the attributes", self._rules, decide=False)


class Attributes(Mapping[str, Any]):
    """Run-level values as a mapping."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __getitem__(self, name: str) -> Any:
        self._reader._guard().attributes([name])
        value = self._reader._attribute(name)
        if value is MISSING:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        self._reader._guard().attributes(ALL)
        cells = self._reader._source().attributes()
        return iter(dict.fromkeys(name for values in cells.values() for name in values))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        cells = self._reader._source().attributes()
        names = dict.fromkeys(name for values in cells.values() for name in values)
        return repr({name: self._reader._attribute(name) for name in names})


_NO_GUARD = NoGuard()


def _epochs(source: Source, guard: Guard, index: int | slice) -> list[int]:
    length = len(source)
    guard.epoch_axis(index, length)
    if isinstance(index, slice):
        return list(range(*index.indices(length)))
    if not -length <= index < length:
        raise IndexError(f"epoch {index} of {length}")
    return [index % length]


def _weights(column: Any) -> dict[int, Any]:
    return {} if column is None else dict(zip(*column, strict=True))
