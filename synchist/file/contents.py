"""A whole file: a history, what its rank had not synced, and where that rank stands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO

import attrs

from ..errors import CorruptDataError
from ..model.column import Column
from ..model.delta import Delta
from ..model.log import Log
from .frames import Frame, FrameReader, FrameWriter
from .header import JOURNAL, Header
from .layout import DONE, HEAD, RECORD, VALUES, may_be_skipped
from .records import Place, Record, read_record, write_record
from .replacing import replace_file
from .series import Wanted

__all__ = [
    "Contents",
    "read_column",
    "read_contents",
    "read_file",
    "write_contents",
    "write_file",
]


@attrs.define
class Contents:
    """What is in a file.

    Attributes:
        header: what the file says of itself.
        log: what is agreed.
        pending: what the rank that wrote it had not synced.
        place: where that rank stands, if the file says so: see `Record`.
        end: where the last whole group ends; a journal goes on here.
        running: the running checksum there.
        dropped: bytes behind it, of a group that is not whole.
    """

    header: Header
    log: Log
    pending: Delta = attrs.field(factory=Delta)
    place: Place | None = None
    end: int = 0
    running: int = 0
    dropped: int = 0

    def take(self, records: Sequence[Record]) -> None:
        """Take over a group.

        Raises:
            CorruptDataError: what is in it cannot be.
        """
        agreed = [record for record in records if not record.pending]
        self.log.union((record.rank, record.delta, record.sequence) for record in agreed)
        for record in records:
            self.log.lineage = max(self.log.lineage, record.lineage)
            if record.pending:
                self._take_pending(record)

    def _take_pending(self, record: Record) -> None:
        rank = self.header.rank
        if record.rank != rank:
            raise CorruptDataError(f"records of rank {record.rank} are pending on rank {rank}")
        self.pending.update(record.delta)
        length = self.log.check(rank, self.pending, len(self.log.epochs))
        self.place = record.place
        if record.place is None:
            return
        next_epoch, epoch, batch, _ = record.place
        rows = [self.pending.parts[epoch].rows] if epoch in self.pending.parts else []
        if 0 <= epoch < len(self.log.epochs) and rank in self.log.epochs[epoch]:
            rows.append(self.log.epochs[epoch][rank].rows)
        if next_epoch > length or batch >= max(rows, default=0):
            raise CorruptDataError(f"rank {rank} stands at epoch {epoch}, batch {batch}")


def write_file(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write a file of kind "saved", whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    replace_file(path, lambda file: write_contents(file, contents))


def write_contents(file: BinaryIO, contents: Contents) -> None:
    """Write all of a file of kind "saved"."""
    header, log = contents.header, contents.log
    frames = FrameWriter(file)
    frames.begin(header.pack())
    for rank, delta in log.deltas().items():
        write_record(frames, Record(rank, log.sequence.get(rank, 0), log.lineage, delta))
    sequence = log.sequence.get(header.rank, 0)
    pending = Record(header.rank, sequence, log.lineage, contents.pending, True, contents.place)
    write_record(frames, pending)
    frames.end()


def read_file(path: str | os.PathLike[str], wanted: Wanted | None = None) -> Contents:
    """Read a file of either kind.

    Args:
        path: the file.
        wanted: for which names the batch values are to be read; then everything else is left out.
            Frames with values of other names are skipped, neither read nor verified. By default all
            is read.

    Raises:
        CorruptDataError: it is no file of synchist, damaged, or of a later major version; the error
            names the file and the byte.
        OSError: it cannot be read.
    """
    name = os.fsdecode(path)
    with open(name, "rb") as file:
        return read_contents(file, name, wanted)


def read_contents(file: BinaryIO, name: str, wanted: Wanted | None = None) -> Contents:
    """Read a file that is open, from its beginning; `name` is for errors."""
    frames = FrameReader(file, name)
    contents = _read_header(frames)
    tolerant = contents.header.kind == JOURNAL
    if not tolerant:
        _read_group(frames, contents, wanted)
        if frames.offset < frames.size:
            raise frames.damaged(f"{frames.size - frames.offset} bytes follow its end mark")
    while frames.offset < frames.size:
        begin, running = frames.offset, frames.running
        try:
            _read_group(frames, contents, wanted)
        except CorruptDataError:
            if frames.find_end(begin) is not None:
                raise
            contents.dropped = frames.size - begin
            frames.go_to(begin, running)
            break
    contents.end, contents.running = frames.offset, frames.running
    return contents


def read_column(path: str | os.PathLike[str], name: str) -> list[dict[int, Column]]:
    """The agreed values of one batch name: for every epoch, the columns by rank.

    Other names are skipped: their values are neither read nor decoded. Ranks without the name are
    left out, so an epoch in which nobody recorded it is an empty dict.

    Raises:
        CorruptDataError: as `read_file`, as far as the file is read.
        OSError: it cannot be read.
    """
    log = read_file(path, lambda other: other == name).log
    return [
        {rank: part.columns[name] for rank, part in parts.items() if name in part.columns}
        for parts in log.epochs
    ]


def _read_header(frames: FrameReader) -> Contents:
    frame = frames.next_frame()
    if frame is None or frame.kind != HEAD:
        raise frames.damaged("its header is missing", frames.offset if frame is None else 16)
    try:
        header = Header.unpack(frames.read(frame))
    except CorruptDataError as error:
        if error.path is not None:
            raise
        raise frames.damaged(str(error), frame.payload + (error.offset or 0)) from error
    except (ValueError, TypeError, KeyError) as error:
        raise frames.damaged(f"a header cannot be: {error}", frame.payload) from error
    return Contents(header, Log(header.lineage))


def _read_group(frames: FrameReader, contents: Contents, wanted: Wanted | None) -> None:
    """Read one group, and take it over once all of it was verified."""
    records: list[Record] = []
    begin = frames.offset
    while (frame := frames.next_frame()) is not None:
        if frame.kind == DONE:
            frames.check_end(frame)
            try:
                contents.take(records)
            except CorruptDataError as error:
                raise frames.damaged(str(error), begin) from error
            return
        if frame.kind == RECORD:
            records.append(read_record(frames, frame, wanted))
        else:
            _skip_unknown(frames, frame)
    raise frames.damaged("it ends without an end mark")


def _skip_unknown(frames: FrameReader, frame: Frame) -> None:
    if may_be_skipped(frame.kind):
        frames.skip(frame, verify=True)
        return
    if frame.kind in (VALUES, HEAD):
        raise frames.damaged(f"a frame {frame.kind.decode()} is not expected here", frame.offset)
    raise CorruptDataError(
        f"{frames.path} has a frame of type {frame.kind!r} (byte {frame.offset}), which this "
        "version of synchist does not know and must not skip: install a newer synchist",
        offset=frame.offset,
        path=frames.path,
    )
