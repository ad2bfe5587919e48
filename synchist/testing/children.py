"""What the tests let another process do."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

from ..stores.protocol import Store
from .promises import PROMPT, require

__all__ = ["set_in_a_process"]


def set_in_a_process(opener: Callable[[], Store], key: str, value: bytes, patience: float) -> None:
    """Set a value in a fresh process that then ends without a goodbye."""
    child = multiprocessing.get_context("spawn").Process(
        target=_set_and_vanish, args=(opener, key, value), daemon=True
    )
    child.start()
    child.join(patience)
    ended = child.exitcode is not None
    if not ended:
        child.kill()
        child.join()
    require(ended, f"a process that sets one value still ran after {patience:g} s", PROMPT)
    require(child.exitcode == 7, "a process could not open the store and set a value", PROMPT)


def _set_and_vanish(opener: Callable[[], Store], key: str, value: bytes) -> None:
    opener().set(key, value)
    os._exit(7)  # no destructors, no flushing: what a kill looks like from outside
