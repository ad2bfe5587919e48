"""Noticing that a rank has begun anew while others still wait for it in a round.

A rank that restarts knows nothing of the meeting it was in, and asks for another one: rank 0 with a
new challenge, any other rank by answering the old challenge with a new nonce. It will never come to
the round, so whoever waits for it there need not wait for the deadline.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import CorruptDataError, RankFailedError
from ..stores.guard import GuardedStore
from .keys import Keys
from .meeting import Met
from .notes import unpack

__all__ = ["begun_anew", "begun_anew_error"]


def begun_anew(
    store: GuardedStore, keys: Keys, met: Met, label: str, ranks: Iterable[int]
) -> int | None:
    """The first of `ranks` that asks for another meeting of the history `label`, or None."""
    for rank in ranks:
        key = keys.answer(met.challenge, rank) if rank else keys.challenge
        data = store.look(key)
        if data is None:
            continue
        try:
            if rank:
                nonce, _, _, about = unpack(data, key, str, str, bytes, str)
                known = met.nonces[rank]
            else:
                nonce, about = unpack(data, key, str, str)
                known = met.challenge
        except CorruptDataError:  # whoever meets next will say so
            continue
        # In turn with this one, ranks may sync another history on the same store.
        if nonce != known and about == label:
            return rank
    return None


def begun_anew_error(rank: int, number: int) -> RankFailedError:
    """What that means to a rank that waits in round `number`."""
    return RankFailedError(
        f"rank {rank} restarted (or left this meeting for another) while this rank waited in round "
        f"{number}: attach(store=..., rank=..., world_size=...) here too and go on, or clear() on "
        "every rank",
        rank=rank,
        reason="restarted",
        round=number,
    )
