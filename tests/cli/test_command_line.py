"""The command line: version, help, wrong arguments, missing packages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

import synchist as package
from synchist.cli import main

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_version(synchist: Run) -> None:
    done = synchist("--version")
    assert (done.returncode, done.stdout) == (0, f"synchist {package.__version__}\n")


def test_the_console_script_is_the_same_as_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"synchist {package.__version__}\n"


def test_help_names_the_demo_and_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out
    assert main(["demo", "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--world-size", "--epochs", "--store", "--output"):
        assert option in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--no-such-option"], "--no-such-option"),
        (["trian"], "trian"),
        (["demo", "--world-size", "0"], "--world-size"),
        (["demo", "--world-size", "65"], "--world-size"),
        (["demo", "--epochs", "0"], "--epochs"),
        (["demo", "--epochs", "many"], "many"),
        (["demo", "--store", "redis"], "redis"),
        (["demo", "--output", "no/such/folder/history.json"], "there is no folder"),
        (["demo", "--output", "."], "directory"),
        (["demo", "surplus"], "surplus"),
    ],
)
def test_wrong_arguments_are_named_and_give_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


# argv[1]: packages that cannot be imported; the rest goes to the console script.
WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
from synchist.cli import main
sys.exit(main(sys.argv[2:]))
"""


def without(packages: str, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, packages, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("packages", "names"),
    [
        ("torch", "torch, which is"),
        ("sklearn", "scikit-learn, which is"),
        ("torch,sklearn", "torch and scikit-learn, which are"),
        ("rich", "rich, which is"),
        ("click,rich,torch,numpy,sklearn", "click, rich, torch, numpy and scikit-learn, which are"),
    ],
)
def test_the_demo_says_in_one_sentence_what_to_install(packages: str, names: str) -> None:
    sentence = f'synchist demo needs {names} not installed: pip install "synchist[demo]"\n'
    assert without(packages, "demo") == (1, "", sentence)


def test_with_only_the_core_the_script_says_what_to_install() -> None:
    sentence = 'synchist needs click and rich, which are not installed: pip install "synchist[cli]"'
    assert without("click,rich,torch,numpy,sklearn") == (1, "", sentence + "\n")


def test_without_torch_the_rest_of_the_script_works() -> None:
    assert without("torch,numpy,sklearn", "--version")[:2] == (
        0,
        f"synchist {package.__version__}\n",
    )
