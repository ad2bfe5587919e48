"""accelerate's padding: samples that it repeats so that every process has as many batches.

It deals out batches in turn, and fills the last ones up with samples from the beginning. With
`remainder` = samples % (batch size x processes), and none missing where that is 0, the real samples
in process r's last batch are its first clip(remainder - r * batch_size, 0, batch_size).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["first_rows", "real_rows"]


def real_rows(accelerator: Any) -> int | None:
    """How many rows of the batch at hand are real, or None where all are.

    Args:
        accelerator: asked within the loop over a data loader that it prepared.
    """
    state = accelerator.gradient_state
    if not state.end_of_dataloader or state.remainder <= 0:
        return None
    if not getattr(accelerator, "even_batches", True):
        return None  # then nothing is filled up
    batch_size = state.active_dataloader.total_batch_size // accelerator.num_processes
    before = accelerator.process_index * batch_size
    real: int = min(max(state.remainder - before, 0), batch_size)
    return real


def first_rows(batch: Any, count: int) -> Any:
    """The first rows of what a batch consists of: tensors, arrays, or containers of them."""
    if isinstance(batch, Mapping):
        return {name: first_rows(part, count) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(first_rows(part, count) for part in batch)
    if isinstance(batch, list) and batch and not isinstance(batch[0], int | float | str):
        return [first_rows(part, count) for part in batch]
    return batch[:count]
