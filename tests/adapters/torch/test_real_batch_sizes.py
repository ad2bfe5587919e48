"""real_batch_sizes() against counting the repeats that a real DistributedSampler makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler

from synchist import UsageError
from synchist_torch import real_batch_sizes


def counted(
    samplers: Sequence[DistributedSampler[int]], batch_size: int, drop_last: bool
) -> list[list[int]]:
    """Per rank and batch: how many samples nobody had before them in the common order.

    That order is one sample of every rank in turn.
    """
    shards = [list(sampler) for sampler in samplers]
    seen: set[int] = set()
    new: list[list[bool]] = [[] for _ in samplers]
    for place in range(len(shards[0])):
        for rank, shard in enumerate(shards):
            new[rank].append(shard[place] not in seen)
            seen.add(shard[place])
    return [[sum(batch) for batch in BatchSampler(flags, batch_size, drop_last)] for flags in new]


@given(
    length=st.integers(0, 40),
    world_size=st.integers(1, 9),
    batch_size=st.integers(1, 12),
    shuffle=st.booleans(),
    sampler_drops=st.booleans(),
    loader_drops=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_it_agrees_with_counting(
    length: int,
    world_size: int,
    batch_size: int,
    shuffle: bool,
    sampler_drops: bool,
    loader_drops: bool,
    epoch: int,
) -> None:
    samplers = [
        DistributedSampler[int](
            range(length),  # type: ignore[arg-type]
            world_size,
            rank,
            shuffle=shuffle,
            drop_last=sampler_drops,
        )
        for rank in range(world_size)
    ]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    sizes = [real_batch_sizes(sampler, batch_size, drop_last=loader_drops) for sampler in samplers]
    assert sizes == counted(samplers, batch_size, loader_drops)
    if not sampler_drops and not loader_drops:
        assert sum(map(sum, sizes)) == length  # every sample once


@given(length=st.integers(1, 40), batch_size=st.integers(1, 12), drop_last=st.booleans())
def test_other_samplers_have_no_padding(length: int, batch_size: int, drop_last: bool) -> None:
    for sampler in (SequentialSampler(range(length)), RandomSampler(range(length))):
        assert real_batch_sizes(sampler, batch_size, drop_last=drop_last) == [
            len(batch) for batch in BatchSampler(sampler, batch_size, drop_last)
        ]


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, True, None])
def test_a_batch_size_that_is_none_is_refused(batch_size: Any) -> None:
    with pytest.raises(UsageError, match="batch_size must be an int of 1 or more"):
        real_batch_sizes(range(3), batch_size)


def test_a_sampler_without_a_length_is_refused() -> None:
    with pytest.raises(UsageError, match="a sampler with a length"):
        real_batch_sizes(iter(range(3)), 2)  # type: ignore[arg-type]
