"""A pytest plugin for skorch's own tests: `SYNCHIST_HISTORY=ours` puts our class in place."""

from __future__ import annotations

import functools
import os
import random
from typing import Any

import numpy as np
import pytest
import skorch.net
import torch

# Without generating and building C++: that takes a minute, and is no matter of a history.
torch.compile = functools.partial(torch.compile, backend="eager")

_manual_seed = torch.manual_seed


def _seed(number: int) -> Any:
    """As torch's, but that a seed taken from the clock is the same in both runs."""
    return _manual_seed(0 if number > 1_000_000_000 else number)


torch.manual_seed = _seed


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Every test begins with the same random numbers in both runs."""
    _manual_seed(0)
    np.random.seed(0)
    random.seed(0)


if os.environ["SYNCHIST_HISTORY"] == "ours":
    from synchist_skorch import SkorchHistory

    skorch.net.History = SkorchHistory
