"""The golden files: what was written once is written so today, and read, also by others."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from synchist import History
from synchist.codec import decode, encode
from synchist.codec._wire import NAMES
from synchist.file import read_file, write_file

from . import independent
from .making import GOLDEN, VALUES, journal, saved

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "format.md"


def coded() -> dict[str, str]:
    found: dict[str, str] = json.loads((GOLDEN / "values.json").read_text())
    return found


def test_today_the_same_bytes_are_written() -> None:
    assert saved(later=[1, "x"]) == (GOLDEN / "saved.synchist").read_bytes()
    assert journal()[0] == (GOLDEN / "journal.synchist").read_bytes()


@pytest.mark.parametrize("name", VALUES)
def test_a_golden_value_is_encoded_and_decoded_as_ever_and_by_the_independent_decoder(
    name: str,
) -> None:
    data = bytes.fromhex(coded()[name])
    value, seen = VALUES[name]
    assert encode(value) == data
    assert encode(decode(data)) == data
    assert type(decode(data)) is type(value)
    assert independent.decode(data) == seen
    assert repr(independent.decode(data)) == repr(seen) or isinstance(seen, set | list)


def plain(h: History, epoch: int, rank: int) -> Any:
    """One rank's epoch as the independent decoder shows it, read through the history."""
    view = h.ranks[rank]
    rows = view[epoch, "batches"]
    names = h._log.epochs[epoch][rank].columns  # in the order of first record
    columns = {n: {i: row[n] for i, row in enumerate(rows) if n in row} for n in names}
    values = {name: value for name, value in view[epoch].items() if name != "batches"}
    return len(rows), columns, values


def shown(record: Any, epoch: int) -> Any:
    rows, columns, values = record["epochs"][epoch]
    return rows, columns, {name: value for name, (value, _) in values.items()}


def test_the_independent_decoder_reads_the_golden_file_as_synchist_does() -> None:
    h = History.load(GOLDEN / "saved.synchist")
    header, (zero, one, pending) = independent.read((GOLDEN / "saved.synchist").read_bytes())
    assert header["kind"] == "saved"
    assert (header["name"], header["rank"], header["world_size"]) == (h.name, 1, 2)
    assert header["reduce"] == {"f1": "mean", "gap": "train:widest"}
    assert header["later"] == [1, "x"]
    for rank, record in enumerate((zero, one)):
        assert (record["rank"], record["pending"], record["place"]) == (rank, False, None)
        assert (record["sequence"], record["lineage"]) == (3 + rank, 2)
        assert list(record["epochs"]) == [0, 1, 2]
        for epoch in range(3):
            assert repr(shown(record, epoch)) == repr(plain(h, epoch, rank))
        assert record["attributes"] == {"opt\udcff": ({"lr": 0.1}, None)}
        assert record["epochs"][0][2]["f1"] == (0.5 + rank, 32 * rank)
    assert (pending["pending"], pending["place"]) == (True, [4, 3, -1, False])
    assert pending["epochs"] == {2: (2, {"loss": {0: 0.0, 1: 0.25}}, {}), 3: (0, {}, {})}
    assert h.local[2, "batches"] == [{"loss": 0.0}, {"loss": 0.25}]
    assert dict(h.local.attributes) == {"opt\udcff": {"lr": 0.1}, "seed": 7}


def test_the_independent_decoder_reads_the_golden_journal_as_synchist_does() -> None:
    h = History.load(GOLDEN / "journal.synchist")
    header, records = independent.read((GOLDEN / "journal.synchist").read_bytes())
    assert header["kind"] == "journal"
    assert [(record["rank"], record["sequence"]) for record in records] == [
        (0, 1), (1, 1), (0, 2), (1, 2),
    ]  # fmt: skip
    assert len(h) == 2
    for record in records:
        (epoch,) = record["epochs"]
        assert repr(shown(record, epoch)) == repr(plain(h, epoch, record["rank"]))


def test_the_independent_decoder_is_short_and_uses_nothing_but_msgpack() -> None:
    source = (HERE / "independent.py").read_text()
    tree = ast.parse(source)
    imported = set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE))
    assert imported == {"__future__", "io", "itertools", "msgpack", "struct", "typing", "zlib"}
    texts = [
        node.value
        for body in ast.walk(tree)
        if isinstance(body, ast.Module | ast.FunctionDef) and ast.get_docstring(body)
        for node in body.body[:1]
        if isinstance(node, ast.Expr)
    ]
    described = {n for text in texts for n in range(text.lineno, (text.end_lineno or 0) + 1)}
    code = [
        line
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and number not in described
    ]
    assert len(code) <= 60


def test_fields_of_later_versions_are_kept(tmp_path: Path) -> None:
    h = History.load(GOLDEN / "saved.synchist")
    h.save(tmp_path / "again.synchist")
    assert read_file(tmp_path / "again.synchist").header.more == {"later": [1, "x"]}


def test_the_page_has_every_code_and_every_key() -> None:
    text = PAGE.read_text()
    codes: set[int] = set()
    for line in text.splitlines():
        first = line.split("|")[1].strip() if line.startswith("|") else ""
        for piece in first.split(","):
            bounds = piece.split(" to ")
            if all(bound.strip().isdigit() for bound in bounds):
                codes.update(range(int(bounds[0]), int(bounds[-1]) + 1))
    assert set(NAMES) <= codes
    header, records = independent.read((GOLDEN / "saved.synchist").read_bytes())
    assert [key for key in (*header, *records[0]) if f"| `{key}` |" not in text] == ["later"]


def test_a_golden_file_that_is_loaded_is_saved_as_it_was(tmp_path: Path) -> None:
    contents = read_file(GOLDEN / "saved.synchist")
    write_file(tmp_path / "again", contents)
    assert (tmp_path / "again").read_bytes() == (GOLDEN / "saved.synchist").read_bytes()
