"""Launches two ranks that wait for ever, each with a process of its own.

usage: waits.py FOLDER
"""

from __future__ import annotations

import sys

import rank_functions

from synchist_torch import launch

if __name__ == "__main__":
    launch(rank_functions.wait_for_ever, sys.argv[1])
