"""The tables everything is dispatched by. The module of each type fills in its entries.

Dispatch is by exact type, so a subclass is never taken for its base. The types of numpy and torch
are added when the first value of theirs, or the first data, arrives (see `_libraries`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from ._encode import Writer
    from ._reader import Reader

__all__ = [
    "COMPOSITES",
    "DECODERS",
    "ITEMS",
    "LEAVES",
    "CompositeEncoder",
    "ExtDecoder",
    "ItemReader",
    "LeafEncoder",
]

LeafEncoder: TypeAlias = Callable[[Any], bytes]
"""Takes a value of exactly its type and returns all of its bytes. It can refuse nothing."""

CompositeEncoder: TypeAlias = "Callable[[Writer, Any, int], None]"
"""Appends the parts of a value, which stands that many containers deep, to the writer."""

ExtDecoder: TypeAlias = "Callable[[Reader, int, int], Any]"
"""Called with the reader at the start of the payload, the payload's end, and the depth of the
value; it has to read to the end."""

ItemReader: TypeAlias = "Callable[[Reader, int, int], Any]"
"""Called with the reader behind the first byte of a value, that byte, and the value's depth."""

LEAVES: Final[dict[type, LeafEncoder]] = {}
COMPOSITES: Final[dict[type, CompositeEncoder]] = {}
DECODERS: Final[dict[int, ExtDecoder]] = {}
ITEMS: Final[list[ItemReader]] = []
"""For each of the 256 first bytes, what reads a value that begins with it."""
