"""Values and keys that stores get wrong."""

from __future__ import annotations

from typing import Final

__all__ = ["ODD_KEYS", "SIMILAR_KEYS", "VALUES"]

VALUES: Final = [
    b"",
    b"text",
    b"\0",
    b"\0in the middle\0\0",
    b"\xff\xfe not UTF-8 \x80",
    bytes(range(256)),
    b"\r\n trailing newline \n",
]

ODD_KEYS: Final = [
    "with space",
    "a/b/../c",
    "./.hidden",
    "100%25",
    "tab\tand\nnewline",
    "quote\"'`$(x)",
    "colon:star*question?",
    "Größe-训练-🚀",
    "UPPER.lower",
    "x" * 300,
    "trailing.",
    "trailing/",
]
"""The name of a history is part of a key, so users choose what is in one."""

SIMILAR_KEYS: Final = [
    "a",
    "A",
    "a/b",
    "a_b",
    "a:b",
    "a.b",
    "a b",
    "a/b/",
    "a//b",
    "a%2Fb",
    "a%2fb",
    "1",
    "01",
    "1/2",
    "12",
    "é",
    "e\u0301",  # the same letter, decomposed
    "x" * 250,
    "x" * 251,
    "x" * 250 + "y",
]
