"""The console script `synchist` (extra: `synchist[cli]`)."""

from .entry import main

__all__ = ["main"]
