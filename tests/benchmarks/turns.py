"""Timing several ways to do something in turn, so that all of them meet the same noise."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Run", "medians"]

Run = Callable[[], Any]


def medians(repeats: int, runs: Mapping[str, Run]) -> dict[str, float]:
    """Seconds of each: the median of `repeats`, after one that does not count."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            result = run()
            seconds = time.perf_counter() - began
            del result
            if repeat:
                found[name].append(seconds)
    return {name: statistics.median(times) for name, times in found.items()}
