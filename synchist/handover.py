"""Handing the agreed history to ranks that hold nothing, or less of it, after a meeting.

Every rank knows what every rank said of itself, so all of them decide the same without talking: who
hands over, and whether anybody needs it. Only when somebody does, one more round carries it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from .errors import CorruptDataError, DivergenceError
from .facts import Facts, unlike
from .model.log import Log
from .segment import decode_delta, encode_delta

__all__ = ["HandOver", "choose_donor", "log_from_bytes", "log_to_bytes"]

_FORMAT: Final = 1


def choose_donor(everyone: Sequence[Facts]) -> int:
    """The lowest of the ranks that have come furthest."""

    def progress(rank: int) -> tuple[bool, int, int]:
        facts = everyone[rank]
        return not facts.empty, facts.rounds, -rank

    return max(range(len(everyone)), key=progress)


class HandOver:
    """One rank's side of it.

    Attributes:
        donor: the rank whose history everybody will hold.
        needed: whether some rank holds something else now.
        payload: what this rank brings to the round that carries it.
    """

    def __init__(
        self,
        everyone: Sequence[Facts],
        donor: int,
        rank: int,
        chains: Sequence[bytes],
        log: Log,
        rules: Mapping[str, str],
    ) -> None:
        """`chains` are those of this rank's last session; it holds `log`, read by `rules`.

        Raises:
            DivergenceError: two ranks hold histories that contradict each other.
        """
        for other, facts in enumerate(everyone):
            differs = unlike(everyone[donor], facts, other)
            if differs is not None:
                raise DivergenceError(f"the ranks do not fit together: {differs}", rank=other)
        self.donor = donor
        self.needed = any(facts.digest != everyone[donor].digest for facts in everyone)
        self._everyone = everyone
        self._log = log
        self._lineage = max(facts.lineage for facts in everyone)
        self.payload = b""
        if self.needed and rank == donor:
            refusal = _not_a_prefix(everyone, donor, chains)
            body: Any = refusal if refusal is not None else log_to_bytes(log)
            fields = [_FORMAT, body, dict(rules)]
            self.payload = msgpack.packb(fields, unicode_errors="surrogatepass")

    def agreed_without_talking(self) -> tuple[Log, int]:
        """What this rank holds now, and how often it was cleared, as all ranks will count it."""
        self._log.lineage = self._lineage
        return self._log, max(facts.clears for facts in self._everyone)

    def receive(self, payload: bytes) -> tuple[Log, dict[str, str]]:
        """The history that the donor brought, and its reduce table.

        Raises:
            DivergenceError: a rank holds something that the donor never held.
            CorruptDataError: the bytes are damaged.
        """
        try:
            format_, body, rules = msgpack.unpackb(payload, unicode_errors="surrogatepass")
        except Exception as error:  # msgpack raises many unrelated types on damaged input
            raise CorruptDataError(
                f"rank {self.donor} handed over damaged bytes: {error}"
            ) from error
        if isinstance(body, str):
            raise DivergenceError(f"the ranks do not fit together: {body}")
        if format_ != _FORMAT or not isinstance(body, bytes) or not isinstance(rules, dict):
            raise CorruptDataError(f"rank {self.donor} handed over bytes of format {format_!r}")
        log = log_from_bytes(body, f"the history that rank {self.donor} handed over")
        log.lineage = self._lineage
        return log, {str(name): str(rule) for name, rule in rules.items()}


def _not_a_prefix(everyone: Sequence[Facts], donor: int, chains: Sequence[bytes]) -> str | None:
    for rank, facts in enumerate(everyone):
        if facts.empty or facts.digest == everyone[donor].digest:
            continue
        if not (0 <= facts.rounds < len(chains) and chains[facts.rounds] == facts.chain):
            return (
                f"rank {rank} holds a history that rank {donor} never held: load the same file on "
                "every rank, or clear() on every rank"
            )
    return None


def log_to_bytes(log: Log) -> bytes:
    """A whole log in bytes: what each rank recorded, with its sequence number."""
    parts = [
        [rank, log.sequence.get(rank, 0), encode_delta(delta)]
        for rank, delta in log.deltas().items()
    ]
    packed: bytes = msgpack.packb([_FORMAT, log.lineage, parts])
    return packed


def log_from_bytes(data: bytes, what: str) -> Log:
    """The inverse of `log_to_bytes`; `what` names the input in errors.

    Raises:
        CorruptDataError: these are no bytes of a log.
    """
    try:
        format_, lineage, parts = msgpack.unpackb(data)
        if format_ != _FORMAT:
            raise ValueError(f"unknown format {format_!r}")
        log = Log(int(lineage))
        deltas = [(int(r), decode_delta(delta, what), int(number)) for r, number, delta in parts]
    except CorruptDataError:
        raise
    except Exception as error:  # msgpack raises many unrelated types on damaged input
        raise CorruptDataError(f"{what} is damaged: {error}") from error
    try:
        log.union(deltas)
    except CorruptDataError as error:
        raise CorruptDataError(f"{what} is damaged: {error}") from error
    return log
