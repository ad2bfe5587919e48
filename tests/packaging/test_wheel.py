"""What the wheel and the source distribution hold."""

from __future__ import annotations

import email
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from synchist import __version__

ROOT = Path(__file__).parents[2]
INFO = f"synchist-{__version__}.dist-info"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fresh wheel and source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


def configured_packages() -> list[str]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages: list[str] = config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return packages


def test_every_adapter_is_in_the_list_of_packages() -> None:
    """An editable install finds a package that the list has forgotten; a wheel does not."""
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "adapters").glob("*/__init__.py")}
    assert sorted(configured_packages()) == sorted(["synchist", *map(str, folders)])


def test_adapters_is_no_package_itself() -> None:
    """Somebody else's project installs a top-level `adapters`."""
    assert not (ROOT / "adapters" / "__init__.py").exists()


def test_the_wheel_holds_every_source_file_of_the_packages_and_nothing_else(
    wheel: zipfile.ZipFile,
) -> None:
    expected = {
        str(path.relative_to((ROOT / package).parent))
        for package in configured_packages()
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    extra = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert set(wheel.namelist()) == expected | {f"{INFO}/{name}" for name in extra}


def test_every_package_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    for package in configured_packages():
        assert f"{Path(package).name}/py.typed" in wheel.namelist()


def test_the_metadata_name_the_license_and_ask_for_attrs_and_msgpack_only(
    wheel: zipfile.ZipFile,
) -> None:
    text = wheel.read(f"{INFO}/METADATA").decode()
    metadata = email.message_from_string(text)
    assert metadata["License-Expression"] == "Apache-2.0"
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(line.split(">")[0] for line in required) == ["attrs", "msgpack"]


def test_the_source_distribution_holds_what_its_own_tests_need(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    wanted = {
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "adapters/synchist_skorch/py.typed",
        "adapters/synchist_torch/py.typed",
        "constraints.txt",
        "pyproject.toml",
        "synchist/py.typed",
        "tests/packaging/test_wheel.py",
    }
    assert wanted <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]
