"""numpy and torch: supported where they are installed, loaded only when a value needs them."""

from __future__ import annotations

import importlib
import sys
from typing import Final

from . import _numpy, _torch
from ._tables import COMPOSITES, LEAVES

__all__ = ["LIBRARY_OF_CODE", "knows", "load"]

_INSTALLERS: Final = {"numpy": _numpy.install, "torch": _torch.install}

LIBRARY_OF_CODE: Final = {
    **dict.fromkeys(_numpy.CODES, "numpy"),
    **dict.fromkeys(_torch.CODES, "torch"),
}
"""Extension code to the library it takes to read the value."""

_loaded: Final[set[str]] = set()


def load(library: str) -> bool:
    """Whether the library can be used; its types are then in the tables."""
    if library in _loaded:
        return True
    try:
        _INSTALLERS[library](importlib.import_module(library))
    except Exception:  # noqa: BLE001 - a broken installation is as good as none, and may raise anything
        return False
    _loaded.add(library)
    return True


def knows(kind: type) -> bool:
    """Whether the type is built in, or belongs to a library that this process has loaded."""
    if kind in LEAVES or kind in COMPOSITES:
        return True
    library = kind.__module__.partition(".")[0]
    # A value of the type exists, so its library is there already: nothing is imported here.
    if library not in _INSTALLERS or library in _loaded or library not in sys.modules:
        return False
    return load(library) and (kind in LEAVES or kind in COMPOSITES)
