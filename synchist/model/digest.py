"""The digest: one number that says whether two histories are the same.

It is SHA-256 over per-epoch SHA-256 digests (and one of the attributes), so that a history of ten
thousand epochs need not be hashed anew for every change. It covers what was recorded, never how it
got here: no times, attempts, rounds, sequence numbers or reductions, and no trace of how many syncs
it took. Names are taken in sorted order, ranks ascending. Every piece is preceded by a msgpack
header that gives its lengths, so no two different histories feed the same bytes.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgpack

from .column import CODED, Column
from .part import Cell, Part

__all__ = ["digest_attributes", "digest_epoch", "digest_history", "little_endian"]


def little_endian(data: Any) -> bytes:
    """The bytes of an array of 8-byte numbers, the same on every machine."""
    if sys.byteorder == "big":
        data = data[:]
        data.byteswap()
    raw: bytes = data.tobytes()
    return raw


def _header(*fields: Any) -> bytes:
    packed: bytes = msgpack.packb(fields, unicode_errors="surrogatepass")
    return packed


def _column(name: str, column: Column) -> Iterable[bytes]:
    column = column.tightest()
    where = column.start if column.batches is None else little_endian(column.batches)
    yield _header(name, column.kind, where, len(column))
    if column.kind == CODED:
        for item in column.data:
            yield _header(len(item))
            yield item
    else:
        yield little_endian(column.data)


def _cells(cells: Mapping[str, Cell]) -> Iterable[bytes]:
    for name in sorted(cells):
        yield _header(name, cells[name].data, cells[name].weight)


def _digest(pieces: Iterable[bytes]) -> bytes:
    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(piece)
    return sha.digest()


def digest_epoch(parts: Mapping[int, Part]) -> bytes:
    """Digest of one epoch: every rank's batches and epoch values."""

    def pieces() -> Iterable[bytes]:
        for rank in sorted(parts):
            part = parts[rank]
            yield _header(rank, part.rows, len(part.columns), len(part.cells))
            for name in sorted(part.columns):
                yield from _column(name, part.columns[name])
            yield from _cells(part.cells)

    return _digest(pieces())


def digest_attributes(attributes: Mapping[int, Mapping[str, Cell]]) -> bytes:
    """Digest of the run-level attributes of all ranks."""

    def pieces() -> Iterable[bytes]:
        for rank in sorted(attributes):
            yield _header(rank, len(attributes[rank]))
            yield from _cells(attributes[rank])

    return _digest(pieces())


def digest_history(epochs: list[bytes], attributes: bytes) -> str:
    """Hex digest of a whole history, from those of its epochs and of its attributes."""
    return _digest([b"synchist history 1", b"".join(epochs), attributes]).hex()
