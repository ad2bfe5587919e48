"""Nets with SkorchHistory and the mixin in one process, and where a history takes its place."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping, EpochScoring
from skorch.history import DistributedHistory, History
from torch import nn

from synchist import MemoryStore, UsageError
from synchist_skorch import SkorchHistory, SyncedHistoryMixin
from synchist_skorch.padding import first_rows, real_rows


class Net(SyncedHistoryMixin, NeuralNetClassifier):  # type: ignore[misc]
    pass


def net(cls: Any = Net, **options: Any) -> Any:
    torch.manual_seed(0)
    options = {"max_epochs": 3, "lr": 0.1, "verbose": 0, **options}
    module = {"module__in_features": 5, "module__out_features": 2}
    return cls(nn.Linear, criterion=nn.CrossEntropyLoss, **module, **options)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    random = np.random.RandomState(0)
    X = random.randn(200, 5).astype("float32")  # noqa: N806
    return X, (X[:, 0] > 0).astype("int64")


def without_dur(history: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in epoch.items() if name != "dur"} for epoch in history]


def test_a_fit_records_what_it_records_without_us(data: tuple[Any, Any]) -> None:
    callbacks = [("f1", EpochScoring("f1", name="f1")), ("stop", EarlyStopping())]
    plain = net(NeuralNetClassifier, callbacks=callbacks).fit(*data)
    ours = net(callbacks=callbacks).fit(*data)
    assert type(ours.history) is SkorchHistory  # the mixin makes one
    assert type(plain.history) is History
    assert without_dur(ours.history) == without_dur(plain.history)
    given = net(NeuralNetClassifier, callbacks=callbacks, history=SkorchHistory()).fit(*data)
    assert without_dur(given.history) == without_dur(plain.history)


def test_clones_and_copies_keep_the_kind_of_history(data: tuple[Any, Any]) -> None:
    fitted = net(history=SkorchHistory()).fit(*data)
    cloned = clone(fitted)
    assert type(cloned.history) is SkorchHistory
    assert cloned.history == []
    for copied in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert type(copied.history) is SkorchHistory
        assert copied.history == fitted.history
        copied.partial_fit(*data)
        assert len(copied.history) == 6
    assert len(fitted.history) == 3
    assert clone(net()).history is None


def test_what_is_loaded_goes_into_the_history_that_is_there(
    data: tuple[Any, Any], tmp_path: Any
) -> None:
    fitted = net(history=SkorchHistory()).fit(*data)
    fitted.save_params(f_history=str(tmp_path / "history.json"))
    other = net(history=SkorchHistory()).initialize()
    held = other.history
    other.load_params(f_history=str(tmp_path / "history.json"))
    assert other.history is held
    assert held == fitted.history
    replacement = SkorchHistory()
    other.history = replacement  # one of ours takes the other's place
    assert other.history is replacement


def test_the_mixin_wants_a_history_of_ours(data: tuple[Any, Any]) -> None:
    distributed = DistributedHistory(store=MemoryStore(), rank=0, world_size=1)
    for history in (History(), distributed):
        name = type(history).__name__
        with pytest.raises(UsageError, match=f"needs history=SkorchHistory.*, got {name}"):
            net(history=history).fit(*data)


def test_an_exception_passes_through(data: tuple[Any, Any]) -> None:
    def score(*_: Any) -> float:
        raise ValueError("no score")

    with pytest.raises(ValueError, match="no score"):
        net(callbacks=[EpochScoring(score)]).fit(*data)


# -- its place among the ranks ---------------------------------------------------------------------


def test_a_history_takes_its_place_when_it_is_first_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it can be made before the process group is, or where there never is one."""
    history = SkorchHistory([{"batches": []}])
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert history == [{"batches": []}]
    assert history[-1] == {"batches": []}
    with pytest.raises(UsageError, match="MASTER_ADDR and MASTER_PORT is not set"):
        history.new_epoch()


def test_without_ranks_it_is_a_list_like_any_other() -> None:
    history = SkorchHistory([1, 2, 3])
    assert (history.rank, history.world_size) == (0, 1)
    history.reverse()
    history.sort(key=lambda entry: -entry)
    history[0] = 5
    history[1:] = [4]
    history.insert(0, 6)
    history.extend([7])
    history += [8]
    history *= 1
    assert history == [6, 5, 4, 7, 8]
    assert history.pop() == 8
    history.remove(7)
    del history[0]
    assert history == [5, 4]
    with history as entered:
        assert entered is history
    history.sync()
    history.close()
    history.abort("no reason")
    history.clear()
    assert history == []
    value = object()
    history.new_epoch()
    history.record("anything", value)
    assert history[-1, "anything"] is value
    assert history.per_rank(-1, "anything") == {0: value}


def test_what_is_agreed_alone_is_ones_own() -> None:
    history = SkorchHistory()
    with pytest.raises(UsageError, match="new_epoch"):
        history.agree("score", 1.0)
    history.new_epoch()
    assert history.agree("score", 0.5, reduce="mean", weight=3) == 0.5
    assert history[-1, "score"] == 0.5
    with pytest.raises(KeyError):
        history.agree("none")


def test_the_digest_of_equal_histories_is_equal() -> None:
    histories = [SkorchHistory(), SkorchHistory()]
    for history in histories:
        history.new_epoch()
        history.record("x", 1)
        history.new_batch()
        history.record_batch("y", 2)
    assert histories[0].digest() == histories[1].digest()
    histories[1][0]["batches"][0]["y"] = 3
    assert histories[0].digest() != histories[1].digest()


@pytest.mark.parametrize(
    "arguments",
    [
        {"rank": 2, "world_size": 2},
        {"rank": -1},
        {"store": MemoryStore(), "rank": 0},
        {"store": MemoryStore()},
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SkorchHistory(**arguments)


# -- accelerate's padding --------------------------------------------------------------------------


class Loader:
    def __init__(self, batch_size: int) -> None:
        self.total_batch_size = batch_size


class State:
    def __init__(self, remainder: int, batch_size: int, end: bool) -> None:
        self.remainder = remainder
        self.active_dataloader = Loader(batch_size)
        self.end_of_dataloader = end


class FakeAccelerator:
    def __init__(
        self, rank: int, size: int, batch_size: int, samples: int, end: bool, even: bool = True
    ) -> None:
        self.process_index, self.num_processes = rank, size
        self.even_batches = even
        total = batch_size * size
        self.gradient_state = State(samples % total, total, end)


@pytest.mark.parametrize("samples", [1, 7, 8, 9, 16, 17, 23, 24, 100])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("split", [False, True], ids=["whole batches", "split batches"])
def test_real_rows_of_all_ranks_are_all_samples(samples: int, size: int, split: bool) -> None:
    """Against accelerate's own way of dealing out batches."""
    from accelerate.data_loader import BatchSamplerShard
    from torch.utils.data import BatchSampler, SequentialSampler

    kept: list[int] = []
    for rank in range(size):
        dealt = 8 * size if split else 8
        sampler = BatchSampler(SequentialSampler(range(samples)), dealt, drop_last=False)
        batches = list(BatchSamplerShard(sampler, size, rank, split_batches=split))
        for number, batch in enumerate(batches):
            last = number == len(batches) - 1
            real = real_rows(FakeAccelerator(rank, size, 8, samples, last))
            kept += batch if real is None else first_rows(batch, real)
    assert sorted(kept) == list(range(samples))


def test_nothing_is_dropped_where_nothing_is_filled_up() -> None:
    assert real_rows(FakeAccelerator(1, 2, 8, 9, end=True, even=False)) is None


def test_rows_are_taken_from_whatever_a_batch_consists_of() -> None:
    array, tensor = np.arange(4), torch.arange(4)
    taken = first_rows({"a": array, "b": (tensor, [array])}, 2)
    assert taken["a"].tolist() == [0, 1]
    assert taken["b"][0].tolist() == [0, 1]
    assert [part.tolist() for part in taken["b"][1]] == [[0, 1]]


# -- scores, on ranks that are threads -------------------------------------------------------------


def test_scores_agree_over_threads(
    at_once: Callable[..., list[Any]], data: tuple[Any, Any]
) -> None:
    """Each rank trains for itself; the score counts every sample once."""
    X, y = data  # noqa: N806
    store = MemoryStore()
    nets = [
        net(
            history=SkorchHistory(store=store, rank=rank, world_size=2, timeout=60),
            lr=0.1 + rank,
            callbacks=[
                ("uncached", EpochScoring("accuracy", name="uncached", use_caching=False)),
                ("mse", EpochScoring(own_samples, name="mse", lower_is_better=True)),
            ],
        )
        for rank in range(2)
    ]
    sizes = [200, 120]
    outcomes = at_once(
        [
            lambda n=n, size=size: n.fit(X[:size], y[:size])
            for n, size in zip(nets, sizes, strict=True)
        ]
    )
    assert outcomes == nets
    assert nets[0].history.digest() == nets[1].history.digest()
    for epoch in range(3):
        for name in ("valid_acc", "uncached"):
            by_rank = nets[0].history.per_rank(epoch, name)
            expected = (by_rank[0] * 40 + by_rank[1] * 24) / 64
            for fitted in nets:
                assert fitted.history[epoch, name] == pytest.approx(expected, abs=1e-15)
        assert nets[0].history[epoch, "mse"] == (40 * 40 + 24 * 24) / 64


class LooksAround(Callback):  # type: ignore[misc]
    """Does to other callbacks what one may do at the end of an epoch."""

    def on_epoch_end(self, net: Any, **_: Any) -> None:
        score = dict(net.callbacks_)["valid_acc"]
        assert isinstance(score, EpochScoring)
        score.looked_at = len(net.history)
        for copied in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            assert type(dict(copied.callbacks_)["valid_acc"]) is EpochScoring
        net.callbacks_.append((f"added in {len(net.history)}", Callback()))


def test_callbacks_may_look_at_those_whose_scores_agree_and_add_others(
    at_once: Callable[..., list[Any]], data: tuple[Any, Any]
) -> None:
    store = MemoryStore()
    nets = [
        net(
            history=SkorchHistory(store=store, rank=rank, world_size=2, timeout=60),
            callbacks=[("looks", LooksAround())],
            max_epochs=2,
        )
        for rank in range(2)
    ]
    assert at_once([lambda n=n: n.fit(*data) for n in nets]) == nets
    for fitted in nets:
        callbacks = dict(fitted.callbacks_)
        assert type(callbacks["valid_acc"]) is EpochScoring
        assert callbacks["valid_acc"].looked_at == 2
        assert [name for name in callbacks if name.startswith("added")] == [
            "added in 1",
            "added in 2",
        ]


def own_samples(net: Any, X: Any, y: Any) -> int:  # noqa: N803
    return len(y)
