"""Who works on which images."""

from __future__ import annotations

from itertools import pairwise

import pytest

from synchist.cli.demo_plan import BATCH_SIZE, TRAINED_ON, Plan


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 16, 64])
def test_every_training_image_belongs_to_exactly_one_rank(world_size: int) -> None:
    plan = Plan(world_size, epochs=1)
    dealt = [image for rank in range(world_size) for image in plan.share(rank)]
    assert dealt == list(range(TRAINED_ON))
    assert all(plan.share(rank) for rank in range(world_size))


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_no_two_ranks_have_as_many_images_or_batches(world_size: int) -> None:
    plan = Plan(world_size, epochs=1)
    for rank, other in pairwise(range(world_size)):
        assert len(plan.share(rank)) > len(plan.share(other))
        assert plan.batches(rank) > plan.batches(other)


def test_the_last_batch_may_be_smaller() -> None:
    plan = Plan(world_size=2, epochs=1)
    assert [len(plan.share(rank)) % BATCH_SIZE for rank in range(2)] == [5, 8]
    assert [plan.batches(rank) for rank in range(2)] == [52, 39]
