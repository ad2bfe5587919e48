"""A store that is a folder: one file per key, on a local or a shared file system.

How it stays whole:

- A value is written to a temporary file in the same folder, closed, and renamed to its name.
  Renaming is atomic, so a reader finds the old value, the new one or none, and never a part of one.
- There is no fsync by default: other processes see a renamed file without it. It guards against
  power loss only, and a store need not outlive that.
- File names are made of `a-z 0-9 _ - %` alone, so that two keys never meet in one file on a file
  system that folds case or normalises Unicode. See `file_name`.
- A writer that is killed leaves a temporary file. It is no key, and whoever opens the store removes
  the ones older than an hour.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

from ..deadline import Deadline
from ..errors import StoreError
from .arguments import as_bytes, as_deadline, check_key, check_keys, not_there

__all__ = ["DirectoryStore", "file_name"]

_PLAIN, _HASHED, _TEMPORARY = "k-", "h-", "t-"  # what a file name starts with
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST = 128  # of an escaped key; names stay below the 143 bytes that eCryptfs allows
_STALE_AFTER = 3600.0  # seconds; no write takes that long
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.03  # seconds between two looks while waiting
_RETRY_FOR = 1.0  # seconds; how long a virus scanner or a reader may hold a file on Windows

T = TypeVar("T")


def file_name(key: str) -> str:
    """The file name of `key`: a prefix and the key's UTF-8 with all but `[a-z0-9_-]` as `%xx`.

    Keys whose escaped form is longer than 128 characters are named by their SHA-256 instead. The
    prefix keeps the two apart and makes names such as `con` and `nul` usable on Windows. Different
    keys get names that differ even when case is ignored.

    >>> file_name("run/0"), file_name("Run/0")
    ('k-run%2f0', 'k-%52un%2f0')
    """
    raw = key.encode("utf-8", "surrogatepass")
    escaped = "".join(chr(byte) if byte in _KEPT else f"%{byte:02x}" for byte in raw)
    if len(escaped) <= _LONGEST:
        return _PLAIN + escaped
    return _HASHED + hashlib.sha256(raw).hexdigest()


class DirectoryStore:
    """A store in a folder that every rank can reach.

    Safe to use from any number of threads and processes at once. Can be pickled: the copy opens the
    same folder.

    Attributes:
        path: the folder, absolute. It is created when it is missing.
        timeout: how many seconds `get` and `multi_get` wait for a key.
        fsync: whether a value is flushed to the disk before `set` returns.

    Notes:
        Waiting looks at the folder again and again, at first every millisecond and then some 30
        times a second. Every look opens the folder, which makes an NFS client ask its server again.
        With a mount that does not (`nocto`, some older clients) a new key can stay hidden for as
        long as directory attributes are cached, by default up to a minute: give `sync` a timeout
        well above that, or mount with `lookupcache=none` or `acdirmax=1`.

        Nothing is encrypted or authenticated: whoever can write to the folder can change values.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 300.0, fsync: bool = False
    ) -> None:
        """Open the folder `path`, create it when missing, and remove stale temporary files.

        Raises:
            StoreError: the folder cannot be created or written to.
        """
        as_deadline(timeout)
        self.path = os.path.abspath(os.fsdecode(path))
        self.timeout = timeout
        self.fsync = fsync
        with self._explained("open"):
            os.makedirs(self.path, exist_ok=True)
            self._remove_stale()

    def set(self, key: str, value: bytes | bytearray | memoryview, /) -> None:
        """Put `value` under `key`. Blocks for one write and one rename.

        Raises:
            TypeError: `key` is not a `str` or `value` not bytes.
            StoreError: the folder is gone, full or may not be written to.
        """
        check_key(key)
        data = as_bytes(value)
        with self._explained("write to"):
            temporary = self._temporary()
            try:
                with open(temporary, "xb") as file:
                    file.write(data)
                    if self.fsync:
                        file.flush()
                        os.fsync(file.fileno())
                _patiently(lambda: os.replace(temporary, self._file(key)))
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            if self.fsync:
                self._flush_folder()

    def get(self, key: str, /) -> bytes:
        """The value under `key`; blocks until it is there.

        Raises:
            TimeoutError: it was not there after `timeout` seconds.
            StoreError: the folder is gone or cannot be read.
        """
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str], /) -> list[bytes]:
        """The values of all keys, in order; blocks until all have been there.

        Raises:
            TimeoutError: some were not there after `timeout` seconds; the message names them.
            StoreError: the folder is gone or cannot be read.
        """
        check_keys(keys)
        found: dict[str, bytes] = {}

        def look(missing: list[str]) -> list[str]:
            for key in missing:
                value = self._read(key)
                if value is not None:
                    found[key] = value
            return [key for key in missing if key not in found]

        self._poll(list(keys), look, as_deadline(self.timeout))
        return [found[key] for key in keys]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None, /) -> None:
        """Block until every key has been there.

        Raises:
            TimeoutError: some were not there after `timeout` (the store's own timeout when None);
                the message names them.
            StoreError: the folder is gone or cannot be read.
        """
        check_keys(keys)
        deadline = as_deadline(self.timeout if timeout is None else timeout)
        self._poll(list(keys), self._absent, deadline)

    def check(self, keys: Sequence[str], /) -> bool:
        """Whether every key is there now.

        Raises:
            StoreError: the folder is gone or cannot be read.
        """
        check_keys(keys)
        with self._explained("read"):
            self._refresh()
            return not self._absent(list(keys))

    def delete_key(self, key: str, /) -> bool:
        """Remove `key`; True when it was there.

        Raises:
            StoreError: the folder is gone or may not be written to.
        """
        check_key(key)
        with self._explained("write to"):
            try:
                _patiently(lambda: os.unlink(self._file(key)))
            except FileNotFoundError:
                self._refresh()
                return False
            return True

    def num_keys(self) -> int:
        """How many keys the store holds; reads the whole folder.

        Raises:
            StoreError: the folder is gone or cannot be read.
        """
        with self._explained("read"), os.scandir(self.path) as entries:
            return sum(entry.name.startswith((_PLAIN, _HASHED)) for entry in entries)

    def clone(self) -> DirectoryStore:
        """A second handle on the same folder, which is not created anew when it is gone."""
        handle = object.__new__(type(self))
        handle.__dict__.update(self.__dict__)
        return handle

    def _poll(
        self, keys: list[str], look: Callable[[list[str]], list[str]], deadline: Deadline
    ) -> None:
        """Call `look` with the keys it has not found yet, until it has found all of them."""
        pause = _FIRST_PAUSE
        with self._explained("read"):
            while True:
                self._refresh()
                keys = look(keys)
                if not keys:
                    return
                left = deadline.left()
                if not left:
                    raise not_there(keys, deadline)
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _absent(self, keys: list[str]) -> list[str]:
        return [key for key in keys if not _exists(self._file(key))]

    def _read(self, key: str) -> bytes | None:
        def read() -> bytes:
            with open(self._file(key), "rb") as file:
                return file.read()

        try:
            return _patiently(read)
        except FileNotFoundError:
            return None

    def _refresh(self) -> None:
        """Open the folder: an NFS client then asks the server; fails when it is gone."""
        with os.scandir(self.path):
            pass

    def _flush_folder(self) -> None:
        if os.name == "nt":  # a folder cannot be opened there; NTFS journals the rename
            return
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _remove_stale(self) -> None:
        """Remove old temporary files. Their age is by the file system's clock, not by ours."""
        probe = self._temporary()
        with open(probe, "xb"):
            pass
        now = os.stat(probe).st_mtime
        os.unlink(probe)
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(_TEMPORARY):
                    with suppress(OSError):  # another rank may be tidying up as well
                        if now - entry.stat().st_mtime > _STALE_AFTER:
                            os.unlink(entry.path)

    def _file(self, key: str) -> str:
        return os.path.join(self.path, file_name(key))

    def _temporary(self) -> str:
        return os.path.join(self.path, _TEMPORARY + secrets.token_hex(16))

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Turn the operating system's errors into a `StoreError` that names the folder."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            if isinstance(error, TimeoutError) and error.errno is None:
                raise  # ours; one with an errno comes from the file system
            if not os.path.isdir(self.path) and isinstance(error, FileNotFoundError):
                reason = "it was deleted or is no longer mounted"
            else:
                reason = error.strerror or str(error)
            raise StoreError(f"cannot {doing} the store's folder {self.path}: {reason}") from error

    def __repr__(self) -> str:
        return f"DirectoryStore({self.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.path, self.timeout, self.fsync)


def _reopen(cls: type[DirectoryStore], path: str, timeout: float, fsync: bool) -> DirectoryStore:
    return cls(path, timeout=timeout, fsync=fsync)


def _exists(file: str) -> bool:
    try:
        _patiently(lambda: os.stat(file))
    except FileNotFoundError:
        return False
    return True


def _patiently(call: Callable[[], T]) -> T:
    """Call again for a moment where a file system gives errors that pass by themselves.

    ESTALE: on NFS the file was replaced between looking it up and reading it. PermissionError: on
    Windows and on SMB shares a file cannot be replaced or opened while another process has it open.
    """
    deadline = Deadline(_RETRY_FOR)
    while True:
        try:
            return call()
        except OSError as error:
            passing = isinstance(error, PermissionError) or error.errno == errno.ESTALE
            if not passing or deadline.expired:
                raise
        time.sleep(0.01)
