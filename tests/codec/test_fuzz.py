"""The fuzz script, for as long as a test may take; run it yourself for more (see `fuzz`)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and an address-space limit")
@pytest.mark.parametrize(("script", "seconds"), [("tests.codec.fuzz", 90), ("tests.file.fuzz", 60)])
def test_hostile_bytes_are_read_or_refused_and_nothing_else_happens(
    script: str, seconds: int
) -> None:
    """200,000 inputs, or as many as fit into the time: no other error, no crash, no memory."""
    done = subprocess.run(
        [sys.executable, "-m", script, "200000", "--seed=1", f"--seconds={seconds}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    counts = re.search(r"(\d+) inputs: (\d+) read, (\d+) refused", done.stdout)
    assert counts is not None
    assert all(int(count) > 1000 for count in counts.groups())
