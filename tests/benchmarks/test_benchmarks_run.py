"""The benchmarks run, with sizes so small that their figures mean nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        (
            "bench_rounds.py",
            ["--epochs=2", "--batches=3", "--repeats=2", "--skorch-repeats=1"],
            "skorch / synchist",
        ),
        (
            "bench_recording.py",
            ["--calls=10", "--epochs=3", "--batches=10"],
            "bytes a synced float",
        ),
    ],
)
def test_benchmark_prints_its_ratios(script: str, arguments: list[str], expected: str) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
