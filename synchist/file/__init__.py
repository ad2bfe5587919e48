"""The file format: what `History.save` writes, and what journals append to.

`layout` states the rules. `docs/reference/format.md` has them in full, for readers in other
languages.
"""

from .contents import (
    Contents,
    read_column,
    read_contents,
    read_file,
    write_contents,
    write_file,
)
from .frames import FrameReader, FrameWriter
from .header import JOURNAL, SAVED, Header
from .records import Place, Record, read_record, write_record
from .replacing import replace_file

__all__ = [
    "JOURNAL",
    "SAVED",
    "Contents",
    "FrameReader",
    "FrameWriter",
    "Header",
    "Place",
    "Record",
    "read_column",
    "read_contents",
    "read_file",
    "read_record",
    "replace_file",
    "write_contents",
    "write_file",
    "write_record",
]
