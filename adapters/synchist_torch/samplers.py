"""How many samples of a batch are real, and how many DistributedSampler's padding."""

from __future__ import annotations

from collections.abc import Sized

from torch.utils.data import DistributedSampler

from synchist import UsageError

__all__ = ["real_batch_sizes"]


def real_batch_sizes(sampler: Sized, batch_size: int, *, drop_last: bool = False) -> list[int]:
    """Per batch of this rank, the number of samples that are not padding.

    `DistributedSampler` repeats samples until every rank has as many; a mean weighted by the plain
    batch size counts these twice. It puts the repeated samples behind all others, shuffled or not,
    and deals the whole out in turn (rank, rank + num_replicas, ...). So a sample is padding exactly
    when its place in the common order is `len(dataset)` or later, which needs no look at the data.
    Does not communicate.

    >>> real_batch_sizes(DistributedSampler(range(5), num_replicas=2, rank=1), batch_size=2)
    [2, 0]
    >>> real_batch_sizes(range(5), batch_size=2)
    [2, 2, 1]

    Args:
        sampler: a `DistributedSampler`, or any other sampler with a length, of which no sample is
            padding.
        batch_size: as given to the `DataLoader`.
        drop_last: as given to the `DataLoader`: whether a last, smaller batch is left out. The
            sampler's own `drop_last` is read from the sampler.

    Returns:
        One number per batch, in order; 0 for a batch of padding only.

    Raises:
        UsageError: `batch_size` is not a positive int, or `sampler` has no length.
    """
    if type(batch_size) is not int or batch_size < 1:
        raise UsageError(f"batch_size must be an int of 1 or more, got {batch_size!r}")
    if not isinstance(sampler, Sized):
        raise UsageError(f"real_batch_sizes needs a sampler with a length, got {sampler!r}")
    samples = real = len(sampler)
    if isinstance(sampler, DistributedSampler):
        dataset = sampler.dataset
        assert isinstance(dataset, Sized)  # DistributedSampler has asked for its length
        # The places of this rank that lie before the padding.
        real = min(samples, len(range(sampler.rank, len(dataset), sampler.num_replicas)))
    ends = (
        range(batch_size, samples + 1, batch_size)
        if drop_last
        else range(batch_size, samples + batch_size, batch_size)
    )
    return [min(batch_size, real - end + batch_size) for end in ends]
