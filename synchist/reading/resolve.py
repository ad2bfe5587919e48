"""Making one epoch value of what several ranks recorded under one name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from ..codec import decode
from ..errors import DivergenceError, SynchistWarning, UsageError
from ..missing import MISSING
from ..model.part import Cell
from ..reductions import Reduction, reduce_values

__all__ = ["Rules", "resolve_cells"]

_OF_ONE_VALUE: Final = frozenset({"mean", "min", "max", "first", "last"})


class Rules:
    """The reduce table of a history. Not thread-safe.

    Attributes:
        table: reduction by name.
        given: the table at the beginning; `agree` adds rules to the other one.
    """

    def __init__(self, table: Mapping[str, Reduction]) -> None:
        self.table: dict[str, Reduction] = dict(table)
        self.given: Mapping[str, Reduction] = dict(table)
        self._warned: set[str] = set()

    def warn_once(self, name: str, text: str) -> None:
        """Warn, but only once for each name."""
        if name not in self._warned:
            self._warned.add(name)
            warnings.warn(text, SynchistWarning, stacklevel=_level_of_the_reader())


def _level_of_the_reader() -> int:
    """`stacklevel` for a warning of our caller that is about the code outside this package."""
    package = __name__.removesuffix("reading.resolve")
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(package):
        level, frame = level + 1, frame.f_back
    return level


def resolve_cells(
    cells: Mapping[int, Cell], name: str, where: str, rules: Rules, *, decide: bool
) -> Any:
    """The value of `name`, or MISSING when no rank recorded one.

    Args:
        cells: what each rank recorded, ranks ascending.
        name: the name.
        where: names the place in messages, such as "epoch 3".
        rules: the reduce table.
        decide: a decision hangs on the value, so ranks must not differ without a rule.

    Raises:
        DivergenceError: ranks differ, there is no rule, and `decide` is set.
        UsageError: some of the values have a weight and some have none.
    """
    if not cells:
        return MISSING
    rule = rules.table.get(name)
    first = next(iter(cells.values()))
    if rule is None or rule == "equal":
        if len(cells) > 1 and any(cell.data != first.data for cell in cells.values()):
            _differ(cells, name, where, rules, decide)
        return first.value()
    if isinstance(rule, str) and ":" in rule:
        raise UsageError(
            f"{name!r} in {where} is reduced by {rule}, a function that this process was not "
            f"given: pass reduce={{{name!r}: ...}} to History.load or History, or read "
            f"h.per_rank(..., {name!r})"
        )
    if len(cells) == 1 and rule in _OF_ONE_VALUE:
        return first.value()
    weights = None
    if any(cell.weight is not None for cell in cells.values()):
        for rank, cell in cells.items():
            if cell.weight is None:
                raise UsageError(
                    f"{name!r} in {where}: rank {rank} recorded it without a weight, others with "
                    "one; give weight= on every rank"
                )
        weights = [decode(cell.weight) for cell in cells.values() if cell.weight is not None]
    values = [cell.value() for cell in cells.values()]
    return reduce_values(values, rule, weights, where=f"{name!r} in {where}")


def _differ(cells: Mapping[int, Cell], name: str, where: str, rules: Rules, decide: bool) -> None:
    shown = ", ".join(f"rank {rank}: {_short(cell)}" for rank, cell in list(cells.items())[:8])
    what = f"ranks recorded different values of {name!r} in {where} ({shown})"
    how = f"say which counts: History(reduce={{{name!r}: 'mean'}}), or 'first' for the lowest rank"
    if decide:
        raise DivergenceError(f"{what}, and a decision must not rest on one of them; {how}")
    rules.warn_once(name, f"{what}; taking that of the lowest rank. To choose, {how}")


def _short(cell: Cell) -> str:
    text = repr(cell.value())
    return text if len(text) <= 40 else text[:37] + "..."
