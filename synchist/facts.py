"""What a rank says of itself when it meets the others, and whether two ranks fit together."""

from __future__ import annotations

from typing import Any, Final

import attrs
import msgpack

from .errors import CorruptDataError

__all__ = ["PROTOCOL", "Facts", "judge", "unlike"]

PROTOCOL: Final = 1
"""Version of the meeting and of the rounds; ranks of different versions refuse each other."""


@attrs.frozen
class Facts:
    """What a rank brings to a meeting.

    Attributes:
        rank: its rank.
        world_size: how many ranks it expects.
        history: name of the history, and the how-many-eth on its store it is.
        job: identity of the job, or None.
        rules: the reduce table it was given, as sorted (name, identity of the rule).
        clears: how often a history with something in it was cleared.
        lineage: raised whenever the history was cleared.
        digest: digest of what it holds as agreed.
        rounds: rounds it has completed since it last met.
        chain: identity of those rounds, or None if it never met.
        empty: it never recorded, cleared or received anything.
        commit: it waits for a mark of rank 0 that a round is on disk (reserved for journals).
        protocol: version of synchist's protocol.
    """

    rank: int
    world_size: int
    history: str
    job: str | None
    rules: tuple[tuple[str, str], ...]
    clears: int
    lineage: int
    digest: str
    rounds: int
    chain: bytes | None
    empty: bool
    commit: bool = False
    protocol: int = PROTOCOL

    def encode(self) -> bytes:
        """The facts in bytes; the protocol version comes first, for ranks of another version."""
        fields = attrs.astuple(self, recurse=False)
        packed: bytes = msgpack.packb([fields[-1], *fields[:-1]], unicode_errors="surrogatepass")
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Facts:
        """Raises CorruptDataError when these are no facts of this protocol version."""
        try:
            version, *fields = msgpack.unpackb(data, unicode_errors="surrogatepass")
        except Exception as error:  # msgpack raises many unrelated types on damaged input
            raise CorruptDataError(
                f"a rank introduced itself with damaged bytes: {error}"
            ) from error
        if version != PROTOCOL:
            raise CorruptDataError(
                f"a rank speaks version {version!r} of synchist's protocol, this one {PROTOCOL}: "
                "install the same version of synchist everywhere"
            )
        if len(fields) != len(_TYPES) or not all(
            isinstance(field, types) for field, types in zip(fields, _TYPES, strict=True)
        ):
            raise CorruptDataError("a rank introduced itself with fields that mean nothing here")
        try:
            fields[4] = tuple((str(name), str(rule)) for name, rule in fields[4])
        except (TypeError, ValueError) as error:
            raise CorruptDataError("a rank's reduce table is damaged") from error
        return cls(*fields)


_TYPES: Final[tuple[Any, ...]] = (
    int, int, str, (str, type(None)), list, int, int, str, int, (bytes, type(None)), bool, bool,
)  # fmt: skip


def judge(mine: bytes, theirs: bytes, rank: int) -> str | None:
    """What keeps rank 0 (`mine`) and `rank` (`theirs`) from being one group, in words; or None."""
    try:
        return unlike(Facts.decode(mine), Facts.decode(theirs), rank)
    except CorruptDataError as error:
        return str(error)


def unlike(mine: Facts, theirs: Facts, rank: int) -> str | None:
    """What keeps two ranks from being one group, in words; or None."""
    who = f"rank {mine.rank}"
    if theirs.rank != rank:
        return f"the answer of rank {rank} says that it is rank {theirs.rank}"
    if mine.world_size != theirs.world_size:
        return (
            f"{who} expects world_size={mine.world_size}, "
            f"rank {rank} world_size={theirs.world_size}"
        )
    if mine.job != theirs.job:
        return (
            f"{who} belongs to job {mine.job!r}, rank {rank} to job {theirs.job!r}: two jobs share "
            "this store; give each its own"
        )
    if mine.history != theirs.history:
        return (
            f"{who} syncs history {mine.history!r}, rank {rank} history {theirs.history!r}: every "
            "rank has to create and sync its histories in the same order, or name them "
            "(History(name=...))"
        )
    differing = sorted({name for name, _ in set(mine.rules) ^ set(theirs.rules)})
    ours, others = dict(mine.rules), dict(theirs.rules)
    if mine.empty != theirs.empty:  # one receives the rules of the other with its history
        differing = [name for name in differing if name in ours and name in others]
    if differing:
        told = ", ".join(f"{n!r}: {ours.get(n)} and {others.get(n)}" for n in differing[:5])
        return f"{who} and rank {rank} have different reduce tables ({told})"
    if mine.commit != theirs.commit:
        return f"only one of {who} and rank {rank} expects a journal"
    if mine.empty or theirs.empty:
        return None
    if mine.clears != theirs.clears:
        return (
            f"{who} cleared its history {mine.clears} times, rank {rank} {theirs.clears} times: "
            "call clear() on every rank"
        )
    if mine.digest != theirs.digest and not _may_be_prefix(mine, theirs):
        return (
            f"{who} and rank {rank} hold different histories (digests {mine.digest[:12]}... and "
            f"{theirs.digest[:12]}...): load the same file on every rank, or clear() on every rank"
        )
    return None


def _may_be_prefix(mine: Facts, theirs: Facts) -> bool:
    """Whether one may be what the other was some rounds ago; the longer one has to confirm it."""
    if mine.chain is None or theirs.chain is None:
        return False
    return mine.rounds != theirs.rounds
