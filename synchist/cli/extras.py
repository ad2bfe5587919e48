"""Which packages a command needs, and how to say that they are missing."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

__all__ = ["MODULES", "missing_sentence"]

MODULES: Final[Mapping[str, Mapping[str, str]]] = {
    "cli": {"click": "click", "rich": "rich"},
    "demo": {
        "click": "click",
        "rich": "rich",
        "torch": "torch",
        "numpy": "numpy",
        "sklearn": "scikit-learn",
        "synchist_torch": "synchist_torch",
    },
}
"""By extra, the modules it brings and the names under which people know them."""


def missing_sentence(command: str, extra: str) -> str | None:
    """One sentence that says what `command` lacks and how to install it; None if it lacks nothing.

    Looks for the modules of the extra without importing them.
    """
    lacking = [name for module, name in MODULES[extra].items() if not _is_there(module)]
    if not lacking:
        return None
    names = ", ".join(lacking[:-1]) + " and " + lacking[-1] if lacking[1:] else lacking[0]
    verb = "are" if lacking[1:] else "is"
    return f'{command} needs {names}, which {verb} not installed: pip install "synchist[{extra}]"'


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a finder that refuses it, a module without a spec
        return False
