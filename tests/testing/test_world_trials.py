"""Thousands of runs in simulated worlds, and broken protocols that they have to notice.

`SYNCHIST_TRIALS=20000` asks for that many runs; a seed that fails is replayed with
`run_trial(seed)`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from synchist.testing import run_trial

TRIALS = int(os.environ.get("SYNCHIST_TRIALS", "240"))
PARTS = 4
MOST_SEEDS = 240  # that a broken protocol may survive

spec = importlib.util.spec_from_file_location(
    "synchist_broken_protocols", Path(__file__).with_name("broken_protocols.py")
)
assert spec is not None
assert spec.loader is not None
broken_protocols = importlib.util.module_from_spec(spec)
spec.loader.exec_module(broken_protocols)
BROKEN: list[Callable[[pytest.MonkeyPatch], None]] = broken_protocols.BROKEN


pytestmark = pytest.mark.usefixtures("no_patience")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual minutes pass in every run, and late ranks are warned of."""
    monkeypatch.setattr(logging.getLogger("synchist"), "disabled", True)


@pytest.mark.timeout(6 * 3600 if TRIALS > 1000 else 300)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_holds_in_every_world(part: int) -> None:
    problems = []
    for seed in range(part, TRIALS, PARTS):
        problems += run_trial(seed)
    assert problems == []


def test_a_trial_replays() -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken_protocols.merges_in_order_of_arrival(patch)
        first = run_trial(0)
        assert first
        assert [p[:60] for p in run_trial(0)] == [p[:60] for p in first]


@pytest.mark.parametrize("breaks", BROKEN, ids=lambda b: str(b.__name__))
def test_a_broken_protocol_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    assert any(run_trial(seed) for seed in range(MOST_SEEDS)), f"{breaks.__doc__} Not noticed."
