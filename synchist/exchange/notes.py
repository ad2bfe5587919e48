"""Small messages between ranks: packed, and checked when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from ..errors import CorruptDataError

__all__ = ["names_of", "pack", "unpack"]


def pack(*fields: Any) -> bytes:
    """Fields in bytes."""
    packed: bytes = msgpack.packb(fields, unicode_errors="surrogatepass")
    return packed


def unpack(data: bytes, key: str, *types: type | tuple[type, ...]) -> list[Any]:
    """The fields, which must be of these types.

    Raises:
        CorruptDataError: something else stands under `key`.
    """
    try:
        fields = msgpack.unpackb(data, unicode_errors="surrogatepass", strict_map_key=False)
    except Exception as error:  # msgpack raises many unrelated types on damaged input
        raise CorruptDataError(f"damaged bytes under the key {key!r}: {error}") from error
    if (
        not isinstance(fields, list)
        or len(fields) != len(types)
        or not all(map(isinstance, fields, types))
    ):
        raise CorruptDataError(
            f"what stands under the key {key!r} was not written by this version of synchist; "
            "does another program use this store?"
        )
    return fields


def names_of(ranks: Sequence[int]) -> str:
    """Ranks in words."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
