"""Where the console script starts: before anything that an extra brings is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from .extras import missing_sentence

__all__ = ["INTERRUPTED", "main"]

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C: 128 + the number of SIGINT, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the console script; returns its exit code.

    Args:
        arguments: the command line without the program's name; that of this process if None.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    demo = "demo" in arguments
    sentence = missing_sentence("synchist demo" if demo else "synchist", "demo" if demo else "cli")
    if sentence:
        print(sentence, file=sys.stderr)
        return 1
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: Sequence[str]) -> int:
    import click

    from .commands import synchist

    try:
        code = synchist.main(args=list(arguments), standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:  # what click makes of a KeyboardInterrupt
        return INTERRUPTED
    return code if isinstance(code, int) else 0
