"""Random calls on several handles, compared with a dict after every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from .handle import Handle
from .promises import COMPLETE, FRESH, SAME, TIDY, require

__all__ = ["StoreMachine", "run_store_machine"]

NAMES: Final = ["a", "A", "a/b", "a/b/c", "ab", "é"]
NAME = st.sampled_from(NAMES)
VALUES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([b"", b"\0", b"x" * 5000]),
)
HANDLES = st.integers(0, 2)


class StoreMachine(RuleBasedStateMachine):
    """Three handles on one store, and a dict that says what the store must hold."""

    def __init__(
        self, handles: list[Handle], reopen: Callable[[], Handle], key: Callable[[str], str]
    ) -> None:
        super().__init__()
        self.handles = list(handles)
        self.open = reopen
        self.key = key
        self.model: dict[str, bytes] = {}
        self.asked = 0
        for name in NAMES:  # of the example before
            handles[0].delete(key(name))

    @rule(by=HANDLES, name=NAME, value=VALUES)
    def set(self, by: int, name: str, value: bytes) -> None:
        self.handles[by].set(self.key(name), value)
        self.model[name] = value

    @rule(by=HANDLES, name=NAME)
    def delete(self, by: int, name: str) -> None:
        was_there = name in self.model
        if not was_there:
            self.handles[by].delete(self.key(name))  # what it gives is another test's matter
            return
        deleted = self.handles[by].delete(self.key(name))
        require(deleted, f"delete_key({name!r}) is not True for a key that is there", TIDY)
        del self.model[name]

    @precondition(lambda self: self.model)
    @rule(by=HANDLES, data=st.data())
    def get(self, by: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)), label="name")
        found = self.handles[by].get(self.key(name))
        expected = self.model[name]
        require(found == expected, f"{name!r} holds {found!r} instead of {expected!r}", FRESH)

    @precondition(lambda self: self.model)
    @rule(by=HANDLES)
    def wait_for_all(self, by: int) -> None:
        came = self.handles[by].wait([self.key(name) for name in self.model], 5.0)
        require(came, "wait did not find keys that are all there", COMPLETE)

    @rule(by=HANDLES, names=st.lists(NAME, min_size=1, max_size=3))
    def check(self, by: int, names: list[str]) -> None:
        if not self.handles[by].can("check"):
            return
        found = self.handles[by].check([self.key(name) for name in names])
        expected = all(name in self.model for name in names)
        require(found == expected, f"check({names}) gave {found}", COMPLETE)

    @precondition(lambda self: self.model)
    @rule(by=HANDLES, data=st.data())
    def multi_get(self, by: int, data: st.DataObject) -> None:
        if not self.handles[by].can("multi_get"):
            return
        names = data.draw(st.lists(st.sampled_from(sorted(self.model)), min_size=1, max_size=4))
        found = self.handles[by].multi_get([self.key(name) for name in names])
        expected = [self.model[name] for name in names]
        require(found == expected, f"multi_get({names}) gave {found}", SAME)

    @rule(by=HANDLES, name=NAME, expected=st.sampled_from([b"", b"1"]), desired=VALUES)
    def compare_set(self, by: int, name: str, expected: bytes, desired: bytes) -> None:
        if not self.handles[by].can("compare_set"):
            return
        there = self.model.get(name)
        answer = self.handles[by].compare_set(self.key(name), expected, desired)
        if there == expected or (there is None and not expected):
            self.model[name] = desired
            wanted = desired
        else:
            wanted = expected if there is None else there
        require(answer == wanted, f"compare_set({name!r}) gave {answer!r}, not {wanted!r}", SAME)

    @precondition(lambda self: self.model)
    @rule(number=HANDLES)
    def reopen(self, number: int) -> None:
        self.handles[number] = self.open()

    @invariant()
    def the_store_holds_what_the_dict_holds(self) -> None:
        """Each time another handle is asked."""
        self.asked += 1
        handle = self.handles[self.asked % len(self.handles)]
        for name, value in self.model.items():
            found = handle.get(self.key(name))
            require(found == value, f"{name!r} holds {found!r} instead of {value!r}", FRESH)


def run_store_machine(
    open_handle: Callable[[], Handle], key: Callable[[str], str], examples: int, steps: int = 15
) -> None:
    """Run it; `key` makes the store's key of a name. Raises `BrokenPromiseError`."""
    handles = [open_handle() for _ in range(3)]

    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(handles, open_handle, key)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[
                Phase.generate
            ],  # a store that hangs would hang again for every simpler example
        ),
    )
