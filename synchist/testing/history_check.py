"""The whole sync protocol over a store: random programs, one per rank, that end in one history."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ..history import History
from ..stores.protocol import Store
from .promises import PROMPT, SAME, BrokenPromiseError, require

__all__ = ["check_history_over"]

Step: TypeAlias = tuple[str, dict[str, Any]]
Program: TypeAlias = list[list[Step]]
"""What one rank records before each sync."""

VALUES = st.one_of(
    st.floats(), st.integers(), st.text(max_size=5), st.binary(max_size=5), st.none()
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["new_epoch", "new_batch", "record", "record_batch"]),
        st.dictionaries(st.sampled_from(["loss", "n"]), VALUES, max_size=2),
    ),
    max_size=4,
)


@st.composite
def programs(draw: st.DrawFn, world_size: int) -> list[Program]:
    """One for each rank; all sync equally often, whatever they recorded."""
    syncs = draw(st.integers(1, 3))
    stretches = st.lists(STEPS, min_size=syncs, max_size=syncs)
    return [draw(stretches) for _ in range(world_size)]


def check_history_over(
    store_factory: Callable[[], Store],
    world_size: int = 3,
    *,
    examples: int = 20,
    timeout: float = 30.0,
) -> None:
    """Run random programs on ranks that are threads; after every sync their digests must be equal.

    All runs use one backend, one after the other, so each meets what the one before left there.
    Blocks until the last has ended, or one has failed.

    Args:
        store_factory: called once for each rank; gives a handle on one shared backend.
        world_size: number of ranks.
        examples: number of runs.
        timeout: seconds that a rank waits for the others in one sync.

    Raises:
        BrokenPromiseError: the ranks disagree, an error ended a rank, or one hangs.
    """
    stores = [store_factory() for _ in range(world_size)]

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # a store that hangs would hang again for every simpler example
    )
    @given(programs(world_size))
    def every_run_ends_in_one_history(drawn: list[Program]) -> None:
        _run(stores, drawn, timeout)

    every_run_ends_in_one_history()


def _run(stores: list[Store], drawn: list[Program], timeout: float) -> None:
    digests: list[list[str]] = [[] for _ in drawn]
    errors: list[Exception] = []

    def rank_main(rank: int) -> None:
        try:
            with History(
                store=stores[rank],
                rank=rank,
                world_size=len(drawn),
                timeout=timeout,
                reduce={"loss": "first", "n": "first"},
            ) as history:
                history.new_epoch()
                for stretch in drawn[rank]:
                    for call, values in stretch:
                        _record(history, call, values)
                    history.sync()
                    digests[rank].append(history.digest())
        except Exception as error:  # noqa: BLE001  (raised again below)
            error.add_note(f"on rank {rank}")
            errors.append(error)

    threads = [
        threading.Thread(target=rank_main, args=(rank,), daemon=True) for rank in range(len(drawn))
    ]
    for thread in threads:
        thread.start()
    for rank, thread in enumerate(threads):
        # Its syncs, the meeting and the goodbye each have that long.
        thread.join((len(drawn[rank]) + 2) * timeout)
        require(bool(errors) or not thread.is_alive(), f"rank {rank} hangs", PROMPT)
    if errors:
        first = errors[0]
        found = f"a history over this store failed: {type(first).__name__}: {first}"
        raise BrokenPromiseError(found, PROMPT) from first
    for rank, seen in enumerate(digests):
        require(seen == digests[0], f"ranks 0 and {rank} hold different histories", SAME)


def _record(history: History, call: str, values: dict[str, Any]) -> None:
    if call == "record_batch" and not history.local[-1, "batches"]:
        call = "new_batch"
    getattr(history, call)(values)
