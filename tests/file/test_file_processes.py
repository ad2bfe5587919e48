"""Files between real processes: several ranks go on from one, and kills leave one that opens."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from synchist import History

PROGRAM = Path(__file__).parent / "rank_program.py"


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_rank_loads_the_file_and_they_go_on(tmp_path: Path) -> None:
    """Four runs, each from the file of the one before; the number of ranks changes."""
    told: list[str] = []
    for epochs, world_size in ((2, 2), (4, 2), (5, 3), (7, 1)):
        if world_size == 1:
            h = History.load(tmp_path / "run.synchist")
            assert (h.rank, h.world_size) == (0, 3)
            assert [len(h[n, "batches"]) for n in range(5)] == [5, 5, 5, 5, 9]
            break
        ranks = [start("go_on", tmp_path, rank, world_size, epochs) for rank in range(world_size)]
        outputs = [rank.communicate(timeout=100) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * world_size, outputs
        assert len({out for out, _ in outputs}) == 1
        told.append(outputs[0][0].strip())
        h = History.load(tmp_path / "run.synchist")
        assert told[-1] == f"{epochs} {h.digest()}"


@pytest.mark.skipif(sys.platform == "win32", reason="a killed process leaves files open there")
def test_a_save_that_is_killed_leaves_the_file_of_the_last_one(tmp_path: Path) -> None:
    rng = random.Random(1)
    for _ in range(5):
        saver = start("save_for_ever", tmp_path)
        assert saver.stdout is not None
        for _ in range(rng.randrange(1, 30)):
            saved = int(saver.stdout.readline())
        saver.kill()
        rest, _ = saver.communicate(timeout=60)
        finished = [saved, *map(int, rest.split("\n")[:-1])]
        h = History.load(tmp_path / "run.synchist")
        assert len(h) in (finished[-1], finished[-1] + 1)  # the last one may not have been told
        assert [len(h[n, "batches"]) for n in range(len(h))] == [200] * len(h)
        (tmp_path / "run.synchist").unlink()
