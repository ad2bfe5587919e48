"""The reference has every public name, and pages name only what there is."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

import synchist

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PUBLIC = ["synchist", "synchist.codec", "synchist.stores", "synchist_skorch", "synchist_torch"]


def named_in_reference() -> set[str]:
    """Every identifier that the reference has in code: in a block, or between backticks."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES if "reference" in page.parts)
    code = re.findall(r"^```.*?^```$|`[^`\n]+`", text, flags=re.DOTALL | re.MULTILINE)
    return {name for piece in code for name in re.findall(r"[A-Za-z_]\w*", piece)}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_has_every_public_name(module: str) -> None:
    names = set(importlib.import_module(module).__all__) - {"__version__"}
    assert names - named_in_reference() == set()


def test_the_reference_has_every_method_and_attribute_of_a_history() -> None:
    names = {name for name, _ in inspect.getmembers(synchist.History) if name[0] != "_"}
    names |= {name for name in vars(synchist.History()) if name[0] != "_"}
    names |= set(inspect.signature(synchist.History).parameters)
    assert names - named_in_reference() == set()


def test_the_reference_has_every_attribute_of_an_error() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    for name in synchist.__all__:
        kind = getattr(synchist, name)
        if not (isinstance(kind, type) and issubclass(kind, synchist.SynchistError)):
            continue
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}`")]
        for attribute in vars(kind("")):
            assert f".{attribute}" in row, f"{name}.{attribute}"
        builtins = [base.__name__ for base in kind.__bases__ if base.__module__ == "builtins"]
        assert all(f"`{base}`" in row for base in builtins), name


def test_extras_that_pages_name_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    named = {
        extra
        for page in PAGES
        for found in re.findall(r"(?:synchist|\.)\[([a-z,]+)\]", page.read_text(encoding="utf-8"))
        for extra in found.split(",")
    }
    assert named <= extras


def test_commands_and_options_of_synchist_that_pages_name_exist() -> None:
    click = pytest.importorskip("click")
    group = importlib.import_module("synchist.cli.commands").synchist
    for page in PAGES:
        for line in re.findall(r"\bsynchist (demo[^`#\n]*)", page.read_text(encoding="utf-8")):
            name, *words = shlex.split(line)
            known = options(group.get_command(click.Context(group), name))
            used = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert used <= known, f"{page}: synchist {line}"


def test_the_reference_has_every_option_of_every_command() -> None:
    pytest.importorskip("click")
    group = importlib.import_module("synchist.cli.commands").synchist
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    for name, command in group.commands.items():
        assert f"## synchist {name}" in page
        assert [option for option in options(command) if f"| `{option}" not in page] == []


def options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}
