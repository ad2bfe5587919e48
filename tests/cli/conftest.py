"""Running `python -m synchist`, piped and in a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Without what changes colours and widths, and with a folder of its own for temporary files."""
    unwanted = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    (tmp_path / "temporary").mkdir()
    return {**kept, "TERM": "xterm-256color", "TMPDIR": str(tmp_path / "temporary")}


@pytest.fixture
def synchist(environment: Mapping[str, str]) -> Run:
    """Run `python -m synchist ARGUMENTS`; its output is a pipe."""

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "synchist", *arguments],
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


@pytest.fixture
def in_a_terminal(environment: Mapping[str, str]) -> Callable[..., tuple[int, str]]:
    """Run `python -m synchist ARGUMENTS` in a terminal; gives its exit code and what it showed."""
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    fcntl = pytest.importorskip("fcntl")
    termios = pytest.importorskip("termios")

    def run(*arguments: str, columns: int = 80) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        size = (24).to_bytes(2, sys.byteorder) + columns.to_bytes(2, sys.byteorder) + bytes(4)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        process = subprocess.Popen(
            [sys.executable, "-m", "synchist", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environment),
        )
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # Linux says EIO when the last process has closed the terminal
            pass
        os.close(ours)
        return process.wait(timeout=20), shown.decode()

    return run
