"""Tests of what a store may have beyond the four methods; skipped where it has not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from .handle import Handle
from .promises import COMPLETE, PROMPT, SAME, require, within

__all__ = ["CapabilityTests"]


class CapabilityTests:
    """The second half of `StoreTests`, which says what these methods do."""

    if TYPE_CHECKING:
        patience: float

        def key(self, name: str) -> str: ...
        def handle(self) -> Handle: ...

    def test_check_tells_whether_all_keys_are_there(self) -> None:
        handle, there, absent = self._with("check"), self.key("there"), self.key("absent")
        handle.set(there, b"")
        require(handle.check([there]), "check says that a key is missing which is there", COMPLETE)
        for keys in ([absent], [there, absent], [absent, there]):
            seen = handle.check(keys)
            require(not seen, "check says that all keys are there, and one is not", COMPLETE)
        handle.set(absent, b"")
        require(handle.check([there, absent]), "check misses a key set since the last", PROMPT)

    def test_multi_get_gives_values_in_order(self) -> None:
        handle = self._with("multi_get")
        keys = [self.key(name) for name in "dacb"]
        for key in sorted(keys):
            handle.set(key, key.encode())
        found = handle.multi_get(keys)
        require(found == [key.encode() for key in keys], f"multi_get gave {found}", SAME)

    def test_multi_get_blocks_until_all_keys_are_there(self) -> None:
        handle, there, later = self._with("multi_get"), self.key("there"), self.key("later")
        handle.set(there, b"1")
        outcome: list[object] = []
        ended = threading.Event()

        def run() -> None:
            try:
                outcome.append(list(handle.store.multi_get([there, later])))
            except Exception as error:  # noqa: BLE001  (it is what we report)
                outcome.append(error)
            ended.set()

        threading.Thread(target=run, daemon=True).start()
        early = ended.wait(0.3)
        require(not early, f"multi_get did not wait for a key, it gave {outcome}", COMPLETE)
        self.handle().set(later, b"2")
        require(ended.wait(self.patience), "multi_get still blocks after all keys came", PROMPT)
        require(outcome == [[b"1", b"2"]], f"multi_get ended in {outcome}", COMPLETE)

    def test_a_clone_is_not_held_up_by_a_call_that_blocks(self) -> None:
        handle, key = self._with("clone"), self.key("later")
        clone = Handle(within(self.patience, handle.store.clone, "clone"), self.patience)
        blocked = threading.Thread(target=lambda: handle.store.get(key), daemon=True)
        blocked.start()
        clone.set(key, b"x")
        blocked.join(self.patience)
        require(not blocked.is_alive(), "a set by a clone does not reach its origin", PROMPT)
        require(clone.get(key) == b"x", "a clone does not see what it has set", SAME)

    def test_compare_set_puts_only_over_what_is_expected(self) -> None:
        handle, key = self._with("compare_set"), self.key("compared")
        steps = [
            (b"unknown", b"1", b"unknown", None),  # absent, and something was expected
            (b"", b"2", b"2", b"2"),
            (b"other", b"3", b"2", b"2"),
            (b"2", b"4", b"4", b"4"),
        ]
        for expected, desired, answer, stored in steps:
            call = f"compare_set(key, {expected!r}, {desired!r})"
            found = handle.compare_set(key, expected, desired)
            require(found == answer, f"{call} gave {found!r} instead of {answer!r}", SAME)
            require(handle.holds(key) == (stored is not None), f"{call} put a value", SAME)
            if stored is not None:
                require(handle.get(key) == stored, f"{call} left {handle.get(key)!r}", SAME)

    def test_compare_set_has_one_winner(self) -> None:
        handles, key = [self._with("compare_set") for _ in range(6)], self.key("contested")
        answers: list[bytes] = []
        start = threading.Barrier(len(handles))

        def claim(number: int) -> None:
            start.wait(self.patience)
            answers.append(handles[number].compare_set(key, b"", b"%d" % number))

        threads = [
            threading.Thread(target=claim, args=(n,), daemon=True) for n in range(len(handles))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * self.patience)
        require(len(answers) == len(handles), "compare_set at once from several hangs", PROMPT)
        require(len(set(answers)) == 1, f"compare_set gave several winners: {answers}", SAME)
        require(handles[0].get(key) == answers[0], "compare_set named another winner", SAME)

    def _with(self, name: str) -> Handle:
        handle = self.handle()
        if not handle.can(name):
            pytest.skip(f"the store has no {name}")
        return handle
