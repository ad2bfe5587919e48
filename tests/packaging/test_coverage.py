"""Coverage sees what child processes run: most of what a rank does happens in one."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each child runs one method that nobody else runs.
PROGRAM = """
import multiprocessing, os, subprocess, sys, threading

def spawned():
    from synchist.deadline import Deadline
    Deadline(1).left()
    os._exit(0)

def threaded():
    from synchist.errors import UnsupportedTypeError
    UnsupportedTypeError("no", path="[0]")

def forked():
    from synchist.errors import CorruptDataError
    CorruptDataError("no")

if __name__ == "__main__":
    for method, target in ("spawn", spawned), ("fork", forked):
        child = multiprocessing.get_context(method).Process(target=target)
        child.start()
        child.join()
        assert child.exitcode == 0
    subprocess.run(
        [sys.executable, "-c", "from synchist.deadline import Deadline; Deadline(1).expired"],
        cwd="/",
        check=True,
    )
    thread = threading.Thread(target=threaded)
    thread.start()
    thread.join()
"""


def lines_of(file: str, cls: str, function: str) -> set[int]:
    """The line numbers of a method's statements."""
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.ClassDef) and node.name == cls:
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == function:
                    return {statement.lineno for statement in method.body[1:] or method.body}
    raise LookupError(f"{file} has no {cls}.{function}")


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """Executed lines by file, measured with the settings of this project."""
    folder = tmp_path_factory.mktemp("coverage")
    (folder / "program.py").write_text(PROGRAM)
    common = [f"--rcfile={ROOT / 'pyproject.toml'}", f"--data-file={folder / 'data'}"]
    for command in (
        ["run", *common, "program.py"],
        ["combine", *common],
        ["json", *common, "-o", "report.json"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "coverage", *command],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((folder / "report.json").read_text())
    return {
        str((folder / name).resolve().relative_to(ROOT)): set(file["executed_lines"])
        for name, file in report["files"].items()
    }


@pytest.mark.parametrize(
    ("file", "cls", "function"),
    [
        pytest.param("synchist/deadline.py", "Deadline", "left", id="spawned, left by os._exit"),
        pytest.param("synchist/deadline.py", "Deadline", "expired", id="another interpreter"),
        pytest.param("synchist/errors.py", "CorruptDataError", "__init__", id="forked"),
        pytest.param("synchist/errors.py", "UnsupportedTypeError", "__init__", id="a thread"),
    ],
)
def test_lines_run_elsewhere_are_counted(
    executed: dict[str, set[int]], file: str, cls: str, function: str
) -> None:
    assert lines_of(file, cls, function) <= executed[file]
