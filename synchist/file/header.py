"""The header frame: what a file says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from .._version import __version__
from ..codec import Registry, decode, encode
from ..model.fields import count, expect

__all__ = ["JOURNAL", "MAX_WORLD_SIZE", "NO_CLASSES", "SAVED", "Header"]

SAVED: Final = "saved"
JOURNAL: Final = "journal"

MAX_WORLD_SIZE: Final = 1 << 20
"""The ranks of a history are listed, and a file of a few bytes must not take for ever to list."""

NO_CLASSES: Final = Registry()
"""What describes a file holds no values of users, so no decoder of theirs has to see it."""


@attrs.frozen
class Header:
    """What a file says of itself.

    Attributes:
        kind: `SAVED` or `JOURNAL`.
        rank: the rank that wrote it.
        world_size: number of processes that shared the history.
        name: name of the history.
        clears: how often a history with something in it was cleared.
        lineage: raised whenever the history was cleared or cut.
        reduce: identity of the reduce rule, by name of an epoch value.
        created: when, in ISO 8601 with a time zone.
        synchist: version of synchist that wrote it.
        more: fields of later versions, kept as they are.
    """

    kind: str
    rank: int
    world_size: int
    name: str = ""
    clears: int = 0
    lineage: int = 0
    reduce: Mapping[str, str] = attrs.field(factory=dict)
    created: str = attrs.field(factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    synchist: str = __version__
    more: Mapping[str, Any] = attrs.field(factory=dict)

    def pack(self) -> bytes:
        """The payload of the frame."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        return encode({**fields, "reduce": dict(self.reduce), **self.more}, registry=NO_CLASSES)

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        """The inverse of `pack`.

        Raises:
            ValueError, KeyError, TypeError: these are no such fields.
            CorruptDataError: these are no bytes of the codec.
        """
        fields = expect(decode(data, registry=NO_CLASSES), dict)
        more = {name: value for name, value in fields.items() if name not in _FIELDS}
        for name in ("kind", "name", "created", "synchist"):
            expect(fields[name], str)
        for name in ("rank", "world_size", "clears", "lineage"):
            count(fields[name])
        if fields["kind"] not in (SAVED, JOURNAL):
            raise ValueError(f"a file cannot be of kind {fields['kind']!r:.40}")
        if not fields["rank"] < fields["world_size"] <= MAX_WORLD_SIZE:
            raise ValueError(f"rank {fields['rank']} of {fields['world_size']}")
        for name, rule in expect(fields["reduce"], dict).items():
            expect(name, str)
            expect(rule, str)
        return cls(**{name: fields[name] for name in _FIELDS}, more=more)


_FIELDS: Final = (
    "synchist",
    "created",
    "kind",
    "name",
    "rank",
    "world_size",
    "clears",
    "lineage",
    "reduce",
)
