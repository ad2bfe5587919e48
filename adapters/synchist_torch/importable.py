"""What `launch` sends to the processes it starts, checked before they start.

A started process loads the function and the classes of its arguments by importing their module.
Lambdas, functions inside functions, and what was typed into an interactive session are in no module
that could be imported.
"""

from __future__ import annotations

import inspect
import io
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from synchist import UsageError

__all__ = ["pack"]

_ADVICE = (
    "put it at the top level of a .py file, and the call of launch() under `if __name__ == "
    '"__main__":`'
)


def pack(fn: Callable[..., Any], args: Sequence[Any]) -> bytes:
    """Pickle `fn` and `args`.

    Raises:
        UsageError: another process could not import or rebuild them; the message says what to do.
    """
    if not callable(fn):
        raise UsageError(f"launch() needs a function, got {fn!r}")
    _dump(fn, "fn")
    for number, arg in enumerate(args, start=1):
        _dump(arg, f"argument {number} of fn")
    return _dump((fn, tuple(args)), "fn and its arguments")  # once more, for what they share


def _dump(value: object, what: str) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    except UsageError:
        raise
    except Exception as error:  # pickling runs code of the values
        raise UsageError(
            f"launch() cannot send {what} to another process: {type(error).__name__}: {error}"
        ) from error
    return file.getvalue()


class _Pickler(pickle.Pickler):
    """Looks at every function and class on the way."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type):
            why = _not_importable(obj)
            if why:
                raise UsageError(
                    f"launch() starts new processes, and they cannot import {obj.__qualname__}: "
                    f"{why}; {_ADVICE}"
                )
        return NotImplemented


def _not_importable(obj: FunctionType | type) -> str | None:
    name = obj.__qualname__
    if name.rpartition(".")[2] == "<lambda>":
        return "it is a lambda"
    if "<locals>" in name:
        return f"it is defined inside {name.partition('.<locals>')[0]}()"
    if obj.__module__ == "__main__":
        return _not_in_main(obj)
    top = obj.__module__.partition(".")[0]
    if top not in sys.builtin_module_names and not _can_be_found(top):
        return f"its module {obj.__module__} is in no folder of sys.path"
    return None


def _not_in_main(obj: FunctionType | type) -> str | None:
    """Started processes run the file of `__main__` again, so there must be one that defines it."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is None and not os.path.isfile(
        getattr(main, "__file__", None) or ""
    ):
        return "it was typed into an interactive session or a notebook"
    if isinstance(obj, FunctionType):
        file = inspect.unwrap(obj).__code__.co_filename
        if not os.path.isfile(file):  # such as <stdin>, after `python -i file.py`
            return "it was typed into an interactive session or a notebook"
    return None


def _can_be_found(module: str) -> bool:
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return any(find is not None and find(module, None) is not None for find in finders)
