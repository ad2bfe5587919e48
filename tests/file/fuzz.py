"""Files that lie: mutated ones, and ones whose checksums are right and whose contents are not.

Each gives `CorruptDataError`, or contents that are written and read again as the same::

    python -m tests.file.fuzz 200000 [--seed N] [--seconds N]
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from synchist import CorruptDataError
from synchist.codec import decode, encode
from synchist.file import FrameWriter, read_contents, write_contents
from synchist.file.layout import frame_header

from ..codec.fuzz import arguments, run
from .making import journal, saved

NUMBERS = [0, 1, -1, 2, 3, 255, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**70]
ODD: list[Any] = [
    None,
    True,
    "",
    "batches",
    "loss",
    b"",
    b"\x00" * 8,
    [],
    {},
    [1, b"\x01"],
    1.5,
    (1,),
]
TYPES = [b"HEAD", b"RECD", b"VALS", b"DONE", b"news", b"News"]


def frames_of(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 16
    while at < len(data):
        kind, size = struct.unpack_from("<4sQ", data, at)
        found.append((kind, data[at + 20 : at + 20 + size]))
        at += 20 + size
    return found


def joined(first: bytes, frames: list[tuple[bytes, bytes]]) -> bytes:
    """A file of these frames with all of its checksums and end marks right."""
    file = BytesIO()
    file.write(first)
    writer = FrameWriter(file, 16, zlib.crc32(first[:-4]))
    for kind, payload in frames:
        if kind == b"DONE":
            writer.end()
        else:
            writer.frame(kind, payload)
            if kind == b"HEAD":
                writer._frames = 0
    return file.getvalue()


def changed(rng: random.Random, value: Any) -> Any:
    """The value with one change somewhere in it."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.05:
            return {name: value[name] for name in value if name != key}
        return {**value, key: changed(rng, value[key])}
    if isinstance(value, list | tuple) and value and rng.random() < 0.9:
        items = list(value)
        at = rng.randrange(len(items))
        match rng.randrange(8):
            case 0:
                del items[at]
            case 1:
                items.insert(at, items[at])
            case 2:
                items[at] = rng.choice(items)
            case _:
                items[at] = changed(rng, items[at])
        return items
    if isinstance(value, bytes) and value and rng.random() < 0.8:
        data = bytearray(value)
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = data[at : at + 8]
            case _:
                data[at] = rng.choice((0, 1, 2, data[at] ^ 1, 0x7F, 0xFF))
        return bytes(data)
    return rng.choice(NUMBERS) if rng.random() < 0.6 else rng.choice(ODD)


def lying(rng: random.Random, data: bytes) -> bytes:
    """A file whose contents were changed before it was written."""
    frames = frames_of(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(frames))
        kind, payload = frames[at]
        match rng.randrange(12):
            case 0:
                del frames[at]
            case 1:
                frames.insert(at, rng.choice(frames))
            case 2:
                frames[at] = (rng.choice(TYPES), payload)
            case _ if kind in (b"HEAD", b"RECD"):
                try:
                    frames[at] = (kind, encode(changed(rng, decode(payload))))
                except CorruptDataError:
                    frames[at] = (kind, payload[:-1])
            case _ if kind == b"VALS":
                frames[at] = (kind, changed(rng, payload) if rng.random() < 0.5 else payload[:-8])
        if not frames:
            break
        frames = [(kind, bytes(p) if isinstance(p, bytes) else b"") for kind, p in frames]
    return joined(data[:16], frames)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """A file that was changed afterwards; sometimes the header of a frame is made to fit."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(found))
        match rng.randrange(5):
            case 0:
                del found[at : at + rng.choice((1, 4, 20, 100))]
            case 1:
                found[at:at] = rng.randbytes(rng.choice((1, 4, 20)))
            case 2:
                size = rng.choice((0, 1, 8, 2**31, 2**63, len(found)))
                found[at:at] = frame_header(rng.choice(TYPES), size, 0)
            case _:
                found[at] ^= 1 << rng.randrange(8)
        if not found:
            return b""
    return bytes(found)


def inputs(seed: int, count: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    seeds = [saved(), saved(later=[1]), *(journal(rounds)[0] for rounds in range(3))]
    for _ in range(count):
        data = rng.choice(seeds)
        yield lying(rng, data) if rng.random() < 0.8 else damaged(rng, data)


def check(data: bytes) -> bool:
    """Whether it can be read; then what is written of it is read as the same."""
    try:
        contents = read_contents(BytesIO(data), "file")
    except CorruptDataError as error:
        assert error.path == "file"
        assert error.offset is not None
        assert 0 <= error.offset <= len(data)
        return False
    digest = contents.log.digest()
    once, again = BytesIO(), BytesIO()
    write_contents(once, contents)
    copy = read_contents(once, "copy")
    assert copy.log.digest() == digest
    write_contents(again, copy)
    assert again.getvalue() == once.getvalue()
    return True


def main() -> None:
    args = arguments(__doc__)
    check(saved())  # loads what is loaded once
    print(run(inputs(args.seed, args.count), check, args.seconds))


if __name__ == "__main__":
    main()
