"""What the demo shows at its end, and its exit code, for histories made by hand."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

import pytest
from rich.console import Console, RenderableType

from synchist import History, MemoryStore, RankFailedError, SynchistError, UsageError
from synchist.cli import demo, main
from synchist.cli.demo import report
from synchist.cli.demo_plan import Plan
from synchist.cli.demo_report import disagreement, ending, introduction, progress, table

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "demo.svg"


def history(accuracies: Sequence[float], world_size: int = 2) -> History:
    """As a run leaves it: rank r has 2 + r batches of 10 (1 + r) images, all with loss r."""
    store, made = MemoryStore(), {}

    def run(rank: int) -> None:
        h = History(
            store=store, rank=rank, world_size=world_size, timeout=30, reduce={"dur": "max"}
        )
        made[rank] = h
        for accuracy in accuracies:
            h.new_epoch(dur=0.25 * (rank + 1))
            for _ in range(2 + rank):
                h.new_batch(loss=float(rank), batch_size=10 * (1 + rank))
            if rank == 0:
                h.record("valid_acc", accuracy)
            h.sync()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made[0]


def shown(what: RenderableType, width: int = 80, *, terminal: bool = False) -> list[str]:
    """The lines that rich makes of it."""
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=terminal).print(what)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_the_table_has_global_values_beside_each_ranks_and_marks_the_best_epoch() -> None:
    lines = shown(table(history([0.5, 0.75, 0.75]), 80, lines=False))
    # Rank 0 has 20 images with loss 0, rank 1 has 60 with loss 1; rank 1 is slower.
    assert [line.split() for line in lines] == [
        ["loss", "loss", "loss", "valid_acc", "dur", "(s)"],
        ["epoch", "all", "ranks", "rank", "0", "rank", "1", "rank", "0", "slowest"],
        ["0", "0.7500", "0.0000", "1.0000", "0.5000", "0.50"],
        ["1", "0.7500", "0.0000", "1.0000", "0.7500", "0.50", "best"],
        ["2", "0.7500", "0.0000", "1.0000", "0.7500", "0.50"],
    ]


def test_ranks_that_do_not_fit_are_left_out_and_counted() -> None:
    h = history([0.5], world_size=8)
    lines = shown(table(h, 80, lines=True), terminal=True)
    assert max(map(len, shown(table(h, 80, lines=True)))) <= 80
    assert "4 of 8 ranks fit in 80 columns." in lines[-1]
    wide = shown(table(h, 200, lines=True), width=200)
    assert "rank 7" in wide[1]
    assert not any("fit" in line for line in wide)


def test_progress_says_how_long_there_was_no_better_epoch() -> None:
    h = history([0.5, 0.75])
    assert progress(h, 1).plain == "epoch   1   loss 0.7500   valid_acc 0.7500   best so far"
    h = history([0.75, 0.5])
    assert progress(h, 1).plain.endswith("valid_acc 0.5000   no better for 1 of 3 epochs")


def test_the_ending_tells_early_stopping_from_the_last_epoch() -> None:
    stopped = "Both ranks stopped after 4 epochs: valid_acc got no better for 3."
    assert ending(history([0.5, 0.5, 0.5, 0.5])).plain == stopped
    last = "All 3 ranks stopped after 1 epoch, the most that --epochs allows."
    assert ending(history([0.5], world_size=3)).plain == last


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ("a", None),
        ("aaa", None),
        ("ab", "the ranks disagree: rank 0 has one history, rank 1 another"),
        ("aaba", "the ranks disagree: ranks 0, 1 and 3 have one history, rank 2 another"),
        (
            "abac",
            "the ranks disagree: ranks 0 and 2 have one history, rank 1 another, rank 3 another",
        ),
    ],
)
def test_a_disagreement_names_the_ranks(told: str, sentence: str | None) -> None:
    assert disagreement(told) == sentence


def test_ranks_that_agree_give_exit_code_0_and_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h, file, out = history([0.5, float("nan")]), tmp_path / "history.json", io.StringIO()
    assert report(Console(file=out, width=80), h, [h.digest()] * 2, file) == 0
    assert "The same on every rank." in out.getvalue()
    assert out.getvalue().count(h.digest()) == 2
    saved = json.loads(file.read_text())
    assert [epoch["valid_acc"] for epoch in saved] == [0.5, "NaN"]
    assert saved[0] == h.to_list()[0]
    assert capsys.readouterr().err == ""


def test_a_file_that_ends_in_synchist_is_one_that_history_loads(tmp_path: Path) -> None:
    h, file = history([0.5, float("nan")]), tmp_path / "run.synchist"
    assert report(Console(file=io.StringIO()), h, [h.digest()] * 2, file) == 0
    assert History.load(file) == h


def test_ranks_that_disagree_give_exit_code_1_and_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h, file, out = history([0.5]), tmp_path / "history.json", io.StringIO()
    assert report(Console(file=out, width=80), h, [h.digest(), "0" * 64], file) == 1
    assert "0" * 64 in out.getvalue()
    assert "same" not in out.getvalue()
    assert not file.exists()
    told = capsys.readouterr().err
    assert told.startswith("synchist demo: the ranks disagree: rank 0 has one history, rank 1 ano")
    assert "was not written" in told


def test_a_file_that_cannot_be_written_gives_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h, file = history([0.5]), tmp_path / "gone" / "history.json"
    assert report(Console(file=io.StringIO()), h, [h.digest()] * 2, file) == 1
    assert "history.json: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "short", "long"),
    [
        (
            RankFailedError("rank 1 failed: KeyError: 'x'\n\nTraceback ...", rank=1),
            "rank 1 failed: KeyError: 'x' (--debug shows where)",
            "rank 1 failed: KeyError: 'x'\n\nTraceback ...",
        ),
        (RankFailedError("rank 1 was killed", rank=1), "rank 1 was killed", "rank 1 was killed"),
        (UsageError("no gloo"), "no gloo", "no gloo"),
    ],
)
def test_a_failure_is_told_in_one_line_and_with_debug_in_full(
    error: SynchistError,
    short: str,
    long: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: Plan) -> NoReturn:
        raise error

    monkeypatch.setattr(demo, "_start", fail)
    for options, told in ([], short), (["--debug"], long):
        assert main(["demo", *options]) == 1
        assert capsys.readouterr().err == f"synchist demo: {told}\n"


def test_the_picture_in_the_documentation_shows_what_the_demo_prints() -> None:
    """If this fails, run docs/make_demo_capture.py."""
    texts = [
        e.text or "" for e in ElementTree.parse(IMAGE).iter("{http://www.w3.org/2000/svg}text")
    ]
    picture = " ".join("".join(texts).replace("\xa0", " ").split())
    expected = shown(introduction(Plan(2, epochs=30), "tcp"))
    expected += shown(table(history([0.5]), 80, lines=False))[:2]
    expected += ["valid_acc got no better for 3.", "Digest of the history", "The same on every"]
    for line in expected:
        for words in line.split("  "):
            assert " ".join(words.split()) in picture
