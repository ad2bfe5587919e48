"""synchist for PyTorch: histories from the process group, a launcher, stores, real batch sizes."""

from synchist_torch.history import distributed_history
from synchist_torch.launcher import launch
from synchist_torch.samplers import real_batch_sizes
from synchist_torch.stores import open_store

__all__ = ["distributed_history", "launch", "open_store", "real_batch_sizes"]
