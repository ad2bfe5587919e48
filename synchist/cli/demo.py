"""`synchist demo`: starts the ranks, waits for them, shows what they ended with."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ..errors import RankFailedError, SynchistError, UsageError
from ..history import History
from .demo_plan import Plan
from .demo_report import console, digests, disagreement, ending, introduction, table
from .json_file import write_json

if TYPE_CHECKING:
    from .demo_training import Outcome

__all__ = ["report", "run"]


def run(*, world_size: int, epochs: int, store: str, output: Path | None, debug: bool) -> int:
    """Run the demo; returns the exit code.

    Args:
        world_size: number of processes.
        epochs: of training, at the latest.
        store: "tcp", "file" or "directory".
        output: file for the history; None for none.
        debug: whether to show the traceback of a rank that fails.
    """
    out = console()
    with tempfile.TemporaryDirectory(prefix="synchist-demo-") as folder:
        address = {"tcp": None, "file": f"file://{folder}/store", "directory": f"dir://{folder}"}
        plan = Plan(world_size, epochs, address[store])
        try:
            out.print(introduction(plan, store))
            outcomes = _start(plan)  # seconds go by before the first line from there
            told = [outcome.digest for outcome in outcomes]
            return report(out, outcomes[0].history, told, output)
        except BrokenPipeError:
            return 1
        except SynchistError as error:
            if isinstance(error.__cause__, BrokenPipeError):
                return 1  # whoever read our output has had enough of it
            return _fail(_told(error, debug=debug))
        except OSError as error:
            if debug:
                raise
            return _fail(f"{error} (--debug shows where)")


def _start(plan: Plan) -> Sequence[Outcome]:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_gloo_available()):
        raise UsageError("this build of torch cannot train on several processes: it has no gloo")
    from synchist_torch import launch

    from .demo_training import train

    return launch(train, plan, world_size=plan.world_size)


def report(out: Console, history: History, told: Sequence[str], output: Path | None) -> int:
    """Show how it went, and save it; returns the exit code.

    Args:
        out: where to show it.
        history: rank 0's.
        told: the digest that each rank has of its own history.
        output: file for the history, as JSON unless it ends in ".synchist"; None for none. Written
            if the ranks agree.
    """
    out.print()
    out.print(table(history, out.width, lines=out.is_terminal))
    out.print()
    out.print(ending(history))
    out.print(digests(told))
    trouble = disagreement(told)
    if trouble:
        return _fail(trouble + (f"; {output} was not written" if output else ""))
    if output:
        try:
            if output.suffix == ".synchist":
                history.save(output)
            else:
                write_json(output, history.to_list())
        except OSError as error:
            return _fail(f"cannot write {output}: {error.strerror or error}")
        out.print(f"Saved in {output}")
    return 0


def _told(error: SynchistError, *, debug: bool) -> str:
    """The error in one line; all of it, a rank's traceback included, with `debug`."""
    line, rest, _ = str(error).partition("\n")
    if debug or not isinstance(error, RankFailedError) or not rest:
        return str(error)
    return f"{line} (--debug shows where)"


def _fail(message: str) -> int:
    print(f"synchist demo: {message}", file=sys.stderr)
    return 1
