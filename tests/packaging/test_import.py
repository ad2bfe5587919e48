"""What `import synchist` brings along, and what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE_PACKAGES = Path(pytest.__file__).parents[1]

HEAVY = ["click", "flair", "hypothesis", "numpy", "pytest", "rich", "sklearn", "skorch", "torch"]


def python(code: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
    """What a fresh interpreter prints when it runs `code`; its error, if any, becomes ours."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def only_dependencies(tmp_path: Path) -> Path:
    """A folder with what the core may need, attrs and msgpack, and nothing else."""
    folder = tmp_path / "dependencies"
    folder.mkdir()
    for name in ("attr", "attrs", "msgpack"):
        (folder / name).symlink_to(SITE_PACKAGES / name)
    return folder


def copy_of_synchist(folder: Path) -> None:
    """`synchist`, put into `folder` the way somebody would vendor it."""
    for source in sorted((ROOT / "synchist").rglob("*")):
        target = folder / "synchist" / source.relative_to(ROOT / "synchist")
        if source.is_file() and source.suffix != ".pyc":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


@pytest.mark.parametrize("package", ["synchist", "synchist.codec", "synchist.stores"])
def test_importing_the_core_loads_nothing_heavy(package: str) -> None:
    code = f"import sys, {package}; print(*(name for name in {HEAVY} if name in sys.modules))"
    assert python(code) == ""


# Imports every module below argv[1], but for the parts that are extras.
IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path[:0] = sys.argv[2:]
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not {"cli", "testing", "__main__"} & set(module.name.split(".")):
        importlib.import_module(module.name)
"""


def test_the_core_needs_attrs_and_msgpack_only(tmp_path: Path, only_dependencies: Path) -> None:
    """As a plain folder on the path: no installation, no metadata, no other package."""
    copy_of_synchist(tmp_path / "lib")
    where = python(
        IMPORT_ALL + "print(package.__file__)",
        "synchist",
        str(tmp_path / "lib"),
        str(only_dependencies),
        options=("-S", "-E"),
    )
    assert where == str(tmp_path / "lib" / "synchist" / "__init__.py")


def test_a_copy_of_the_folder_works_inside_another_package(
    tmp_path: Path, only_dependencies: Path
) -> None:
    """Vendored as `myproj._vendor.synchist`: nothing may ask for a top-level `synchist`."""
    vendor = tmp_path / "lib" / "myproj" / "_vendor"
    copy_of_synchist(vendor)
    (vendor / "__init__.py").touch()
    (vendor.parent / "__init__.py").touch()
    loaded = python(
        IMPORT_ALL + "print('synchist' in sys.modules, package.History.__module__)",
        "myproj._vendor.synchist",
        str(tmp_path / "lib"),
        str(only_dependencies),
        options=("-S", "-E"),
    )
    assert loaded.startswith("False myproj._vendor.synchist.")


def test_the_core_imports_itself_relatively() -> None:
    """Says which line breaks the promise above, also in the parts that are extras."""
    absolute = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "synchist").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.level == 0
            else [alias.name for alias in node.names if isinstance(node, ast.Import)]
        )
        if name.split(".")[0] == "synchist"
    ]
    assert absolute == []
