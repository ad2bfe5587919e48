"""Examples in docstrings: pytest runs them, because the configuration says so."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import synchist
import synchist_skorch
import synchist_torch

ROOT = Path(__file__).parents[2]


def test_pytest_collects_the_examples_of_every_package(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getoption("doctestmodules")
    roots = [(ROOT / path).resolve() for path in pytestconfig.getini("testpaths")]
    for package in (synchist, synchist_skorch, synchist_torch):
        source = Path(inspect.getfile(package)).resolve()
        assert any(root in source.parents for root in roots), package.__name__


def test_the_history_shows_how_to_use_it() -> None:
    (own, *_) = doctest.DocTestFinder(recurse=False).find(synchist.History)
    assert own.examples
