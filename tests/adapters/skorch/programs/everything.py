"""All programs one after another, because starting processes with torch takes seconds."""

from __future__ import annotations

from typing import Any

import accelerated
import decisions
import faults
import habits


def run(folder: str) -> dict[str, Any]:
    """What each program found on this rank."""
    return {
        "faults": faults.run(),
        "decide": decisions.decide(folder),
        "survive": decisions.survive(folder),
        "ragged": decisions.ragged(),
        "disagree": decisions.disagree(),
        "habits": habits.run(folder),
        "accelerated": accelerated.accelerated(folder),
    }
