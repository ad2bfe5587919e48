"""Writing JSON: valid whatever the numbers, and whole or not at all."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synchist.cli.json_file import to_json, write_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def named(value: Any) -> Any:
    """`value`, with the names that stand for what JSON does not have."""
    if isinstance(value, dict):
        return {key: named(item) for key, item in value.items()}
    if isinstance(value, list):
        return [named(item) for item in value]
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), value)


@given(VALUES)
def test_every_value_comes_back_and_the_text_is_valid_json(value: Any) -> None:
    assert json.loads(to_json(value), parse_constant=refuse) == named(value)


def test_tuples_become_lists() -> None:
    assert json.loads(to_json({"a": (1, (2.5,))})) == {"a": [1, [2.5]]}


def test_the_file_holds_the_value_and_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    write_json(tmp_path / "history.json", [{"loss": 1.5}])
    assert json.loads((tmp_path / "history.json").read_text()) == [{"loss": 1.5}]
    assert os.listdir(tmp_path) == ["history.json"]


def test_what_was_there_stays_when_the_new_value_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    file.write_text("old")
    with pytest.raises(TypeError):
        write_json(file, [object()])
    assert file.read_text() == "old"


def test_what_was_there_stays_when_writing_fails_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "history.json"
    file.write_text("old")

    def full(_: int) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(file, ["new"])
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["history.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions, links and pipes")
def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_json(tmp_path / "history.json", [])
    usual, ours = ((tmp_path / name).stat().st_mode for name in ("usual", "history.json"))
    assert stat.S_IMODE(ours) == stat.S_IMODE(usual)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions, links and pipes")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "history.json"
    link.symlink_to(tmp_path / "elsewhere" / "real.json")
    write_json(link, [1])
    assert link.is_symlink()
    assert json.loads((tmp_path / "elsewhere" / "real.json").read_text()) == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions, links and pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_json(pipe, [1])
    assert json.loads(os.read(reader, 100)) == [1]
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
