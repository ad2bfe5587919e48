"""Frames, written and read one after the other."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import attrs

from ..errors import CorruptDataError
from .layout import (
    DONE,
    DONE_PAYLOAD,
    FRAME_HEADER,
    HEAD,
    MAGIC,
    START_BYTES,
    VERSION,
    frame_header,
    start,
)

__all__ = ["Frame", "FrameReader", "FrameWriter"]

_BLOCK: Final = 1 << 20


class FrameWriter:
    """Appends frames to a file, group by group. Not thread-safe.

    Never seeks. To go on with a file that has groups already, give what `FrameReader` has of it.

    Attributes:
        offset: where the next frame will be in the file.
        running: the running checksum.
    """

    def __init__(self, file: BinaryIO, offset: int = 0, running: int = 0) -> None:
        self._file = file
        self.offset = offset
        self.running = running
        self._frames = 0

    def begin(self, header: bytes) -> None:
        """Write what every file begins with, and the header frame."""
        first = start()
        self._file.write(first)
        self.offset, self.running = len(first), zlib.crc32(first[:-4])
        self.frame(HEAD, header)
        self._frames = 0

    def frame(self, kind: bytes, *pieces: Any) -> None:
        """Write one frame; the pieces of its payload are bytes, or buffers of bytes."""
        size = checksum = 0
        for piece in pieces:
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
        header = frame_header(kind, size, checksum)
        self._file.write(header)
        for piece in pieces:
            self._file.write(piece)
        self.offset += len(header) + size
        self.running = zlib.crc32(header[:-4], self.running)
        self._frames += 1

    def end(self) -> None:
        """Write the mark that makes the frames since the last one a whole group."""
        self.frame(DONE, DONE_PAYLOAD.pack(self.offset, self._frames, self.running))
        self._frames = 0


@attrs.frozen
class Frame:
    """The header of a frame, verified, and where the frame is in the file."""

    kind: bytes
    size: int
    checksum: int
    offset: int

    @property
    def payload(self) -> int:
        """Where the payload begins in the file."""
        return self.offset + FRAME_HEADER.size


class FrameReader:
    """Reads frames one after the other, and believes nothing. Not thread-safe.

    After `next_frame`, one of `read`, `read_into`, `read_pieces` and `skip` has to take the
    payload.

    Attributes:
        path: the file, for errors.
        size: length of the file.
        offset: where the next thing to read is.
        running: the running checksum, as an end mark at `offset` has to have it.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        """Reads the first 16 bytes."""
        self._file = file
        self.path = path
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self.offset = self.running = 0
        self._frames = 0  # of the group so far
        self._before = 0  # `running` before the last frame
        self._check_start()

    def damaged(self, why: str, offset: int | None = None) -> CorruptDataError:
        """The error for trouble at `offset` (without one: where the reader stands)."""
        offset = self.offset if offset is None else offset
        return CorruptDataError(
            f"{self.path} is damaged at byte {offset}: {why}", offset=offset, path=self.path
        )

    def _check_start(self) -> None:
        first = self._file.read(START_BYTES)
        if not MAGIC.startswith(first[: len(MAGIC)]):
            if first[1:4] == MAGIC[1:4]:
                raise self.damaged("its line ends were changed, as by a transfer in text mode", 0)
            raise CorruptDataError(
                f"{self.path} is no file of synchist (its first bytes, from byte 0, are others)",
                offset=0,
                path=self.path,
            )
        if len(first) < START_BYTES:
            raise self.damaged("it ends in its first 16 bytes", len(first))
        major, minor, checksum = struct.unpack_from("<HHI", first, len(MAGIC))
        if zlib.crc32(first[:-4]) != checksum:
            raise self.damaged("its first 16 bytes were changed", len(MAGIC))
        if major != VERSION[0]:
            raise CorruptDataError(
                f"{self.path} has format {major}.{minor} (byte {len(MAGIC)}), and this version of "
                f"synchist reads format {VERSION[0]}: install a newer synchist",
                offset=len(MAGIC),
                path=self.path,
            )
        self.offset = START_BYTES
        self.running = zlib.crc32(first[:-4])

    def go_to(self, offset: int, running: int) -> None:
        """Go on at an earlier place, with what `running` was there."""
        self._file.seek(offset)
        self.offset, self.running, self._frames = offset, running, 0

    def next_frame(self) -> Frame | None:
        """The header of the next frame; None at the end of the file."""
        offset = self.offset
        data = self._file.read(FRAME_HEADER.size)
        if not data:
            return None
        if len(data) < FRAME_HEADER.size:
            raise self.damaged("it ends in the header of a frame")
        kind, size, checksum, own = FRAME_HEADER.unpack(data)
        if zlib.crc32(data[:-4]) != own:
            raise self.damaged("the header of a frame has another checksum")
        left = self.size - offset - FRAME_HEADER.size
        if size > left:
            raise self.damaged(f"a frame has {size} bytes, and {left} are left")
        self._before, self.running = self.running, zlib.crc32(data[:-4], self.running)
        self._frames = 0 if kind == HEAD else self._frames + 1
        self.offset += FRAME_HEADER.size
        return Frame(kind, size, checksum, offset)

    def read(self, frame: Frame) -> bytes:
        """The payload."""
        (data,) = self.read_pieces(frame, [frame.size])
        return data

    def read_pieces(self, frame: Frame, sizes: Sequence[int]) -> list[bytes]:
        """The payload in pieces of these sizes, which have to add up to it."""
        checksum, pieces = 0, []
        for size in sizes:
            piece = self._file.read(size)
            if len(piece) != size:
                raise self.damaged("it became shorter while it was read")
            checksum = zlib.crc32(piece, checksum)
            pieces.append(piece)
        self._passed(frame, checksum)
        return pieces

    def read_into(self, frame: Frame, buffer: memoryview) -> None:
        """The payload, into a buffer of its length."""
        if self._file.readinto(buffer) != frame.size:  # type: ignore[attr-defined]
            raise self.damaged("it became shorter while it was read")
        self._passed(frame, zlib.crc32(buffer))

    def _passed(self, frame: Frame, checksum: int) -> None:
        if checksum != frame.checksum:
            raise self.damaged("the bytes of a frame have another checksum", frame.payload)
        self.offset += frame.size

    def skip(self, frame: Frame, *, verify: bool = False) -> None:
        """Go on behind the payload; without `verify` it is not even read."""
        if not verify:
            self._file.seek(frame.size, os.SEEK_CUR)
            self.offset += frame.size
            return
        checksum, left = 0, frame.size
        while left:
            block = self._file.read(min(left, _BLOCK))
            if not block:
                raise self.damaged("it became shorter while it was read")
            checksum = zlib.crc32(block, checksum)
            left -= len(block)
        self._passed(frame, checksum)

    def check_end(self, frame: Frame) -> None:
        """Verify that an end mark belongs to what was read before it."""
        data = self.read(frame)
        if data != DONE_PAYLOAD.pack(frame.offset, self._frames - 1, self._before):
            raise self.damaged(
                "an end mark does not fit what is before it: a frame is missing, or there twice, "
                "or at another place",
                frame.offset,
            )
        self._frames = 0

    def find_end(self, offset: int) -> int | None:
        """Where the next end mark is, at `offset` or behind; None where there is none.

        It looks at every byte, so it finds one wherever the damage is. An end mark says where it
        is, so a copy of one, inside a recorded value, is not taken for one.
        """
        position, kept = offset, b""
        self._file.seek(offset)
        length = FRAME_HEADER.size + DONE_PAYLOAD.size
        while block := self._file.read(_BLOCK):
            data = kept + block
            base = position - len(kept)
            at = data.find(DONE)
            while at >= 0:
                mark = data[at : at + length]
                if len(mark) == length and _is_end(mark, base + at):
                    return base + at
                at = data.find(DONE, at + 1)
            position += len(block)
            kept = data[-length + 1 :]
        return None


def _is_end(mark: bytes, offset: int) -> bool:
    payload = mark[FRAME_HEADER.size :]
    header = frame_header(DONE, len(payload), zlib.crc32(payload))
    return mark.startswith(header) and DONE_PAYLOAD.unpack(payload)[0] == offset
