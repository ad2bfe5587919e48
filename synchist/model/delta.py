"""A delta: what one rank adds to a history in one go, from one `sync()` to the next."""

from __future__ import annotations

from .part import Cell, Part

__all__ = ["Delta"]


class Delta:
    """Parts by epoch index, and run-level attributes. Not thread-safe.

    Deltas of one rank are ordered; a later one wins where both have a value.
    """

    __slots__ = ("attributes", "parts")

    def __init__(
        self, parts: dict[int, Part] | None = None, attributes: dict[str, Cell] | None = None
    ) -> None:
        self.parts: dict[int, Part] = {} if parts is None else parts
        self.attributes: dict[str, Cell] = {} if attributes is None else attributes

    def __bool__(self) -> bool:
        return bool(self.parts or self.attributes)

    def update(self, newer: Delta) -> None:
        """Take over what is newer. May keep pieces of `newer`."""
        for epoch, part in newer.parts.items():
            mine = self.parts.get(epoch)
            if mine is None:
                self.parts[epoch] = part
            else:
                mine.update(part)
        self.attributes.update(newer.attributes)
