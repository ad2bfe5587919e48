"""`synchist demo`: starts the ranks, waits for them, shows what they ended with."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch.distributed as dist
from rich.console import Console

from ..errors import SynchistError
from ..history import History
from .demo_plan import Plan
from .demo_report import console, digests, disagreement, ending, introduction, table
from .json_file import write_json

__all__ = ["report", "run"]


def run(*, world_size: int, epochs: int, store: str, output: Path | None, debug: bool) -> int:
    """Run the demo; returns the exit code.

    Args:
        world_size: number of processes.
        epochs: of training, at the latest.
        store: "tcp", "file" or "directory".
        output: file for the history, as JSON; None for none.
        debug: whether to show the traceback of a rank that fails.
    """
    if not (dist.is_available() and dist.is_gloo_available()):
        return _fail("this build of torch cannot train on several processes: it comes without gloo")
    from synchist_torch import launch

    from .demo_training import train

    out = console()
    with tempfile.TemporaryDirectory(prefix="synchist-demo-") as folder:
        address = {"tcp": None, "file": f"file://{folder}/store", "directory": f"dir://{folder}"}
        plan = Plan(world_size, epochs, address[store])
        try:
            out.print(introduction(plan, store))
            outcomes = launch(train, plan, world_size=world_size)
            told = [outcome.digest for outcome in outcomes]
            return report(out, plan, outcomes[0].history, told, output)
        except BrokenPipeError:
            return 1
        except SynchistError as error:
            if isinstance(error.__cause__, BrokenPipeError):
                return 1  # whoever read our output has had enough of it
            message = str(error) if debug else str(error).partition("\n")[0]
            return _fail(message + ("" if debug else " (--debug shows where)"))


def report(
    out: Console, plan: Plan, history: History, told: Sequence[str], output: Path | None
) -> int:
    """Show how it went, and save it; returns the exit code.

    Args:
        out: where to show it.
        plan: what was asked for.
        history: rank 0's.
        told: the digest that each rank has of its own history.
        output: file for the history, as JSON; None for none. Written if the ranks agree.
    """
    out.print()
    out.print(table(history, out.width, lines=out.is_terminal))
    out.print()
    out.print(ending(history, plan))
    out.print(digests(told))
    trouble = disagreement(told)
    if trouble:
        return _fail(trouble + (f"; {output} was not written" if output else ""))
    if output:
        try:
            write_json(output, history.to_list())
        except OSError as error:
            return _fail(f"cannot write {output}: {error.strerror or error}")
        out.print(f"Saved in {output}")
    return 0


def _fail(message: str) -> int:
    print(f"synchist demo: {message}", file=sys.stderr)
    return 1
