"""The version, once: the build reads it here, and so does `synchist.__version__`."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
