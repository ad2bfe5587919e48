"""A training history (epochs, batches, recorded values) that is the same on every process."""

from ._version import __version__
from .decisions import Best
from .errors import (
    CorruptDataError,
    DivergenceError,
    NotSyncedError,
    RankFailedError,
    StoreError,
    SynchistError,
    SynchistWarning,
    SyncTimeoutError,
    TooLargeError,
    UnsupportedTypeError,
    UsageError,
)
from .history import History
from .stores import DirectoryStore, MemoryStore, Store

__all__ = [
    "Best",
    "CorruptDataError",
    "DirectoryStore",
    "DivergenceError",
    "History",
    "MemoryStore",
    "NotSyncedError",
    "RankFailedError",
    "Store",
    "StoreError",
    "SyncTimeoutError",
    "SynchistError",
    "SynchistWarning",
    "TooLargeError",
    "UnsupportedTypeError",
    "UsageError",
    "__version__",
]
