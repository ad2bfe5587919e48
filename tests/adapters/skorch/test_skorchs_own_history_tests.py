"""What skorch's own history promises in one process, ours keeps: skorch's tests pass with it."""

from __future__ import annotations

from typing import Any

import pytest
from skorch.tests.test_history import TestHistory as TestsOfSkorch

from synchist import MemoryStore
from synchist_skorch import SkorchHistory


class OverAStore(SkorchHistory):
    """World size 1, over a store."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, store=MemoryStore(), rank=0, world_size=1)


class TestHistory(TestsOfSkorch):  # type: ignore[misc]
    @pytest.fixture(params=[SkorchHistory, OverAStore])
    def history_cls(self, request: pytest.FixtureRequest) -> Any:
        return request.param


del TestsOfSkorch
