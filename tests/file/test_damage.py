"""Damaged files: an error that names the file and the byte, never a wrong value in silence."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from synchist import CorruptDataError, History, SynchistWarning
from synchist.codec import encode
from synchist.file import FrameWriter, Record, read_column, read_file, write_record
from synchist.file.layout import frame_header, start
from synchist.model.delta import Delta
from synchist.model.part import Cell, Part

from .making import GOLDEN, header, journal, numbers, saved

Put = Callable[[bytes], Path]
MAJOR = 8
"""Where the major version is."""


@pytest.fixture(scope="module")
def put(tmp_path_factory: pytest.TempPathFactory) -> Put:
    """`put(data)`: a file with these bytes."""
    path = tmp_path_factory.mktemp("files") / "run.synchist"

    def write(data: bytes) -> Path:
        path.write_bytes(data)
        return path

    return write


def damage(path: Path) -> CorruptDataError:
    """The error that the file is; it names the file and a byte in it."""
    with pytest.raises(CorruptDataError) as caught:
        read_file(path)
    error = caught.value
    assert error.path == str(path)
    assert error.offset is not None
    assert 0 <= error.offset <= path.stat().st_size
    assert str(path) in str(error)
    assert f"byte {error.offset}" in str(error)
    return error


def small() -> bytes:
    """A file of kind "saved" that is short, but has all kinds of frames."""
    file = BytesIO()
    frames = FrameWriter(file)
    frames.begin(header("saved").pack())
    parts = {0: Part(130, {"x": numbers(130)}, {"f1": Cell(encode(1.5), encode(2))})}
    write_record(frames, Record(1, 1, 2, Delta(parts)))
    write_record(frames, Record(1, 2, 2, Delta(), True, (1, 0, 129, True)))
    frames.end()
    return file.getvalue()


@pytest.mark.parametrize("data", [saved(), small()], ids=["golden", "small"])
def test_a_saved_file_that_was_cut_at_any_byte_is_damaged(put: Put, data: bytes) -> None:
    for length in range(len(data)):
        damage(put(data[:length]))
    read_file(put(data))


def test_no_bit_of_a_saved_file_can_change_unnoticed(put: Put) -> None:
    data = small()
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            error = damage(put(bytes(changed)))
            assert error.offset is not None
            assert error.offset <= at + 20, "the error is about a place far behind the damage"


def test_no_byte_of_a_saved_file_with_everything_in_it_can_change_unnoticed(put: Put) -> None:
    data = saved()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        damage(put(bytes(changed)))


def test_a_saved_file_ends_with_its_end_mark(put: Put) -> None:
    data = small()
    assert "follow its end mark" in str(damage(put(data + b"x")))
    assert "follow its end mark" in str(damage(put(data + data[16:])))


def test_a_journal_that_was_cut_at_any_byte_holds_the_rounds_that_are_whole(put: Put) -> None:
    data, ends = journal(2)
    for length in range(ends[0]):
        damage(put(data[:length]))
    for length in range(ends[0], len(data) + 1):
        contents = read_file(put(data[:length]))
        whole = sum(end <= length for end in ends[1:])
        assert (len(contents.log.epochs), contents.end) == (whole, ends[whole])
        assert contents.dropped == length - ends[whole]


def test_a_journal_goes_on_where_its_last_whole_round_ends(put: Put) -> None:
    data, ends = journal(3)
    for kept in range(3):
        contents = read_file(put(data[: ends[kept + 1] - 1]))
        assert (contents.end, contents.dropped) == (ends[kept], ends[kept + 1] - 1 - ends[kept])
        file = BytesIO(data[: contents.end])
        file.seek(contents.end)
        frames = FrameWriter(file, contents.end, contents.running)
        write_record(frames, Record(0, 9, 2, Delta({kept: Part(0, {}, {"new": Cell(encode(1))})})))
        frames.end()
        again = read_file(put(file.getvalue()))
        assert (len(again.log.epochs), again.dropped) == (kept + 1, 0)
        assert again.log.sequence[0] == 9


@pytest.mark.parametrize("block", [40, 41, 64, 1000])
def test_an_end_mark_behind_damage_is_found_wherever_it_lies(
    put: Put, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Also across the blocks in which the file is searched."""
    monkeypatch.setattr("synchist.file.frames._BLOCK", block)
    data, ends = journal(1)
    for shift in range(0, block, 7):
        file = BytesIO()
        frames = FrameWriter(file)
        frames.begin(header("journal").pack())
        frames.frame(b"news", bytes(shift))
        frames.frame(b"news", b"damaged")
        frames.end()
        damage(put(file.getvalue().replace(b"damaged", b"damager")))
    assert len(read_file(put(data[: ends[1]])).log.epochs) == 1


def test_the_lineage_is_the_newest_that_a_record_has(put: Put) -> None:
    file = BytesIO()
    frames = FrameWriter(file)
    frames.begin(header("journal").pack())
    for lineage in (2, 5, 3):
        write_record(frames, Record(0, 1, lineage, Delta()))
        frames.end()
    assert read_file(put(file.getvalue())).log.lineage == 5


def test_loading_a_torn_journal_says_what_was_dropped(put: Put) -> None:
    data, ends = journal(2)
    path = put(data[:-5])
    with pytest.warns(SynchistWarning, match=f"dropped the last .* from byte {ends[1]}"):
        h = History.load(path)
    assert len(h) == 1
    h.new_epoch()
    assert len(h.local) == 2


def test_no_byte_of_a_journal_can_change_unnoticed(put: Put) -> None:
    """Damage before the last end mark is an error; damage of it is a round that is not whole."""
    data, ends = journal(2)
    last_mark = ends[2] - 40
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        path = put(bytes(changed))
        if at < last_mark:
            damage(path)
        else:
            contents = read_file(path)
            assert (contents.end, contents.dropped) == (ends[1], ends[2] - ends[1])


def test_zeros_at_the_end_of_a_journal_are_a_torn_round(put: Put) -> None:
    """As a file system leaves them that wrote the length before a power cut, but not the bytes."""
    data, ends = journal(2)
    contents = read_file(put(data[: ends[1] + 100] + bytes(5000)))
    assert (contents.end, contents.dropped) == (ends[1], 5100)


def test_a_journal_inside_a_recorded_value_is_not_taken_for_the_journal(put: Put) -> None:
    inner, ends = journal(2)
    file = BytesIO()
    file.write(inner)
    contents = read_file(put(inner))
    frames = FrameWriter(file, contents.end, contents.running)
    cell = Cell(encode(inner * 2))
    write_record(frames, Record(0, 3, 2, Delta({1: Part(0, {}, {"file": cell})})))
    frames.end()
    torn = read_file(put(file.getvalue()[:-30]))
    assert torn.end == ends[2]
    assert torn.dropped > len(inner)


def frames_of(data: bytes) -> list[bytes]:
    found, at = [], 16
    while at < len(data):
        size = 20 + struct.unpack_from("<Q", data, at + 4)[0]
        found.append(data[at : at + size])
        at += size
    return found


def test_frames_that_are_missing_or_there_twice_or_elsewhere_are_noticed(put: Put) -> None:
    """All checksums of the frames themselves are right here."""
    data = saved()
    first, frames = data[:16], frames_of(data)
    assert first + b"".join(frames) == data
    for at in range(len(frames) - 1):
        damage(put(first + b"".join(frames[:at] + frames[at + 1 :])))
        damage(put(first + b"".join(frames[:at] + frames[at : at + 1] + frames[at:])))
        for other in range(at + 1, len(frames) - 1):
            if frames[at] != frames[other]:
                mixed = frames[:]
                mixed[at], mixed[other] = frames[other], frames[at]
                damage(put(first + b"".join(mixed)))


def test_a_round_that_is_missing_from_a_journal_is_never_skipped(put: Put) -> None:
    data, ends = journal(3)
    for at in range(2):
        contents = read_file(put(data[: ends[at]] + data[ends[at + 1] :]))
        assert (contents.end, contents.dropped) == (ends[at], len(data) - ends[at + 1])


def with_version(data: bytes, major: int, minor: int) -> bytes:
    """The same file, said to be of another version; end marks are made anew."""
    file = BytesIO()
    frames = FrameWriter(file)
    file.write(start((major, minor)))
    frames.offset, frames.running = 16, zlib.crc32(start((major, minor))[:-4])
    for frame in frames_of(data):
        if frame[:4] == b"DONE":
            frames.end()
            continue
        frames.frame(frame[:4], frame[20:])
        if frame[:4] == b"HEAD":
            frames._frames = 0
    return file.getvalue()


def test_a_newer_minor_version_opens(put: Put) -> None:
    assert with_version(saved(), 1, 0) == saved()
    assert len(read_file(put(with_version(saved(), 1, 7))).log.epochs) == 3


def test_a_newer_major_version_is_said_to_be_one(put: Put) -> None:
    error = damage(put(with_version(saved(), 2, 0)))
    assert "format 2.0" in str(error)
    assert "install a newer synchist" in str(error)
    assert error.offset == MAJOR


def with_frame(kind: bytes) -> bytes:
    """A file with one more frame, before its end mark."""
    file = BytesIO()
    frames = FrameWriter(file)
    frames.begin(header("saved").pack())
    write_record(frames, Record(1, 1, 2, Delta({0: Part(0, {}, {"a": Cell(encode(1))})})))
    frames.frame(kind, b"something that came later")
    write_record(frames, Record(1, 2, 2, Delta(), True, (1, 0, -1, False)))
    frames.end()
    return file.getvalue()


def test_an_unknown_frame_is_skipped_if_its_type_says_that_it_may_be(put: Put) -> None:
    path = put(with_frame(b"news"))
    assert len(read_file(path).log.epochs) == 1
    assert History.load(path).local[0, "a"] == 1
    changed = bytearray(path.read_bytes())
    changed[changed.index(b"came later")] ^= 1  # even what is skipped is verified
    damage(put(bytes(changed)))


def test_an_unknown_frame_that_must_not_be_skipped_asks_for_a_newer_synchist(put: Put) -> None:
    error = damage(put(with_frame(b"News")))
    assert "install a newer synchist" in str(error)
    for kind in (b"HEAD", b"VALS"):
        assert "not expected here" in str(damage(put(with_frame(kind))))


def test_a_transfer_in_text_mode_is_recognised(put: Put) -> None:
    data = saved()
    for changed in (data.replace(b"\r\n", b"\n"), data.replace(b"\n", b"\r\n")):
        assert "text mode" in str(damage(put(changed)))


@pytest.mark.parametrize("data", [b"", b"\x89", b"\x89SYN\r\n\x1a\n", b"{}", b"\x93NUMPY", b"PK"])
def test_other_and_empty_files_are_no_files_of_synchist(put: Put, data: bytes) -> None:
    damage(put(data))


def test_lengths_are_compared_with_the_file_before_anything_is_read(put: Put) -> None:
    data = small()
    (head, *_) = frames_of(data)
    for size in (2**63, 2**64 - 1, len(data) + 1):
        huge = data[: 16 + len(head)] + frame_header(b"RECD", size, 0) + b"x"
        assert f"a frame has {size} bytes" in str(damage(put(huge)))


def test_one_column_is_read_without_the_others(put: Put) -> None:
    """Damage in a column that was not asked for is not even seen."""
    data = bytearray((GOLDEN / "saved.synchist").read_bytes())
    columns = read_column(put(bytes(data)), "loss")
    assert [sorted(ranks) for ranks in columns] == [[0, 1], [0, 1], []]
    assert [list(column.values()) for column in columns[1].values()] == [
        [n / 4 for n in range(9)],
        [1 + n / 4 for n in range(9)],
    ]
    notes = read_column(put(bytes(data)), "note")[0][0]
    assert dict(notes.items()) == {1: "ü", 2: (1, None), 5: b"x" * 300, 139: -0.0}
    assert read_column(put(bytes(data)), "unknown") == [{}, {}, {}]
    others = [
        data.index(struct.pack("<q", -(2**63)) + struct.pack("<q", 0)),  # the column "n"
        data.index(bytes(range(256))),  # the epoch value "image"
    ]
    for at in others:
        data[at] ^= 1
        damage(put(bytes(data)))
    assert read_column(put(bytes(data)), "loss")[0][0].values() == columns[0][0].values()
    at = data.index(struct.pack("<3d", 0.25, 0.5, 0.75))
    data[at] ^= 1
    with pytest.raises(CorruptDataError):
        read_column(put(bytes(data)), "loss")
