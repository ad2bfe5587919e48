"""A decoder on nothing but msgpack, written from docs/reference/format.md and not from the code.

What neither Python nor msgpack has becomes a tuple of its extension code and what is in it.
"""

from __future__ import annotations

import io
import struct
import zlib
from itertools import islice
from typing import Any

import msgpack

RAW = {4, 16, 23, 24, 34, 35, 66, *range(40, 54)}
PYTHON: Any = {5: tuple, 6: set, 7: frozenset, 8: lambda fields: range(*fields)}


def decode(data: bytes) -> Any:
    return msgpack.unpackb(data, ext_hook=extension, strict_map_key=False)


def extension(code: int, data: bytes) -> Any:
    if code == 1:
        return int.from_bytes(data, "big", signed=True)
    if code == 2:
        return complex(*struct.unpack(">dd", data))
    if code == 3:
        return data.decode("utf-8", "surrogatepass")
    if code in RAW:
        return code, data
    return PYTHON[code](decode(data)) if code in PYTHON else (code, *decode(data))


def read(data: bytes) -> tuple[Any, list[Any]]:
    """The header, and the records with their epochs and attributes filled in."""
    rest = payloads(data)
    return decode(next(rest)), [record(decode(payload), rest) for payload in rest]


def payloads(data: bytes) -> Any:
    at, covered, count = 16, data[:12], -1
    assert data[:10] == b"\x89SYN\r\n\x1a\n\x01\0"
    assert data[12:16] == struct.pack("<I", zlib.crc32(covered))
    while at < len(data):
        kind, size, *checksums = struct.unpack_from("<4sQII", data, at)
        header, payload = data[at : at + 16], data[at + 20 : at + 20 + size]
        assert checksums == [zlib.crc32(payload), zlib.crc32(header)]
        if kind in (b"HEAD", b"RECD", b"VALS"):
            yield payload
        if kind == b"DONE":
            assert payload == struct.pack("<QQI", at, count, zlib.crc32(covered))
            count = -1
        at, covered, count = at + 20 + size, covered + header, count + 1


def record(fields: Any, rest: Any) -> Any:
    def cells(pairs: Any) -> Any:
        return {names[v]: (next(found[v]), w if w is None else next(found[w])) for v, w in pairs}

    def column(index: int) -> Any:
        count, first = next(counts), next(firsts)
        where = range(first - 1, first - 1 + count) if first else list(islice(batches, count))
        return names[index], dict(zip(where, found[index], strict=False))

    names, found = [s[0] for s in fields["series"]], [series(rest, *s) for s in fields["series"]]
    counts, firsts, rows = (ints(*fields[key]) for key in ("counts", "firsts", "rows"))
    batches = (n for (n,) in struct.iter_unpack("<q", fields["batches"]))
    epochs = {}
    for epoch, layout in zip(ints(*fields["epochs"]), ints(*fields["layout"]), strict=True):
        columns, pairs = fields["layouts"][layout]
        epochs[epoch] = next(rows), dict(map(column, columns)), cells(pairs)
    return {**fields, "epochs": epochs, "attributes": cells(fields["attributes"])}


def series(rest: Any, name: str, kind: str, lengths: Any, data: Any) -> Any:
    stream = io.BytesIO(next(rest) if data is None else data)
    if kind == "x":
        return map(decode, map(stream.read, ints(*lengths)))
    return iter([n for (n,) in struct.iter_unpack("<" + kind, stream.read())])


def ints(width: int, data: bytes) -> Any:
    return (int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width))
