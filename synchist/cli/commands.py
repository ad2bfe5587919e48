"""The commands and their options."""

from __future__ import annotations

import os
from pathlib import Path

import click

from .._version import __version__

__all__ = ["synchist"]

MAX_RANKS = 64  # more rows than that do not belong on every rank


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="synchist", message="%(prog)s %(version)s")
def synchist() -> None:
    """A training history that is the same on every process of a distributed run."""


def _writable_place(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Say what is wrong before the training, not after it."""
    if path is not None:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise click.BadParameter(f"there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise click.BadParameter(f"no permission to write to the folder {folder}")
    return path


@synchist.command(short_help="Train on several processes that share one history.")
@click.option(
    "--world-size",
    type=click.IntRange(1, MAX_RANKS),
    default=2,
    show_default=True,
    help="Number of processes.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Stop after this many epochs at the latest.",
)
@click.option(
    "--store",
    type=click.Choice(["tcp", "file", "directory"]),
    default="tcp",
    show_default=True,
    help="What the processes share their records through: the store of their process group, a "
    "FileStore, or a DirectoryStore, both in a temporary folder.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=_writable_place,
    help="Write the history to this file: if it ends in .synchist, as History.load reads it, else "
    'as JSON, in which NaN and infinities become "NaN", "Infinity" and "-Infinity".',
)
@click.option("--debug", is_flag=True, help="When a rank fails, show its whole traceback.")
def demo(world_size: int, epochs: int, store: str, output: Path | None, debug: bool) -> int:
    """Train on several processes, and show that all of them have the same history.

    Trains a small network on the 1797 handwritten digits that scikit-learn brings along, with
    DistributedDataParallel on the CPU of this machine. Every process trains on a share of another
    size, only rank 0 evaluates, and all stop early at the same epoch. Downloads nothing, and saves
    nothing unless --output is given.

    Exit codes: 0 all ranks agree, 1 they do not or one failed, 2 wrong arguments, 130 interrupted.
    """
    from .demo import run

    return run(world_size=world_size, epochs=epochs, store=store, output=output, debug=debug)
