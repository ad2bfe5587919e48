"""The limits of the codec, each of them part of the format.

They hold for encoding and decoding alike, so that whatever `encode` accepts, `decode` accepts too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Final

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_DIMENSIONS",
    "MAX_EMPTY_ITEM",
    "MAX_FIELDS",
    "MAX_RATIO_BYTES",
    "MAX_SAME_HASH",
    "MAX_ZONES",
    "flooded",
]

MAX_DEPTH: Final = 64
"""Containers inside each other. Below what msgpack's two builds can take, and far below Python's
recursion limit."""

MAX_BYTES: Final = 2**32 - 1
"""Bytes of one string, one array's data or one extension value, and the entries of one container
(msgpack's own limit)."""

MAX_DIMENSIONS: Final = 64
"""Dimensions of an array or tensor."""

MAX_FIELDS: Final = 4096
"""Fields of one structured dtype."""

MAX_EMPTY_ITEM: Final = 1 << 20
"""Bytes of one item of an array without items, and items of an array whose items have no bytes:
nothing in the data backs these."""

MAX_RATIO_BYTES: Final = 4096
"""Bytes of a Fraction's numerator or denominator: reducing a fraction takes quadratic time."""

MAX_SAME_HASH: Final = 64
"""Keys of one dict, or elements of one set, that share a hash."""

MAX_ZONES: Final = 64
"""Time zones that are unknown here and looked up in one call of `decode`: each costs file
accesses. Beyond it, zones not seen before stay opaque."""


def flooded(keys: Iterable[Hashable], count: int) -> bool:
    """Whether too many of `count` keys share one hash, found in linear time.

    A dict of keys that share a hash takes quadratic time to build, so this must be asked first.
    """
    if count <= MAX_SAME_HASH:
        return False
    return max(Counter(map(hash, keys)).values()) > MAX_SAME_HASH
