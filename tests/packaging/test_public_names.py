"""The public names of every package, so that none appears or goes by accident."""

from __future__ import annotations

import ast
import importlib
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A change here is a change for users: it belongs in CHANGELOG.md.
PUBLIC = {
    "synchist": """
        Best CorruptDataError DirectoryStore DivergenceError History MemoryStore NotSyncedError
        RankFailedError Store StoreError SyncTimeoutError SynchistError SynchistWarning
        TooLargeError UnsupportedTypeError UsageError __version__
    """,
    "synchist.codec": """
        Opaque Registry decode encode register
    """,
    "synchist.stores": """
        CheckStore CloneStore CompareSetStore DirectoryStore MemoryStore MultiGetStore Store
    """,
    "synchist.testing": """
        BrokenPromiseError CONTRACT_VERSION Faults FaultyStore Killed StoreTests StuckError World
        check_history_over run_trial
    """,
    "synchist_skorch": """
        SkorchHistory SyncedHistoryMixin
    """,
    "synchist_torch": """
        distributed_history launch open_store real_batch_sizes
    """,
}

packages = pytest.mark.parametrize("package", sorted(PUBLIC))


@packages
def test_all_lists_exactly_the_public_names(package: str) -> None:
    assert sorted(importlib.import_module(package).__all__) == sorted(PUBLIC[package].split())


@packages
def test_every_public_name_resolves(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None


@packages
def test_nothing_else_looks_public(package: str) -> None:
    """`dir()` shows the public names and submodules only: what a user sees is what is promised."""
    module = importlib.import_module(package)
    leaks = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name not in module.__all__
        and name != "annotations"  # from __future__
        and not (isinstance(value, types.ModuleType) and value.__name__.startswith(package))
    ]
    assert leaks == []


def test_every_error_can_be_imported_from_synchist() -> None:
    errors = importlib.import_module("synchist.errors")
    assert set(errors.__all__) <= set(importlib.import_module("synchist").__all__)


def test_adapters_import_only_names_that_are_public() -> None:
    """Adapters do what a third party could: nothing the core keeps to itself."""
    for path in sorted((ROOT / "adapters").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("synchist."):
                public = importlib.import_module(node.module or "").__all__
            elif isinstance(node, ast.ImportFrom) and node.module == "synchist":
                public = [*importlib.import_module("synchist").__all__, "codec", "stores"]
            else:
                continue
            private = [alias.name for alias in node.names if alias.name not in public]
            assert private == [], f"{path}:{node.lineno}"
