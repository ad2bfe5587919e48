"""Nets that fit on two and on four processes: what was seen with DistributedHistory, put right.

Every history has a deadline, and a sync that reaches it raises: what returns here waited for none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from synchist_torch import launch

Results = list[dict[str, Any]]


@pytest.fixture(scope="module", params=[2, 4], ids="{} processes".format)
def everything(
    request: pytest.FixtureRequest,
    programs: Callable[[str], ModuleType],
    tmp_path_factory: pytest.TempPathFactory,
) -> Results:
    """What every rank found, by program; all of them in one launch."""
    folder = str(tmp_path_factory.mktemp("fits"))
    return launch(programs("everything").run, folder, world_size=request.param, timeout=110)


def of(results: Results, program: str, name: str) -> list[Any]:
    """What each rank found."""
    return [result[program][name] for result in results]


def one(found: list[Any]) -> Any:
    """What all of them found, which is the same."""
    assert all(repr(item) == repr(found[0]) for item in found)
    return found[0]


def mean(rows: list[tuple[float, int]]) -> float:
    return float(np.average([row[0] for row in rows], weights=[row[1] for row in rows]))


# -- without the mixin -----------------------------------------------------------------------------


@pytest.mark.parametrize("fit", ["first", "second", "ragged"])
def test_losses_are_those_of_all_ranks_rows(everything: Results, fit: str) -> None:
    """A second fit on the same store reads nothing of the first; batch counts may differ."""
    losses = one(of(everything, "faults", fit))
    assert losses["train_loss"] == mean(losses["rows"])
    assert losses["valid_loss"] == mean(losses["valid rows"])
    world_size = len(everything)
    assert len(losses["rows"]) == (6 * world_size if fit != "ragged" else losses["batches"])
    assert losses["epochs"] == (3 if fit != "ragged" else 2)


def test_a_second_fit_is_another(everything: Results) -> None:
    (faults, *_) = [result["faults"] for result in everything]
    assert faults["first"]["rows"] != faults["second"]["rows"]


def test_values_that_json_refuses_come_back_exactly(everything: Results) -> None:
    for row in one(of(everything, "faults", "values")):
        kinds = [np.float32, np.int64, np.ndarray, bytes, set, tuple]
        assert [type(value) for value in row.values()] == kinds
        assert row["np.float32"] == np.float32(0.1)
        assert row["array"].tolist() == [0, 1, 2]
        assert row["tuple"] == (1, (2,))


def test_reading_in_the_middle_of_a_batch_gives_ones_own_row(everything: Results) -> None:
    assert of(everything, "faults", "wrong own rows") == [0] * len(everything)


def test_the_store_does_not_fill_up(everything: Results) -> None:
    """DistributedHistory left 4001 keys after five epochs."""
    for name in ("keys", "keys after the second"):
        assert max(of(everything, "faults", name)) <= 4 * len(everything) + 4


def test_ranks_hold_the_same_history_but_for_what_is_their_own(everything: Results) -> None:
    one(of(everything, "faults", "digest"))
    assert len(one(of(everything, "faults", "dur"))) == len(everything)
    one(of(everything, "faults", "weights"))


def test_scores_that_differ_by_rank_are_told_of_once(everything: Results) -> None:
    (warning,) = one(of(everything, "faults", "warnings"))
    assert "'valid_acc' differs by rank in epoch" in warning
    assert "SyncedHistoryMixin makes scores agree" in warning


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_a_copy_fits_as_the_original_does(everything: Results, how: str) -> None:
    losses = one([copies[how] for copies in of(everything, "faults", "copies")])
    assert losses["train_loss"] == mean(losses["rows"])
    assert len(losses["rows"]) == 6 * len(everything)


# -- decisions -------------------------------------------------------------------------------------


def test_every_rank_stops_at_the_same_epoch_by_a_score_that_differs_by_rank(
    everything: Results,
) -> None:
    accuracies = one(of(everything, "decide", "accuracies"))
    assert len(set(accuracies.values())) > 1
    history = one(of(everything, "decide", "history"))
    assert 5 < len(history) < 40
    one(of(everything, "decide", "digest"))


def test_the_agreed_score_is_that_of_all_samples(everything: Results) -> None:
    history = one(of(everything, "decide", "history"))
    accuracies = one(of(everything, "decide", "accuracies"))
    samples = of(everything, "decide", "samples")
    right = math.fsum(accuracy * samples[rank] for rank, accuracy in accuracies.items())
    assert history[-1]["valid_acc"] == pytest.approx(right / sum(samples), abs=1e-15)
    best = -math.inf
    for epoch in history:
        assert epoch["valid_acc_best"] is (epoch["valid_acc"] > best)
        best = max(best, epoch["valid_acc"])


def test_weights_and_learning_rates_end_the_same(everything: Results) -> None:
    one(of(everything, "decide", "weights"))
    assert one(of(everything, "decide", "lr")) < 1.0
    checkpoints = one(of(everything, "decide", "checkpoints"))
    history = one(of(everything, "decide", "history"))
    assert checkpoints == [epoch["valid_acc_best"] for epoch in history]


def test_a_callback_on_rank_0_only_disturbs_nobody(everything: Results) -> None:
    history = one(of(everything, "decide", "history"))
    told = [epoch.get("only on rank 0") for epoch in history]
    # EarlyStopping stands before it, so it does not hear of the last epoch.
    assert told == [*range(1, len(history)), None]
    assert ["OnRank0" in kinds for kinds in of(everything, "decide", "kinds")] == [
        rank == 0 for rank in range(len(everything))
    ]


def test_a_net_can_be_pickled_while_scores_agree(everything: Results) -> None:
    """As a Checkpoint does it at the end of an epoch; nothing of ours stays in its callbacks."""
    for kind, epochs in of(everything, "decide", "restored"):
        assert kind == "Synced"
        assert epochs > 0
    assert of(everything, "decide", "left behind") == [[]] * len(everything)
    for kinds in of(everything, "decide", "kinds"):
        assert "Agreeing" not in kinds


def test_validation_on_rank_0_decides_for_everybody(everything: Results) -> None:
    history = one(of(everything, "ragged", "history"))
    one(of(everything, "ragged", "digest"))
    assert 2 < len(history) < 40
    counts = one(of(everything, "ragged", "counts"))
    assert len(set(counts.values())) > 1


def test_ranks_that_decide_differently_say_so_at_once(everything: Results) -> None:
    for error, message, _ in of(everything, "disagree", "stops"):
        assert error == "DivergenceError"
        assert "rank 0 is in agree('the beginning of epoch 2')" in message
        assert "rank 1 is in agree('the end of training')" in message
    for error, message, _ in of(everything, "disagree", "scores"):
        assert error == "DivergenceError"
        assert "rank 1 is in agree('f1'" in message
    one(of(everything, "disagree", "after stops"))
    one(of(everything, "disagree", "after scores"))


def test_an_exception_on_one_rank_reaches_the_others(everything: Results) -> None:
    for rank, (error, message, seconds) in enumerate(of(everything, "disagree", "fails")):
        assert error == ("ValueError" if rank == 1 else "RankFailedError")
        assert "rank 1 ran out of luck" in message
        assert seconds < 30
    one(of(everything, "disagree", "after fails"))


# -- what sklearn and skorch do to a net -----------------------------------------------------------


def assert_shared(found: Any, rows: int) -> None:
    kind, length, _ = found
    assert (kind, length) == ("SkorchHistory", rows)


def test_clones_have_a_history_of_their_own_that_is_shared(everything: Results) -> None:
    size = len(everything)
    assert_shared(one(of(everything, "survive", "clone")), rows=2 * size)
    for estimator in one(of(everything, "survive", "cross-validation")):
        assert_shared(estimator, rows=size)
    found, best = one(of(everything, "survive", "grid search"))
    assert_shared(found, rows=2 * size)
    scores = one(of(everything, "survive", "grid scores"))
    assert best == {"lr": [0.3, 0.1][int(np.argmax(scores))]}
    one(of(everything, "survive", "before"))


def test_loading_goes_into_the_history_that_is_shared(everything: Results) -> None:
    size = len(everything)
    assert len(one(of(everything, "survive", "loaded"))) == 2
    went_on, epochs = one(of(everything, "survive", "went on"))
    assert_shared(went_on, rows=2 * size)
    assert epochs == 4


def test_checkpoints_are_loaded_and_resumed_from_alike(everything: Results) -> None:
    kind, _ = one(of(everything, "survive", "load_best"))
    assert kind == "SkorchHistory"
    resumed, epochs, _ = one(of(everything, "survive", "resumed"))
    assert_shared(resumed, rows=2 * len(everything))
    assert epochs == 2


# -- what people do to a net -----------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["training", "validation"])
def test_training_goes_on_after_all_ranks_were_interrupted(everything: Results, phase: str) -> None:
    """The last epoch has the batches so far; a later `partial_fit` adds others."""
    (interrupted, _), (later, _) = one(of(everything, "habits", f"interrupted in {phase}"))
    size = len(everything)
    whole = 4 * size  # three batches of each rank for training, and one for validation
    assert interrupted == [whole, size if phase == "training" else whole]
    assert later == [*interrupted, whole]


@pytest.mark.parametrize("habit", ["interrupted alone", "different epochs"])
def test_a_rank_that_ends_training_alone_is_told_of_at_once(
    everything: Results, habit: str
) -> None:
    for error, message, soon in of(everything, "habits", habit):
        assert error == "DivergenceError"
        assert "agree('the end of training')" in message
        assert soon


def test_fits_add_up_where_they_do_in_skorch(everything: Results) -> None:
    (first, _), (second, _) = one(of(everything, "habits", "warm start"))
    assert second == first * 2
    (again, _), (copied, _), (fresh, _) = one(of(everything, "habits", "copied"))
    assert again == fresh == first
    assert copied == first * 2


def test_nets_without_validation_agree_on_the_loss(everything: Results) -> None:
    (found, _), losses = one(of(everything, "habits", "without validation"))
    assert len(found) == len(losses) == 2


def test_a_clone_of_a_clone_has_a_history_of_its_own(everything: Results) -> None:
    (second, _), (first, _) = one(of(everything, "habits", "clones of clones"))
    assert len(first) == len(second) == 2


def test_what_is_recorded_when_training_has_ended_comes_with_the_next_sync(
    everything: Results,
) -> None:
    by_rank = {rank: rank for rank in range(len(everything))}
    found, (later, _) = one(of(everything, "habits", "late records"))
    assert found == (by_rank, by_rank)
    assert len(later) == 4


def test_names_that_only_one_rank_records_are_legal(everything: Results) -> None:
    names = [f"{what} of {rank}" for what in ("batch", "epoch") for rank in range(len(everything))]
    assert one(of(everything, "habits", "own names")) == names


def test_histories_that_each_rank_loads_from_its_own_checkpoint_are_told_of(
    everything: Results,
) -> None:
    """They differ: `dur` is each rank's own."""
    for error, message, soon in of(everything, "habits", "own checkpoints"):
        assert error == "DivergenceError"
        assert "load the same file on every rank" in message
        assert soon


# -- accelerate ------------------------------------------------------------------------------------

BOTH_ORDERS = pytest.mark.parametrize("order", ["Outside", "Inside"])


@BOTH_ORDERS
def test_accelerated_nets_decide_alike(everything: Results, order: str) -> None:
    found = of(everything, "accelerated", order)
    history = one([result["history"] for result in found])
    one([result["digest"] for result in found])
    one([result["weights"] for result in found])
    assert 3 < len(history) < 20
    size = len(everything)
    assert [result["place"] for result in found] == [(rank, size) for rank in range(size)]
    one([result["rows"] for result in found])
    assert one([result["loaded"] for result in found]) <= len(history)


@BOTH_ORDERS
def test_what_accelerate_repeats_counts_once_in_scores(everything: Results, order: str) -> None:
    """The same score of all samples, which accelerate gathers, is the oracle."""
    history = one([result["history"] for result in of(everything, "accelerated", order)])
    for epoch in history:
        assert epoch["valid_acc"] == pytest.approx(epoch["gathered"], abs=1e-15)
        assert 0 < epoch["auc"] < 1
        assert epoch["train_acc"] * 400 == pytest.approx(round(epoch["train_acc"] * 400))


def test_a_rank_that_has_padding_only_joins_without_a_score(everything: Results) -> None:
    (accuracies, gathered, best), by_rank = one(of(everything, "accelerated", "few"))
    assert accuracies == pytest.approx(gathered, abs=1e-15)
    assert best[0] is True
    assert list(by_rank) == [0]


def test_a_rank_that_is_not_the_accelerators_is_refused(everything: Results) -> None:
    for rank, message in enumerate(of(everything, "accelerated", "wrong rank")):
        assert f"this is process {rank} of {len(everything)}: give the global rank" in message
