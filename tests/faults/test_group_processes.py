"""Real runs over the process group's own store, started in both of the usual ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).with_name("group_program.py"))


@pytest.mark.parametrize("how", ["launch", "torchrun"])
def test_every_sync_leaves_equal_digests_and_all_ranks_stop_at_the_same_epoch(how: str) -> None:
    world = 4  # two ranks: tests/adapters/torch
    if how == "launch":
        command = [PROGRAM, "launch", str(world)]
    else:
        run = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
        command = [*run, PROGRAM]
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )
    assert done.returncode == 0, done.stderr
    found = sorted(json.loads(line) for line in done.stdout.splitlines())
    assert [rank for rank, *_ in found] == list(range(world))
    _, digests, stopped, rows = found[0]
    assert all(rest == [digests, stopped, rows] for _, *rest in found)
    assert len(set(digests)) == 5
    assert stopped == 4
    assert rows == sum(2 + rank for rank in range(world))
