"""Views of a history: `h.synced`, `h.local`, `h.ranks` and `h.attributes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from ..errors import UsageError
from .reader import Attributes, Reader
from .resolve import Rules
from .source import Source

__all__ = ["Ranks", "RecordedAttributes", "View"]


class View(Reader):
    """A read-only look at a history: `h.synced`, `h.local`, `h.ranks[r]`.

    It shows what is there when it is read, not when it was made.
    """

    def __init__(self, what: str, source: Callable[[], Source], rules: Rules) -> None:
        self._what = what
        self._open = source
        self._rules = rules

    def _source(self) -> Source:
        return self._open()

    def __repr__(self) -> str:
        return f"<{self._what}: {len(self)} epochs>"


class Ranks(Mapping[int, View]):
    """By rank, what that rank recorded, as far as it has been synced."""

    def __init__(
        self,
        numbers: Callable[[], Sequence[int]],
        source: Callable[[int], Source],
        rules: Rules,
    ) -> None:
        self._numbers = numbers
        self._source = source
        self._rules = rules

    def __getitem__(self, rank: int) -> View:
        numbers = self._numbers()
        if rank not in numbers:
            raise KeyError(f"rank {rank}: there are ranks {', '.join(map(str, numbers))}")
        return View(f"h.ranks[{rank}]", lambda: self._source(rank), self._rules)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers())

    def __len__(self) -> int:
        return len(self._numbers())


class RecordedAttributes(Attributes, MutableMapping[str, Any]):
    """The run-level values of a history; assigning records one."""

    def __init__(self, reader: Reader, record: Callable[[str, Any], None]) -> None:
        super().__init__(reader)
        self._record = record

    def __setitem__(self, name: str, value: Any) -> None:
        self._record(name, value)

    def __delitem__(self, name: str) -> None:
        raise UsageError(
            f"attribute {name!r} cannot be deleted; assign another value, such as None"
        )
