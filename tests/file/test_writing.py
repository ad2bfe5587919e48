"""Writing a file: whole or not at all, and nothing else is left in the folder."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import pytest

from synchist import History
from synchist.file import FrameWriter, replace_file


def history(epochs: int) -> History:
    h = History()
    for _ in range(epochs):
        h.new_epoch(a=1)
    return h


def full(*_: Any) -> NoReturn:
    raise OSError(28, "No space left on device")


def interrupted(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", ["write", "fsync", "replace"])
@pytest.mark.parametrize("failure", [full, interrupted])
def test_a_save_that_fails_keeps_the_old_file_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    failure: Callable[..., NoReturn],
) -> None:
    path = tmp_path / "run.synchist"
    h = history(2)
    h.save(path)
    h.new_epoch(a=2)
    with monkeypatch.context() as patch:
        if place == "write":  # half of the file is written
            patch.setattr(FrameWriter, "end", failure)
        else:
            patch.setattr(os, place, failure)
        with pytest.raises((OSError, KeyboardInterrupt)):
            h.save(path)
    assert os.listdir(tmp_path) == ["run.synchist"]
    assert len(History.load(path)) == 2
    h.save(path)
    assert len(History.load(path)) == 3


def test_the_file_is_on_the_disk_before_it_takes_its_name_and_then_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("folder" if folder else "file")
        fsync(descriptor)

    def replaced(old: str, new: str) -> None:
        calls.append("name")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    history(1).save(tmp_path / "run.synchist")
    assert calls == ["file", "name", "folder"] or sys.platform == "win32"


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions, links and pipes")
def test_a_new_file_has_the_usual_permissions_and_a_replaced_one_those_it_had(
    tmp_path: Path,
) -> None:
    (tmp_path / "usual").touch()
    path = tmp_path / "run.synchist"
    history(1).save(path)
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    path.chmod(0o600)
    history(2).save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(History.load(path)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions, links and pipes")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "run.synchist"
    link.symlink_to(tmp_path / "elsewhere" / "real.synchist")
    history(1).save(link)
    assert link.is_symlink()
    assert os.listdir(tmp_path / "elsewhere") == ["real.synchist"]
    assert len(History.load(link)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions, links and pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    history(1).save(pipe)
    (tmp_path / "copy").write_bytes(os.read(reader, 1 << 16))
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert len(History.load(tmp_path / "copy")) == 1


def test_a_name_of_the_longest_kind(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    history(1).save(path)
    assert len(History.load(path)) == 1


def test_the_folder_may_be_the_current_one(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    history(1).save("run.synchist")
    assert len(History.load("run.synchist")) == 1


def test_what_is_written_in_pieces_is_one_file(tmp_path: Path) -> None:
    def write(file: BinaryIO) -> None:
        file.writelines((b"a", b"", b"bc"))

    replace_file(tmp_path / "file", write)
    assert (tmp_path / "file").read_bytes() == b"abc"
