"""Checks of what a history is made with."""

from __future__ import annotations

import os
from typing import Any

from .errors import UsageError
from .stores import Store

__all__ = ["group_of", "job_of_launcher", "seconds"]


def group_of(store: Store | None, rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Checked rank and world size."""
    if store is None and rank is None and world_size is None:
        return 0, 1
    if rank is None or world_size is None:
        raise UsageError("give store=, rank= and world_size= together, or none of them")
    if not isinstance(rank, int) or not isinstance(world_size, int) or not 0 <= rank < world_size:
        raise UsageError(f"rank {rank!r} of world_size {world_size!r}: 0 <= rank < world_size")
    if store is not None:
        missing = [m for m in ("set", "get", "wait", "delete_key") if not hasattr(store, m)]
        if missing:
            raise UsageError(
                f"{type(store).__name__} is no store: it lacks {', '.join(missing)} (see Store)"
            )
    return rank, world_size


def seconds(timeout: Any) -> float:
    """A checked timeout."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise UsageError(f"timeout is in seconds, 0 or more, got {timeout!r}")
    return float(timeout)


def job_of_launcher() -> str | None:
    """Identity of the job, as its launcher tells it."""
    for variable in ("SYNCHIST_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        found = os.environ.get(variable)
        if found and found != "none":
            return found
    return None
