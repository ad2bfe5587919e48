"""The three tables everything is dispatched by. The module of each type fills in its entries.

Dispatch is by exact type, so a subclass is never taken for its base. The types of numpy and torch
are added when the first value of theirs, or the first data, arrives (see `_libraries`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from ._decode import Reader
    from ._encode import Writer

__all__ = ["COMPOSITES", "DECODERS", "LEAVES", "CompositeEncoder", "ExtDecoder", "LeafEncoder"]

LeafEncoder: TypeAlias = Callable[[Any], bytes]
"""Takes a value of exactly its type and returns all of its bytes. It can refuse nothing."""

CompositeEncoder: TypeAlias = "Callable[[Writer, Any, int], None]"
"""Appends the parts of a value, which stands that many containers deep, to the writer."""

ExtDecoder: TypeAlias = "Callable[[Reader, int, int], Any]"
"""Called with the reader at the start of the payload, the payload's end, and the depth of the
value; it has to read to the end."""

LEAVES: Final[dict[type, LeafEncoder]] = {}
COMPOSITES: Final[dict[type, CompositeEncoder]] = {}
DECODERS: Final[dict[int, ExtDecoder]] = {}
