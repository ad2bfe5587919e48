"""Named behaviour tests for a store: subclass, say how to open it, run pytest."""

from __future__ import annotations

import contextlib
import gc
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from ..stores.protocol import Store
from .capabilities import CapabilityTests
from .handle import Handle, as_bytes
from .history_check import check_history_over
from .promises import COMPLETE, EXACT, FRESH, PROMPT, SAME, TIDY, require
from .samples import ODD_KEYS, SIMILAR_KEYS, VALUES
from .store_machine import run_store_machine

__all__ = ["CONTRACT_VERSION", "StoreTests"]

CONTRACT_VERSION: Final = 1
"""Goes up when the tests ask more of a store than before, so that a store that passed may fail."""


class StoreTests(CapabilityTests):
    """Tests of a store. Derive a class whose name starts with `Test`, and give it `open_store`.

    **They delete.** Every test puts its keys under a fresh prefix `synchist-store-tests/...` and
    deletes them at its end; the test of whole histories has keys under `synchist/`, and deletes
    those. They touch no other key, but run them on a store that you can lose.

    Attributes:
        largest_value: size in bytes of the largest value tried. synchist itself puts none above
            5 MiB; more makes room for other users of the store.
        patience: seconds after which a call that should return counts as hanging, and within
            which a value must have reached the other handles.
    """

    largest_value: int = 10_000_000
    patience: float = 20.0
    examples: int = 30

    # ------------------------------------------------------------- what a subclass says

    def open_store(self) -> Store:
        """A fresh handle on one shared backend. Every call within a test leads to the same data."""
        raise NotImplementedError(f"{type(self).__name__} needs a method open_store(self)")

    def raw_get(self, key: str) -> bytes:
        """Optional: the value under `key`, read beside the store under test."""
        raise NotImplementedError

    def raw_set(self, key: str, value: bytes) -> None:
        """Optional: put a value beside the store under test."""
        raise NotImplementedError

    def opener(self) -> Callable[[], Store] | None:
        """Optional: a picklable function that opens the store in another process."""
        return None

    @pytest.fixture
    def backend(self) -> Any:
        """Optional: override it to start what the store needs, and to stop it after a `yield`."""
        return None

    @pytest.fixture(autouse=True)
    def _fresh_prefix(self, backend: Any) -> Iterator[None]:
        self.prefix = f"synchist-store-tests/{secrets.token_hex(8)}"
        self._used: set[str] = set()
        yield
        if not self._used:
            return
        with contextlib.suppress(Exception):  # the test has said what is wrong with the store
            handle = self.handle()  # a fresh one: those of the test may be broken
            for key in sorted(self._used):
                handle.delete(key)

    def key(self, name: str) -> str:
        """A key under this test's prefix, which is deleted when the test ends."""
        key = f"{self.prefix}/{name}"
        self._used.add(key)
        return key

    def handle(self) -> Handle:
        """A fresh handle whose calls are watched."""
        return Handle(self.open_store(), self.patience)

    # ------------------------------------------------------------- one handle

    @pytest.mark.parametrize("value", VALUES)
    def test_get_gives_the_bytes_that_were_set(self, value: bytes) -> None:
        handle, key = self.handle(), self.key("value")
        handle.set(key, value)
        found = handle.get(key)
        require(found == value, f"{value[:20]!r} came back as {found[:20]!r}", EXACT)

    @pytest.mark.parametrize("size", ["1 MiB + 1", "5 MiB", "largest_value"])
    def test_large_values_come_back_whole(self, size: str) -> None:
        length = {"1 MiB + 1": 2**20 + 1, "5 MiB": 5 * 2**20}.get(size, self.largest_value)
        value = secrets.token_bytes(1000) * (length // 1000) + bytes(length % 1000)
        handle, key = self.handle(), self.key("large")
        handle.set(key, value)
        found = handle.get(key)
        require(
            len(found) == length, f"a value of {length} bytes came back with {len(found)}", EXACT
        )
        require(found == value, f"a value of {length} bytes came back changed", EXACT)

    def test_every_set_is_there_afterwards(self) -> None:
        handle = self.handle()
        values = {self.key(f"many/{number}"): b"%d" % number for number in range(100)}
        for key, value in values.items():
            handle.set(key, value)
        missing = [key for key in values if not handle.holds(key)]
        require(not missing, f"{len(missing)} of 100 sets are gone, {missing[:1]}", COMPLETE)
        for key, value in values.items():
            require(handle.get(key) == value, f"another value is under {key!r}", COMPLETE)

    def test_set_replaces_what_was_there(self) -> None:
        handle, key = self.handle(), self.key("again")
        for value in (b"first and long", b"second", b""):
            handle.set(key, value)
            found = handle.get(key)
            require(found == value, f"after set({value!r}) get gives {found!r}", FRESH)

    def test_delete_removes_the_key(self) -> None:
        handle, key = self.handle(), self.key("gone")
        handle.set(key, b"x")
        require(handle.delete(key), "delete_key of a key that is there is not True", TIDY)
        require(not handle.holds(key), "delete_key gave True, and the key is still there", TIDY)
        other = self.handle()
        require(not other.holds(key), "a deleted key is still there for another handle", TIDY)

    def test_delete_of_an_absent_key_gives_false(self) -> None:
        deleted = self.handle().delete(self.key("never"))
        require(not deleted, "delete_key gave True for a key that was never set", TIDY)

    def test_a_deleted_key_can_be_set_again(self) -> None:
        handle, key = self.handle(), self.key("twice")
        handle.set(key, b"old")
        handle.delete(key)
        handle.set(key, b"new")
        found = handle.get(key)
        require(found == b"new", f"a key that was deleted and set again holds {found!r}", FRESH)

    def test_a_value_that_was_read_does_not_change(self) -> None:
        handle, key = self.handle(), self.key("view")
        handle.set(key, b"before")
        value = handle.got(key)
        handle.set(key, b"behind")
        require(
            as_bytes(value, key) == b"before",
            "a value that get gave changed with a later set",
            SAME,
        )

    # ------------------------------------------------------------- keys

    @pytest.mark.parametrize("name", ODD_KEYS, ids=lambda name: ascii(name)[:24])
    def test_odd_keys_work(self, name: str) -> None:
        handle, key = self.handle(), self.key(name)
        handle.set(key, b"odd")
        require(handle.holds(key), f"the key {name!r} was set and is not there", COMPLETE)
        require(handle.get(key) == b"odd", f"the key {name!r} holds another value", COMPLETE)
        require(handle.delete(key), f"the key {name!r} cannot be deleted", TIDY)

    def test_different_keys_are_told_apart(self) -> None:
        handle = self.handle()
        for number, name in enumerate(SIMILAR_KEYS):
            key = self.key(name)
            require(not handle.holds(key), f"{name!r} is there before it was set", FRESH)
            handle.set(key, b"%d" % number)
        for number, name in enumerate(SIMILAR_KEYS):
            found = handle.get(self.key(name))
            require(found == b"%d" % number, f"{name!r} holds the value of another key", SAME)

    # ------------------------------------------------------------- waiting

    def test_get_blocks_until_the_key_is_there(self) -> None:
        handle, key = self.handle(), self.key("later")
        self._blocks_until(
            lambda: handle.store.get(key), "get of an absent key", lambda: self._set(key), b"late"
        )

    def test_wait_blocks_until_the_last_key_is_there(self) -> None:
        handle, there, later = self.handle(), self.key("there"), self.key("later")
        handle.set(there, b"x")
        self._blocks_until(
            lambda: handle.wait_raw([there, later]),
            "wait for keys that are partly there",
            lambda: self._set(later),
            None,
        )

    def test_wait_returns_at_once_when_all_keys_are_there(self) -> None:
        handle, keys = self.handle(), [self.key(name) for name in "abc"]
        for key in keys:
            handle.set(key, b"x")
        require(handle.wait(keys, 5.0), "wait did not find keys that are all there", COMPLETE)

    def test_wait_keeps_its_deadline(self) -> None:
        came = self.handle().wait([self.key("absent")], 0.5)
        require(not came, "wait returned for a key that is not there", COMPLETE)

    @pytest.mark.parametrize("there", ["first", "last"])
    def test_wait_on_keys_partly_there_keeps_its_deadline(self, there: str) -> None:
        handle, keys = self.handle(), [self.key("first"), self.key("last")]
        handle.set(self.key(there), b"x")
        came = handle.wait(keys, 0.5)
        require(not came, f"wait returned when only the {there} of two keys was there", COMPLETE)

    # ------------------------------------------------------------- several handles

    def test_a_set_is_seen_by_other_handles(self) -> None:
        early, writer, key = self.handle(), self.handle(), self.key("seen")
        early.holds(key)
        writer.set(key, b"x")
        for name, reader in (("older", early), ("newer", self.handle())):
            came = reader.wait([key], self.patience / 2)
            require(came, f"what one handle set does not reach an {name} handle", COMPLETE)
            found = reader.get(key)
            require(found == b"x", f"an {name} handle reads {found!r} instead of b'x'", SAME)

    def test_an_overwrite_is_seen_by_other_handles(self) -> None:
        one, other, key = self.handle(), self.handle(), self.key("turn")
        for number in range(3):
            for writer, reader in ((one, other), (other, one)):
                value = b"%d by %d" % (number, writer is one)
                writer.set(key, value)
                require(writer.get(key) == value, "a handle does not see what it set", FRESH)
                found = reader.get(key)
                require(found == value, f"a reader gets {found!r} after set({value!r})", FRESH)

    def test_a_set_outlives_its_handle(self) -> None:
        keep, key = self.handle(), self.key("left")
        setter = self.handle()
        setter.set(key, b"x")
        keep.wait([key], self.patience / 2)
        del setter
        gc.collect()
        require(keep.holds(key), "what a handle set went away with the handle", COMPLETE)
        require(keep.get(key) == b"x", "what a handle set changed after the handle", COMPLETE)

    def test_a_set_outlives_its_process(self) -> None:
        """Only where `opener` says how another process opens the store."""
        opener = self.opener()
        if opener is None:
            pytest.skip("opener() says that other processes cannot open this store")
        from .children import set_in_a_process

        keep, key = self.handle(), self.key("from a process")
        set_in_a_process(opener, key, b"x", 3 * self.patience)
        came = keep.wait([key], self.patience / 2)
        require(came, "what a process set went away when the process was killed", COMPLETE)
        require(keep.get(key) == b"x", "what a process set changed when it was killed", COMPLETE)

    def test_one_handle_serves_several_threads(self) -> None:
        handle = self.handle()
        self._write_at_once([handle] * 4)

    def test_several_handles_write_at_once(self) -> None:
        self._write_at_once([self.handle() for _ in range(4)])

    def test_writers_of_one_key_leave_one_value_whole(self) -> None:
        handles, key = [self.handle() for _ in range(3)], self.key("race")
        values = [bytes([number]) * 50_000 for number in range(len(handles))]

        def write(number: int) -> None:
            for _ in range(10):
                handles[number].set(key, values[number])
                found = handles[number].get(key)
                require(found in values, "writers of one key mixed their values", SAME)

        self._at_once(write, len(handles))
        found = {handle.get(key) for handle in handles}
        require(len(found) == 1, "handles differ on what is under a key", SAME)

    # ------------------------------------------------------------- all of it

    def test_random_calls_on_several_handles_do_what_a_dict_does(self) -> None:
        run_store_machine(self.handle, self.key, self.examples)

    def test_histories_over_the_store_agree(self) -> None:
        """Whole runs: ranks that are threads, random programs, equal digests."""
        check_history_over(
            self.open_store,
            world_size=3,
            examples=max(1, self.examples // 3),
            timeout=self.patience,
        )

    # ------------------------------------------------------------- beside the store

    def test_what_is_set_can_be_read_beside_the_store(self) -> None:
        if type(self).raw_get is StoreTests.raw_get:
            pytest.skip("there is no raw_get")
        key = self.key("raw")
        self.handle().set(key, b"\0raw\xff")
        found = self.raw_get(key)
        require(found == b"\0raw\xff", f"beside the store the value is {found!r}", EXACT)

    def test_what_is_put_beside_the_store_is_found(self) -> None:
        if type(self).raw_set is StoreTests.raw_set:
            pytest.skip("there is no raw_set")
        handle, key = self.handle(), self.key("raw")
        self.raw_set(key, b"\0raw\xff")
        require(handle.wait([key], self.patience / 2), "a value put beside is not seen", COMPLETE)
        found = handle.get(key)
        require(found == b"\0raw\xff", f"a value put beside reads {found!r}", EXACT)

    # ------------------------------------------------------------- helpers

    def _set(self, key: str) -> None:
        self.handle().set(key, b"late")

    def _blocks_until(
        self, call: Callable[[], Any], what: str, then: Callable[[], None], result: Any
    ) -> None:
        """`call` must still block after a third of a second, and return soon after `then`."""
        ended = threading.Event()
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.append(call())
            except Exception as error:  # noqa: BLE001  (it is what we report)
                outcome.append(error)
            ended.set()

        threading.Thread(target=run, daemon=True).start()
        early = ended.wait(0.3)
        require(not early, f"{what} did not block, it gave {outcome}", COMPLETE)
        then()
        late = ended.wait(self.patience)
        require(late, f"{what} still blocks after all keys were set", PROMPT)
        require(outcome == [result], f"{what} ended in {outcome} instead of {result!r}", COMPLETE)

    def _write_at_once(self, handles: list[Handle]) -> None:
        """Each thread sets and gets keys of its own, and must get its own values."""
        keys = [[self.key(f"{n}/{turn % 5}") for turn in range(25)] for n in range(len(handles))]

        def write(number: int) -> None:
            for turn, key in enumerate(keys[number]):
                value = b"%d in turn %d" % (number, turn)
                handles[number].set(key, value)
                found = handles[number].get(key)
                require(found == value, f"a thread set {value!r} and got {found!r}", SAME)

        self._at_once(write, len(handles))

    def _at_once(self, body: Callable[[int], None], count: int) -> None:
        """`body(0)`, `body(1)`, ... in threads that start together; the first error is raised."""
        errors: list[BaseException] = []
        start = threading.Barrier(count)

        def run(number: int) -> None:
            try:
                start.wait(self.patience)
                body(number)
            except BaseException as error:  # noqa: BLE001  (raised again below)
                errors.append(error)

        threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * self.patience)
        if errors:
            raise errors[0]
        alive = any(thread.is_alive() for thread in threads)
        require(not alive, "calls from several threads at once hang", PROMPT)
