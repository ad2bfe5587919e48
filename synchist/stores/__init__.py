"""Stores: the protocol they follow, and two that need nothing but Python."""

from .directory import DirectoryStore
from .memory import MemoryStore
from .protocol import CheckStore, CloneStore, CompareSetStore, MultiGetStore, Store

__all__ = [
    "CheckStore",
    "CloneStore",
    "CompareSetStore",
    "DirectoryStore",
    "MemoryStore",
    "MultiGetStore",
    "Store",
]
