"""What each rank of the demo works on: plain arithmetic, the same for everyone who asks."""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["BATCH_SIZE", "EVALUATED", "IMAGES", "PATIENCE", "TRAINED_ON", "Plan"]

IMAGES: Final = 1797
"""Handwritten digits in scikit-learn."""
EVALUATED: Final = 360
"""Images that rank 0 evaluates on."""
TRAINED_ON: Final = IMAGES - EVALUATED
BATCH_SIZE: Final = 16
PATIENCE: Final = 3
"""Epochs without a better accuracy after which all ranks stop."""


@attrs.frozen
class Plan:
    """One run.

    Attributes:
        world_size: number of ranks.
        epochs: stop after this many at the latest.
        address: of the store, as `synchist_torch.open_store` takes it; None for that of the process
            group.
    """

    world_size: int
    epochs: int
    address: str | None = None

    def share(self, rank: int) -> range:
        """The training images of a rank. Lower ranks get more.

        >>> [len(Plan(world_size=2, epochs=1).share(rank)) for rank in range(2)]
        [821, 616]
        """
        weights = [2 * self.world_size - r for r in range(self.world_size)]
        first, last = sum(weights[:rank]), sum(weights[: rank + 1])
        total = sum(weights)
        return range(TRAINED_ON * first // total, TRAINED_ON * last // total)

    def batches(self, rank: int) -> int:
        """Batches of a rank in each epoch; the last one may be smaller."""
        return -(-len(self.share(rank)) // BATCH_SIZE)
