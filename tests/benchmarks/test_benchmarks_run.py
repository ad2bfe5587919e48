"""The benchmarks run, with sizes so small that their figures mean nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def program(script: str) -> list[str]:
    """How to start it: some of them import their neighbours, so they are modules."""
    if "from .turns" in (HERE / script).read_text():
        return ["-m", f"tests.benchmarks.{script.removesuffix('.py')}"]
    return [str(HERE / script)]


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
        ("bench_codec.py", ["--megabytes=1", "--rows=5", "--repeats=1"], "decode / a.copy()"),
        (
            "bench_skorch.py",
            ["--epochs=1", "--batches=4", "--repeats=1"],
            "SkorchHistory with the mixin",
        ),
        ("bench_file.py", ["--rows=5", "--floats=50", "--repeats=1"], "History.load / numpy.load"),
    ],
)
def test_benchmark_prints_its_ratios(script: str, arguments: list[str], expected: str) -> None:
    done = subprocess.run(
        [sys.executable, *program(script), *arguments],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
