"""The layout of a file: where its bytes are, before anything is said about what they mean.

The rules, in short:

- A file begins with 16 bytes: a magic of 8 bytes, which a transfer in text mode changes; the major
  and the minor version; and the CRC-32 of those 12 bytes. They are the same in every version.
- Then come frames. A frame is a header of 20 bytes and a payload. The header has a type of four
  letters, the length of the payload, the CRC-32 of the payload, and the CRC-32 of its own first 16
  bytes. So a frame can be skipped without reading it, and every bit is covered.
- The first frame is `HEAD`. The others form groups: any frames, and an end mark, `DONE`. An end
  mark holds its own place in the file, the number of frames in its group, and the running checksum:
  the CRC-32 of the first 12 bytes of the file and of the first 16 of every frame header so far, its
  own not included. So a frame that is missing, or there twice, or at another place, is noticed.
  (The checksums of the headers must stay out of it: the CRC-32 of bytes that are followed by their
  own CRC-32 is the same number whatever the bytes are.)
- A file of kind "saved" holds one group and nothing behind it. A file of kind "journal" may be cut
  anywhere behind its header: it holds the groups that are whole. But damage that has an end mark
  behind it was not done by cutting, and is an error.
- Frames of a type that a reader does not know are skipped if the first letter of the type is small.
  If it is a capital, nobody can read the rest right without knowing it, and a reader has to say so.
- A minor version adds frame types and fields. A major version changes what is written here, and a
  reader of an older one refuses it.
- All numbers are little-endian. CRC-32 is that of zlib and PNG.

Nothing that the file says of itself is believed before it was compared with what is there.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

__all__ = [
    "DONE",
    "DONE_PAYLOAD",
    "FRAME_HEADER",
    "HEAD",
    "MAGIC",
    "RECORD",
    "START_BYTES",
    "VALUES",
    "VERSION",
    "frame_header",
    "may_be_skipped",
    "start",
]

MAGIC: Final = b"\x89SYN\r\n\x1a\n"
VERSION: Final = (1, 0)
"""Major and minor version of the format that this module writes."""

START_BYTES: Final = 16
"""Bytes before the first frame."""

HEAD: Final = b"HEAD"
RECORD: Final = b"RECD"
VALUES: Final = b"VALS"
DONE: Final = b"DONE"

FRAME_HEADER: Final = struct.Struct("<4sQII")
"""Type, length of the payload, its CRC-32, and the CRC-32 of the 16 bytes before."""

DONE_PAYLOAD: Final = struct.Struct("<QQI")
"""Where the end mark is in the file, the frames of its group, and the running checksum."""


def start(version: tuple[int, int] = VERSION) -> bytes:
    """The first 16 bytes."""
    first = MAGIC + struct.pack("<HH", *version)
    return first + struct.pack("<I", zlib.crc32(first))


def frame_header(kind: bytes, size: int, checksum: int) -> bytes:
    """The header of a frame whose payload has this length and CRC-32."""
    first = struct.pack("<4sQI", kind, size, checksum)
    return first + struct.pack("<I", zlib.crc32(first))


def may_be_skipped(kind: bytes) -> bool:
    """Whether a reader that does not know this type of frame may go on without it."""
    return kind[:1].islower()
