"""The kit finds every one of twelve faults, by the test that is named after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).parent

CAUGHT = {
    "ForgetsASet": "test_every_set_is_there_afterwards",
    "ReturnsStale": "test_an_overwrite_is_seen_by_other_handles",
    "GetDoesNotBlock": "test_get_blocks_until_the_key_is_there",
    "WaitIgnoresItsTimeout": "test_wait_keeps_its_deadline",
    "TwoKeysCollide": "test_different_keys_are_told_apart",
    "DeleteLies": "test_delete_removes_the_key",
    "TruncatesAtOneMebibyte": "test_large_values_come_back_whole",
    "SwapsBytesForStr": "test_get_gives_the_bytes_that_were_set",
    "NotVisibleAcrossHandles": "test_a_set_is_seen_by_other_handles",
    "LosesOnExit": "test_a_set_outlives_its_handle",
    "ReturnsAViewThatChanges": "test_a_value_that_was_read_does_not_change",
    "NotSafeForTwoThreads": "test_one_handle_serves_several_threads",
}
"""Each fault, and the test that is made for it."""

ALSO = {
    "ForgetsASet": {"NotSafeForTwoThreads"},
    "NotVisibleAcrossHandles": {"ReturnsStale", "GetDoesNotBlock", "LosesOnExit"},
    "LosesOnExit": {"GetDoesNotBlock"},  # the handle that sets what get waits for is gone at once
    "SwapsBytesForStr": {
        "ForgetsASet",
        "ReturnsStale",
        "GetDoesNotBlock",
        "TwoKeysCollide",
        "NotVisibleAcrossHandles",
        "LosesOnExit",
        "ReturnsAViewThatChanges",
        "NotSafeForTwoThreads",
    },
}
"""Faults whose consequences the tests for other faults see too."""

PROGRAM = """
import broken_stores

for store in (broken_stores.Handle, *broken_stores.BROKEN):
    tests = broken_stores.tests_of(store)
    globals()[tests.__name__] = tests
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """For each store, the named tests that failed, and what they said."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "test_kit.py").write_text(PROGRAM)
    report = folder / "report.xml"
    chosen = " or ".join(CAUGHT.values())
    ours = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    # Four at once: these tests wait more than they compute.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "4"]
    done = subprocess.run(
        [*command, f"--junit-xml={report}", f"--rootdir={folder}", "-k", chosen],
        cwd=folder,
        env={**ours, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for case in ElementTree.parse(report).iter("testcase"):
        store = case.attrib["classname"].rpartition(".Test")[2]
        said = found[store]
        for failure in [*case.iter("failure"), *case.iter("error")]:
            said[case.attrib["name"].partition("[")[0]] = failure.attrib["message"]
    return found


def test_a_sound_store_passes(failures: dict[str, dict[str, str]]) -> None:
    assert failures["Handle"] == {}


@pytest.mark.parametrize("fault", CAUGHT)
def test_a_fault_is_caught_by_the_test_made_for_it(
    failures: dict[str, dict[str, str]], fault: str
) -> None:
    """And of the tests made for other faults, those fail that see its consequences; no more."""
    found = failures[fault]
    assert "The promise that this store would break" in found[CAUGHT[fault]]
    may_fail = {CAUGHT[other] for other in {fault} | ALSO.get(fault, set())}
    assert set(found) <= may_fail
