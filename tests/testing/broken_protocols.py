"""Variants of the protocol that each break one of its rules, to see that trials notice."""

from __future__ import annotations

import inspect
import secrets
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from synchist import SyncTimeoutError, handover
from synchist.deadline import Deadline
from synchist.exchange import store_exchange
from synchist.exchange.meeting import Meeting
from synchist.exchange.meeting_guest import Guest
from synchist.exchange.rounds import Rounds
from synchist.session import Session

__all__ = ["BROKEN"]

Patch = pytest.MonkeyPatch


def _rewrite(patch: Patch, owner: type, name: str, old: str, new: str) -> None:
    """Put a method in place in whose source `old` reads `new`."""
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert source.count(old) == 1, f"{owner.__name__}.{name} no longer says {old!r}"
    found: dict[str, Any] = {}
    scope = vars(sys.modules[owner.__module__])
    exec("from __future__ import annotations\n" + source.replace(old, new), scope, found)  # noqa: S102
    patch.setattr(owner, name, found[name])


def no_nonces(patch: Patch) -> None:
    """Everybody's nonce is the same in every meeting, so an old one looks like this one."""
    patch.setattr(secrets, "token_hex", lambda size: "0" * 2 * size)


def one_sided_nonce(patch: Patch) -> None:
    """Only rank 0 makes a fresh one."""
    start = Guest._start_afresh

    def without(self: Guest) -> None:
        start(self)
        self.nonce = f"{self._rank:032x}"

    patch.setattr(Guest, "_start_afresh", without)


def new_nonce_at_every_try(patch: Patch) -> None:
    """Ranks with short timeouts miss each other."""
    meet = Meeting.meet

    def forgetful(self: Meeting, *args: Any) -> Any:
        try:
            return meet(self, *args)
        except SyncTimeoutError:
            self._start_afresh()
            raise

    patch.setattr(Meeting, "meet", forgetful)


def packs_again_at_every_try(patch: Patch) -> None:
    """What was recorded since the first try goes along."""
    sync = Session.sync

    def eager(self: Session, *args: Any) -> Any:
        try:
            return sync(self, *args)
        except SyncTimeoutError:
            if self.frozen is not None:
                self._book._give_back(self.frozen.delta)
                self.frozen = None
            raise

    patch.setattr(Session, "sync", eager)


def deletes_a_round_early(patch: Patch) -> None:
    """A rank takes what it brought away as soon as it has read the others."""
    advance = Rounds.advance

    def hasty(self: Rounds) -> None:
        self._store.delete(self._key(self.number, self._rank))
        advance(self)

    patch.setattr(Rounds, "advance", hasty)


def merges_in_order_of_arrival(patch: Patch) -> None:
    """A rank's own records come first, then the others as they came."""
    gather = Rounds.gather

    def arrived(self: Rounds, *args: Any) -> list[bytes]:
        gather(self, *args)
        return [*self._got.values()]

    patch.setattr(Rounds, "gather", arrived)


def no_chain(patch: Patch) -> None:
    """Nobody checks that all went through the same rounds."""
    patch.setattr(Session, "_check_chain", lambda *_: None)


def compares_nothing(patch: Patch) -> None:
    """Whoever comes to the meeting belongs to it."""
    meet = store_exchange.StoreExchange.meet

    def blind(self: Any, facts: bytes, judge: Any, deadline: Deadline) -> list[bytes]:
        return meet(self, facts, lambda *_: None, deadline)

    patch.setattr(store_exchange.StoreExchange, "meet", blind)
    patch.setattr(handover, "unlike", lambda *_: None)


def deaf_to_an_abort(patch: Patch) -> None:
    """Who waits does not look whether somebody gave up."""
    patch.setattr(Rounds, "_check_stop", lambda *_: None)


def deaf_to_a_goodbye(patch: Patch) -> None:
    """Who waits does not look whether somebody closed."""
    patch.setattr(Rounds, "_check_left", lambda *_: None)


def believes_any_acknowledgement(patch: Patch) -> None:
    """Whatever is said under a challenge is meant for this rank."""
    _rewrite(
        patch,
        Guest,
        "_try",
        "if self.nonce in [answer.nonce for answer in answers]:",
        "if True:",
    )


def goes_on_without_the_late(patch: Patch) -> None:
    """At the deadline, a rank merges what has come."""
    gather = Rounds.gather

    def impatient(self: Rounds, payload: bytes, *args: Any) -> list[bytes]:
        try:
            return gather(self, payload, *args)
        except SyncTimeoutError:
            return [self._got.get(rank, payload) for rank in range(self._world)]

    patch.setattr(Rounds, "gather", impatient)


def waits_for_ever(patch: Patch) -> None:
    """The deadline never passes."""
    patch.setattr(Deadline, "expired", property(lambda _: False))
    patch.setattr("synchist.exchange.worker._GRACE_SECONDS", 1e9)


def publishes_once_more_under_the_next_round(patch: Patch) -> None:
    """A repeated call counts as a new round."""
    gather = Rounds.gather

    def skipping(self: Rounds, *args: Any) -> list[bytes]:
        try:
            return gather(self, *args)
        except SyncTimeoutError:
            self.advance()
            raise

    patch.setattr(Rounds, "gather", skipping)


BROKEN: list[Callable[[Patch], None]] = [
    no_nonces,
    one_sided_nonce,
    new_nonce_at_every_try,
    packs_again_at_every_try,
    deletes_a_round_early,
    merges_in_order_of_arrival,
    no_chain,
    compares_nothing,
    deaf_to_an_abort,
    deaf_to_a_goodbye,
    believes_any_acknowledgement,
    goes_on_without_the_late,
    waits_for_ever,
    publishes_once_more_under_the_next_round,
]
