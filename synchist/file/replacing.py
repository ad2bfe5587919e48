"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

__all__ = ["replace_file"]


def replace_file(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Let `write` write a file; at `path` there is either the whole of it or what was before.

    It is written under another name in the same folder, is on the disk before it takes its name,
    and keeps the permissions of the file that it replaces. A link is followed. What is no regular
    file, such as a pipe, is written to directly.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    path = os.path.realpath(os.fsdecode(path))
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            write(file)
        return
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f".synchist-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Make the new name last, where the system can."""
    with suppress(OSError):  # Windows opens no folders, and some file systems sync none
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
