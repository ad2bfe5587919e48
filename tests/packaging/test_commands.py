"""The commands that README gives are the ones that continuous integration runs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def readme_line(command: str) -> str:
    """The one line of README that makes an environment and runs `command`."""
    lines = (ROOT / "README.md").read_text().splitlines()
    (line,) = [line for line in lines if "-m venv" in line and command in line]
    return line.strip()


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text().replace('"$venv/bin/pip"', ".venv/bin/pip")
    script = script.replace('"$venv/bin/python"', ".venv/bin/python")
    parts = [part for part in readme_line("-m pytest").split(" && ") if "-m venv" not in part]
    assert len(parts) == 2
    for part in parts:
        assert part in script


def test_the_readme_starts_the_demo_in_one_line() -> None:
    assert "[demo]" in readme_line("synchist demo")
