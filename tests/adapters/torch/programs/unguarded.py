"""Calls launch() whenever it is imported, so in every process that it starts too."""

from __future__ import annotations

import sys

import rank_functions

from synchist_torch import launch

if "pytest" not in sys.modules:  # pytest imports this file to look for examples
    launch(rank_functions.add, 1, 2, world_size=1)
