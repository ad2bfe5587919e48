"""Changes to what is recorded already: deletions, and values of epochs that are no longer open.

skorch's history is a list of dicts, so `del history[0]`, `del history[0]["k"]` and
`history[0]["k"] = v` are legal at any time. In a run of several ranks they are records like others:
each rank keeps its edits in one attribute of the shared history, they travel with the next sync,
and `digest()` covers them. The rules:

- A deleted epoch is deleted on every rank, whichever rank deleted it.
- Otherwise every value has one owner: a rank takes back, or writes, what it recorded itself.
"""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Edits"]


@attrs.define
class Edits:
    """The edits of one rank.

    Attributes:
        count: how many there have been.
        deleted: numbers of deleted epochs.
        erased: names that the rank took back, by epoch.
        written: values that the rank wrote later, by epoch.
    """

    count: int = 0
    deleted: set[int] = attrs.field(factory=set)
    erased: dict[int, set[str]] = attrs.field(factory=dict)
    written: dict[int, dict[str, Any]] = attrs.field(factory=dict)

    def with_deleted(self, epoch: int) -> Edits:
        """These, and that epoch deleted."""
        new = self._next()
        new.deleted.add(epoch)
        return new

    def with_erased(self, epoch: int, name: str) -> Edits:
        """These, and that name taken back."""
        new = self._next()
        new.written.get(epoch, {}).pop(name, None)
        new.erased.setdefault(epoch, set()).add(name)
        return new

    def with_written(self, epoch: int, name: str, value: Any) -> Edits:
        """These, and that value written."""
        new = self.without(epoch, name)
        new.written.setdefault(epoch, {})[name] = value
        return new

    def without(self, epoch: int, name: str) -> Edits:
        """These, but for what was done to that name: it was recorded anew."""
        new = self._next()
        new.erased.get(epoch, set()).discard(name)
        new.written.get(epoch, {}).pop(name, None)
        return new

    def touches(self, epoch: int, name: str) -> bool:
        """Whether something was done to that name."""
        return name in self.erased.get(epoch, ()) or name in self.written.get(epoch, ())

    def epochs(self) -> set[int]:
        """Epochs of which values were edited."""
        return {*self.erased, *self.written}

    def _next(self) -> Edits:
        return Edits(
            self.count + 1,
            set(self.deleted),
            {epoch: set(names) for epoch, names in self.erased.items()},
            {epoch: dict(values) for epoch, values in self.written.items()},
        )

    def to_value(self) -> list[Any]:
        """As a value that can be recorded, the same for the same edits."""
        return [
            self.count,
            sorted(self.deleted),
            {epoch: sorted(names) for epoch, names in sorted(self.erased.items())},
            dict(sorted(self.written.items())),
        ]

    @classmethod
    def from_value(cls, value: Any) -> Edits:
        """The inverse of `to_value`."""
        count, deleted, erased, written = value
        return cls(
            count, set(deleted), {epoch: set(names) for epoch, names in erased.items()}, written
        )
