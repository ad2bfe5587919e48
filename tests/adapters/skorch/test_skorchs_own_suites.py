"""skorch's tests of nets and callbacks come out the same with our class in place of its History."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
import skorch.tests

SUITES = Path(skorch.tests.__file__).parent
PROGRAMS = Path(__file__).parent / "programs"


def started(which: str, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir()
    arguments = ["-q", "-p", "skorch_suites", "-p", "no:cacheprovider", "-W", "ignore"]
    suites = [str(SUITES / "test_net.py"), str(SUITES / "callbacks")]
    command = [sys.executable, "-m", "pytest", *arguments, "--junit-xml=outcomes.xml", *suites]
    path = os.pathsep.join([str(PROGRAMS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "SYNCHIST_HISTORY": which, "PYTHONPATH": path}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )


def outcomes(folder: Path) -> dict[str, str]:
    """By test, what came of it."""
    found = {}
    for case in ElementTree.parse(folder / "outcomes.xml").iter("testcase"):
        kinds = [child.tag for child in case if child.tag in {"failure", "error", "skipped"}]
        found[f"{case.get('classname')}::{case.get('name')}"] = ", ".join(kinds) or "passed"
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_outcomes_are_the_same_with_ours(tmp_path: Path) -> None:
    """In the same run, because without a GPU or an optional package some fail either way."""
    processes = {which: started(which, tmp_path / which) for which in ("skorchs", "ours")}
    try:
        for process in processes.values():
            process.wait(timeout=580)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    for which in processes:
        print((tmp_path / which / "log.txt").read_text()[-3000:])
    skorchs, ours = (outcomes(tmp_path / which) for which in processes)
    tests = skorchs.keys() | ours.keys()
    told = {name: (skorchs.get(name), ours.get(name)) for name in tests}
    assert {name: both for name, both in told.items() if both[0] != both[1]} == {}
    assert Counter(skorchs.values())["passed"] > 500
