"""synchist for skorch: a history that is the same on every process, and nets that decide alike."""

from synchist_skorch.history import SkorchHistory
from synchist_skorch.mixin import SyncedHistoryMixin

__all__ = ["SkorchHistory", "SyncedHistoryMixin"]
