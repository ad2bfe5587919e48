"""Import every module of the named packages, and see that they come from the given folder.

usage: import_all.py FOLDER [--extras] PACKAGE...

Without `--extras` the parts that need an extra (the console script, the kit for store authors) are
left out.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

EXTRAS = ("synchist.cli", "synchist.testing", "synchist.__main__")


def main(folder: str, *arguments: str) -> None:
    """Import them all; an error is the exit code."""
    extras = "--extras" in arguments
    for name in arguments:
        if name == "--extras":
            continue
        package = importlib.import_module(name)
        names = [name]
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if module.name.endswith("__main__") or (module.name.startswith(EXTRAS) and not extras):
                continue
            importlib.import_module(module.name)
            names.append(module.name)
        if not Path(str(package.__file__)).is_relative_to(folder):
            sys.exit(f"{name} came from {package.__file__}, not from {folder}")
        print(f"{name}: {len(names)} modules")


main(*sys.argv[1:])
