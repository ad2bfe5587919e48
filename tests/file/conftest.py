"""What of a history a file has to bring back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from synchist import History
from synchist.codec import encode


@pytest.fixture(scope="session")
def shown() -> Callable[[History], bytes]:
    """`shown(h)`: everything that can be read of a history, to the bit."""

    def show(h: History) -> bytes:
        return encode(
            [
                h.digest(),
                (h.rank, h.world_size, h.name),
                h.synced.to_list(),
                h.local.to_list(),
                dict(h.local.attributes),
                [view.to_list() for view in h.ranks.values()],
            ]
        )

    return show
