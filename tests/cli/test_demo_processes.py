"""`synchist demo` for real: processes, stores, pipes, terminals, and what goes wrong."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

EPOCH = re.compile(r"^epoch +(\d+)   loss (\S+)   valid_acc (\S+)", re.MULTILINE)
DIGEST = re.compile(r"rank (\d+) +(?:\x1b\[[\d;]*m)?([0-9a-f]{64})")
# The first two epochs on two ranks, the same in every run, whatever the store. Other processors
# may round otherwise.
FIRST_LOSSES = [1.8226, 0.8551]


def left_behind(folder: Path) -> list[str]:
    """What the demo left in its folder for temporary files, where torch has one of its own too."""
    return [name for name in os.listdir(folder / "temporary") if "synchist" in name]


def losses(shown: str) -> list[float]:
    return [float(loss) for _, loss, _ in EPOCH.findall(shown)]


def test_a_run_stops_early_on_all_ranks_and_saves_the_one_history(
    synchist: Run, tmp_path: Path
) -> None:
    """With the defaults: two ranks, tcp. Piped, so in plain text."""
    file = tmp_path / "history.json"
    done = synchist("demo", "--output", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout

    epochs = EPOCH.findall(done.stdout)
    assert [int(epoch) for epoch, _, _ in epochs] == list(range(len(epochs)))
    assert 4 <= len(epochs) < 30
    assert losses(done.stdout)[:2] == pytest.approx(FIRST_LOSSES, rel=1e-2)
    assert f"Both ranks stopped after {len(epochs)} epochs: valid_acc got" in done.stdout

    digests = dict(DIGEST.findall(done.stdout))
    assert sorted(digests) == ["0", "1"]
    assert len(set(digests.values())) == 1

    saved = json.loads(file.read_text())
    assert [f"{epoch['valid_acc']:.4f}" for epoch in saved] == [acc for _, _, acc in epochs]
    for epoch, loss in zip(saved, losses(done.stdout), strict=True):
        rows = epoch["batches"]
        assert len(rows) == 52 + 39
        images = sum(row["batch_size"] for row in rows)
        assert images == 821 + 616
        mean = math.fsum(row["loss"] * row["batch_size"] for row in rows) / images
        assert mean == pytest.approx(loss, abs=1e-4)
    assert sorted(os.listdir(tmp_path)) == ["history.json", "temporary"]
    assert left_behind(tmp_path) == []


def test_three_ranks_on_a_file_store(synchist: Run, tmp_path: Path) -> None:
    done = synchist("demo", "--world-size", "3", "--epochs", "2", "--store", "file")
    assert (done.returncode, done.stderr) == (0, "")
    assert "store: file" in done.stdout
    assert "All 3 ranks stopped after 2 epochs, the most that --epochs allows." in done.stdout
    digests = dict(DIGEST.findall(done.stdout))
    assert sorted(digests) == ["0", "1", "2"]
    assert len(set(digests.values())) == 1
    assert left_behind(tmp_path) == []


def test_a_terminal_sees_colours_and_lines_that_fit(
    in_a_terminal: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """On a directory store: the same losses as over tcp."""
    code, shown = in_a_terminal("demo", "--epochs", "2", "--store", "directory", columns=80)
    assert code == 0
    assert "\x1b[32m" in shown
    assert losses(shown.replace("\r", "")) == pytest.approx(FIRST_LOSSES, rel=1e-2)
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert "────" in plain
    assert len(set(dict(DIGEST.findall(shown)).values())) == 1
    assert left_behind(tmp_path) == []


@contextmanager
def after_the_first_epoch(
    environment: Mapping[str, str], *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """A demo that has just said how its first epoch went."""
    with subprocess.Popen(
        [sys.executable, "-m", "synchist", "demo", *arguments],
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            while not process.stdout.readline().startswith("epoch"):
                assert process.poll() is None
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_every_process_and_gives_exit_code_130(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    with after_the_first_epoch(environment, "--store", "directory") as process:
        assert left_behind(tmp_path) != []
        process.send_signal(signal.SIGINT)
        # Every process holds the pipes, so they end when the last process does.
        _, error = process.communicate(timeout=10)
    assert process.returncode == 130
    assert error.strip() == ""
    assert left_behind(tmp_path) == []


# Stands in for scikit-learn; rank 1 finds no images.
NO_IMAGES = """
import os

def load_digits(return_X_y):
    if os.environ["RANK"] == "1":
        raise ValueError("there are no images here")
    import numpy
    return numpy.zeros((1797, 64)), numpy.zeros(1797, dtype=int)
"""


def test_a_rank_that_fails_is_named_with_the_cause(synchist: Run, tmp_path: Path) -> None:
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").touch()
    (tmp_path / "sklearn" / "datasets.py").write_text(NO_IMAGES)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = synchist("demo", PYTHONPATH=path)
    cause = "rank 1 failed: ValueError: there are no images here"
    assert (done.returncode, done.stderr) == (1, f"synchist demo: {cause} (--debug shows where)\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell's pipes")
def test_a_reader_that_leaves_ends_the_demo_quietly(environment: Mapping[str, str]) -> None:
    with after_the_first_epoch(environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=10) == 1
