"""What every rank of the demo does. Runs in the processes that `synchist_torch.launch` starts."""

from __future__ import annotations

import time

import attrs
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms import Join
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from synchist_torch import distributed_history, open_store

from ..history import History
from .demo_plan import BATCH_SIZE, IMAGES, PATIENCE, TRAINED_ON, Plan
from .demo_report import console, progress

__all__ = ["Outcome", "train"]

_SEED = 0
_LEARNING_RATE = 0.05


@attrs.frozen
class Outcome:
    """What a rank ends with.

    Attributes:
        digest: that of its history.
        history: the history itself, without its store.
    """

    digest: str
    history: History


def train(plan: Plan) -> Outcome:
    """Train, evaluate on rank 0, stop when all ranks see that it gets no better."""
    rank = dist.get_rank()
    images, labels = _digits()
    mine = torch.tensor(plan.share(rank))
    torch.manual_seed(_SEED)
    model = DistributedDataParallel(_network())
    # Plain SGD, because it has no state: a rank that runs out of batches before the others gets
    # their weights at the end of the epoch, but would not get their momentum.
    optimizer = torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE)
    terminal = console()
    with _history(plan, rank) as h:
        for epoch in range(plan.epochs):
            began = time.perf_counter()
            h.new_epoch(lr=_LEARNING_RATE)
            order = mine[torch.randperm(len(mine), generator=_generator(1 + epoch))]
            _train_epoch(h, model, optimizer, images, labels, order)
            if rank == 0:
                h.record("valid_acc", _accuracy(model, images[TRAINED_ON:], labels[TRAINED_ON:]))
            h.record("dur", time.perf_counter() - began)
            h.sync()
            if rank == 0:
                terminal.print(progress(h, epoch))
            if h.epochs_since_best("valid_acc", mode="max") >= PATIENCE:
                break
    return Outcome(h.digest(), h)


def _history(plan: Plan, rank: int) -> History:
    reduce = {"dur": "max"}
    if plan.address is None or plan.world_size == 1:
        return distributed_history(reduce=reduce)
    store = open_store(plan.address, rank=rank, world_size=plan.world_size)
    return distributed_history(store=store, reduce=reduce)


def _train_epoch(
    h: History,
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    order: Tensor,
) -> None:
    with Join([model]):  # the ranks have different numbers of batches
        for batch in torch.split(order, BATCH_SIZE):
            optimizer.zero_grad()
            loss = cross_entropy(model(images[batch]), labels[batch])
            torch.autograd.backward(loss)
            optimizer.step()
            h.new_batch(loss=loss, batch_size=len(batch))


@torch.no_grad()
def _accuracy(model: DistributedDataParallel, images: Tensor, labels: Tensor) -> float:
    # Not through DistributedDataParallel: the other ranks do not take part.
    right = model.module(images).argmax(dim=1) == labels
    return float(right.double().mean())


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _digits() -> tuple[Tensor, Tensor]:
    """All images (1797 x 1 x 8 x 8, around zero) and their digits, in a fixed random order."""
    from sklearn.datasets import load_digits  # here, because the launching process can do without

    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(IMAGES, generator=_generator(_SEED))
    pixels = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8
    return (pixels - pixels.mean())[order], torch.tensor(labels)[order]
