"""A pytest plugin for skorch's own tests: `SYNCHIST_HISTORY=ours` puts our class in place."""

from __future__ import annotations

import functools
import os

import skorch.net
import torch

# Without generating and building C++: that takes a minute, and is no matter of a history.
torch.compile = functools.partial(torch.compile, backend="eager")

if os.environ["SYNCHIST_HISTORY"] == "ours":
    from synchist_skorch import SkorchHistory

    skorch.net.History = SkorchHistory
