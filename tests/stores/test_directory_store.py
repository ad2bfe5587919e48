"""DirectoryStore: the words of a store on files, whole values, safe names, cheap waits."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from synchist import stores
from synchist.errors import StoreError
from synchist.stores import CheckStore, CloneStore, DirectoryStore, MultiGetStore, Store
from synchist.stores.directory import file_name

SOON = timedelta(seconds=0.05)
LONG = timedelta(seconds=30)

# Keys that only differ in case, in Unicode form, or in what an escape looks like.
AWKWARD = ["", "a", "A", "a/b", "a%2fb", "..", "é", "e\u0301", "\x00", "\ud800", "k" * 300]
KEYS = st.one_of(st.sampled_from(AWKWARD), st.text("aA%2f/.-_ ", max_size=5))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.binary(max_size=4)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("read"), KEYS),
    ),
    max_size=20,
)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store", timeout=30)


def test_it_is_a_store_with_the_optional_words(store: DirectoryStore) -> None:
    for words in (Store, CheckStore, MultiGetStore, CloneStore):
        assert isinstance(store, words)


@given(steps=STEPS)
def test_it_behaves_like_a_dict(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, bytes]]
) -> None:
    store = DirectoryStore(tmp_path_factory.mktemp("store"), timeout=0)
    model: dict[str, bytes] = {}
    for step, key, *value in steps:
        if step == "set":
            store.set(key, value[0])
            model[key] = value[0]
        elif step == "delete":
            assert store.delete_key(key) == (model.pop(key, None) is not None)
        elif key in model:
            assert store.get(key) == model[key]
            store.wait([key], timedelta(0))
        else:
            with pytest.raises(TimeoutError):
                store.get(key)
        assert store.check([key]) == (key in model)
        assert store.num_keys() == len(model)
    assert store.multi_get(list(model)) == list(model.values())


@given(st.text(), st.text())
@example("k" * 200, "K" * 200)
@example("é", "e\u0301")
@example("h-" + "0" * 64, "k" * 500)
def test_file_names_differ_for_different_keys_even_when_case_is_ignored(a: str, b: str) -> None:
    assert (file_name(a).casefold() == file_name(b).casefold()) == (a == b)


@given(st.one_of(st.text(max_size=400), st.sampled_from(["con", "NUL", "aux.txt", "com1", ".."])))
def test_file_names_are_short_and_safe_on_every_system(key: str) -> None:
    name = file_name(key)
    assert len(name.encode()) <= 143
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-%")
    assert name[:2] in ("k-", "h-")  # so that no name is a reserved one such as `con`


def test_a_reader_never_sees_a_part_of_a_value(store: DirectoryStore) -> None:
    size, count = 300_000, 200
    store.set("a", bytes(size))
    done = threading.Event()

    def write() -> None:
        for n in range(count):
            store.set("a", bytes([n]) * size)
        done.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        reads = 0
        while not done.is_set() and not writing.done():
            value = store.get("a")
            assert len(value) == size
            assert value == value[:1] * size
            reads += 1
        writing.result()
    assert reads > 0


def test_another_process_gets_the_value(store: DirectoryStore) -> None:
    code = (
        "import sys, pickle; store = pickle.load(sys.stdin.buffer);"
        "store.set('there', store.get('here') + b'!')"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(pickle.dumps(store))
    child.stdin.close()
    store.set("here", b"1")
    assert store.get("there") == b"1!"
    assert child.wait(30) == 0


def test_pickling_and_cloning_keep_the_settings(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, timeout=7, fsync=True)
    store.set("a", b"1")
    for copy in (pickle.loads(pickle.dumps(store)), store.clone()):
        assert copy is not store
        assert (copy.path, copy.timeout, copy.fsync) == (str(tmp_path), 7, True)
        assert copy.get("a") == b"1"


def test_a_relative_path_still_means_the_same_folder_after_chdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = DirectoryStore("relative/folder")
    store.set("a", b"1")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert store.get("a") == b"1"


def test_a_waiting_thread_gets_the_values_once_they_are_set(store: DirectoryStore) -> None:
    with ThreadPoolExecutor(2) as pool:
        values = pool.submit(store.multi_get, ["b", "a"])
        waited = pool.submit(store.wait, ["a", "b"], LONG)
        store.set("a", b"1")
        with pytest.raises(TimeoutError):
            store.wait(["b"], SOON)
        assert not values.done()
        assert not waited.done()
        store.set("b", b"2")
        assert values.result(30) == [b"2", b"1"]
        assert waited.result(30) is None


def test_waiting_costs_next_to_no_cpu(store: DirectoryStore) -> None:
    before = time.thread_time()
    with pytest.raises(TimeoutError):
        store.wait([f"rank{n}" for n in range(8)], timedelta(seconds=1))
    assert time.thread_time() - before < 0.1


def test_timeouts_name_the_missing_keys(store: DirectoryStore) -> None:
    store.set("here", b"")
    store.timeout = 0.05
    with pytest.raises(TimeoutError, match=r"after 0.05 s .* keys 'gone', 'lost'$") as caught:
        store.wait(["gone", "here", "lost"], SOON)
    assert not isinstance(caught.value, StoreError)
    for call in (lambda: store.get("a"), lambda: store.multi_get(["a"]), lambda: store.wait(["a"])):
        with pytest.raises(TimeoutError, match="'a'"):
            call()


def test_wrong_types_are_refused(store: DirectoryStore) -> None:
    with pytest.raises(TypeError, match="a key must be a str, got bytes"):
        store.get(b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="keys must be a list of str"):
        store.check("abc")
    with pytest.raises(TypeError, match="a value must be bytes, got str"):
        store.set("a", "text")  # type: ignore[arg-type]
    assert store.num_keys() == 0


@pytest.mark.parametrize("replace", [False, True], ids=["missing", "a file now"])
def test_a_folder_deleted_while_running_is_named(store: DirectoryStore, replace: bool) -> None:
    shutil.rmtree(store.path)
    if replace:
        Path(store.path).touch()
    calls: list[Callable[[], object]] = [
        lambda: store.set("a", b"1"),
        lambda: store.get("a"),
        lambda: store.wait(["a"], LONG),
        lambda: store.check(["a"]),
        lambda: store.delete_key("a"),
        store.num_keys,
        lambda: store.clone().get("a"),
    ]
    for call in calls:
        with pytest.raises(StoreError, match=r"store's folder .*store: ") as caught:
            call()
        assert store.path in str(caught.value)
        assert ("it was deleted" in str(caught.value)) == (not replace)


def test_a_waiting_thread_notices_that_the_folder_was_deleted(store: DirectoryStore) -> None:
    with ThreadPoolExecutor(1) as pool:
        value = pool.submit(store.get, "never")
        shutil.rmtree(store.path)
        with pytest.raises(StoreError, match="deleted"):
            value.result(10)


def test_a_path_that_cannot_be_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot open the store's folder .*file"):
        DirectoryStore(tmp_path / "file")


def test_a_write_that_fails_leaves_nothing_behind_and_keeps_the_old_value(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set("a", b"old")

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StoreError, match="No space left"):
            store.set("a", b"new")
    assert os.listdir(store.path) == [file_name("a")]
    assert store.get("a") == b"old"


@pytest.mark.parametrize("error", [PermissionError(13, "busy"), OSError(errno.ESTALE, "stale")])
@pytest.mark.parametrize("call", ["replace", "open", "stat", "unlink"])
def test_errors_that_pass_by_themselves_are_retried(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, error: OSError, call: str
) -> None:
    store.set("a", b"1")
    real = open if call == "open" else getattr(os, call)
    failures = [error, error]

    def flaky(file: str, *rest: Any) -> object:
        if failures and file_name("a") in f"{file} {rest}":
            raise failures.pop()
        return real(file, *rest)

    if call == "open":
        monkeypatch.setattr(stores.directory, "open", flaky, raising=False)
    else:
        monkeypatch.setattr(os, call, flaky)
    store.set("a", b"2")
    assert store.check(["a"])
    assert store.get("a") == b"2"
    assert store.delete_key("a")
    assert not failures


def test_a_lasting_permission_error_is_reported(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", denied)
    monkeypatch.setattr(stores.directory, "_RETRY_FOR", 0.05)
    with pytest.raises(StoreError, match="Permission denied"):
        store.set("a", b"1")


def test_what_a_killed_writer_left_is_no_key_and_goes_after_an_hour(tmp_path: Path) -> None:
    """The child is killed between writing the temporary file and renaming it."""
    code = (
        "import os, signal, sys\n"
        "from synchist.stores import DirectoryStore\n"
        "store = DirectoryStore(sys.argv[1])\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "store.set('a', b'1')\n"
    )
    child = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert child.returncode == -signal.SIGKILL
    (left_over,) = tmp_path.iterdir()

    store = DirectoryStore(tmp_path)
    assert left_over.exists()  # it may belong to a writer that is alive
    assert store.num_keys() == 0
    assert not store.check(["a"])

    store.set("kept", b"1")
    hour_ago = time.time() - 3700
    for file in tmp_path.iterdir():
        os.utime(file, (hour_ago, hour_ago))
    DirectoryStore(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [file_name("kept")]


def test_files_of_others_in_the_folder_are_left_alone(store: DirectoryStore) -> None:
    other = Path(store.path, "README.txt")
    other.write_text("not a key")
    os.utime(other, (0, 0))
    assert DirectoryStore(store.path).num_keys() == 0
    assert other.exists()


def test_fsync_is_off_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    DirectoryStore(tmp_path).set("a", b"1")
    assert not calls
    DirectoryStore(tmp_path, fsync=True).set("a", b"2")
    assert len(calls) == 2  # the file, then the folder that names it
