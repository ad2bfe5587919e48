"""The syncing half of a history: the only calls that talk to other ranks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from .arguments import group_of, seconds
from .deadline import Deadline
from .decisions import BestFold
from .errors import DivergenceError, SynchistWarning, UsageError
from .exchange import StoreExchange
from .facts import Facts
from .missing import MISSING
from .model.delta import Delta
from .model.log import Log
from .model.part import Part
from .ordinals import next_ordinal
from .reading.reader import Reader
from .recording import Recorder
from .reductions import Reduction, check_rule, rule_id
from .segment import Call
from .session import Session
from .stores import Store

__all__ = ["Syncing"]

_UNSET: Any = object()
_LEAVE_SECONDS = 30.0
_GIVE_UP_SECONDS = 2.0


class Syncing(Recorder, Reader):
    """What `History` adds to recording and reading: a group of ranks on a store."""

    world_size: int
    timeout: float
    name: str
    _log: Log
    _folds: dict[tuple[Any, ...], BestFold]
    _job: str | None
    _clears: int

    def _start_alone(self) -> None:
        """No store yet."""
        self._session: Session | None = None
        self._store: Store | None = None
        self._ordinal = -1
        self._chains: list[bytes] = []
        self._ended: str | None = None
        # The last `agree` that began a round: its name, the epoch open then, and its reduce.
        self._agreed: tuple[str, int, Reduction | None] | None = None
        self._copied = False  # it was unpickled or loaded, and has not been attached since

    def _hold(self, log: Log) -> None:
        """Make `log` what is agreed."""
        raise NotImplementedError

    def _settle(self) -> None:
        """With one rank, make what was recorded agreed."""
        raise NotImplementedError

    def _agreed_value(self, epoch: int, name: str) -> Any:
        """An agreed epoch value, or MISSING; no strict check."""
        raise NotImplementedError

    def _has_pending(self) -> bool:
        return self._dirty() or bool(self._frozen_delta())

    def _frozen_delta(self) -> Delta | None:
        return None if self._session is None else self._session.pending_delta()

    def sync(self, *, timeout: float | None = None) -> None:
        """Share what was recorded since the last sync, and take over what the others recorded.

        Talks, and blocks until every rank has called it. All ranks that return hold the same
        history. After an error, call it again: it completes the same round, and what was recorded
        meanwhile goes with the next one. With one rank there is nothing to do.

        Args:
            timeout: seconds for everything in this call; by default that of the history.

        Raises:
            SyncTimeoutError: ranks were missing by the deadline; `.missing` names them.
            RankFailedError: another rank gave up, left, or could not bring its records.
            DivergenceError: the ranks do not fit together (different histories, calls, world sizes,
                reduce tables), or an "equal" value differs; raised on every rank.
            StoreError: the store failed or does not answer.
            UsageError: no store is attached, or the history was closed.
        """
        deadline = Deadline(self.timeout if timeout is None else seconds(timeout))
        if self.world_size > 1:
            self._round(Call(), deadline)
        else:
            self._settle()

    def agree(
        self,
        name: str,
        value: Any = _UNSET,
        *,
        reduce: Reduction | None = None,
        weight: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """Record an epoch value, sync, and read it: the same on every rank.

        Talks, and blocks until every rank has called `agree` with this name. Without a value, this
        rank joins as having none.

        Args:
            name: name of the epoch value.
            value: this rank's value.
            reduce: becomes the rule for this name. Ranks that bring a value give the same one.
            weight: as in `record`.
            timeout: seconds for everything in this call; by default that of the history.

        Raises:
            KeyError: no rank brought a value.
            SynchistError: as in `record` and `sync`.

        Example:
            >>> from synchist import History
            >>> h = History()
            >>> h.new_epoch()
            >>> h.agree("dev_score", 0.5, reduce="mean")
            0.5
        """
        if not isinstance(name, str):
            raise UsageError(f"agree: a name must be a string, got {name!r}")
        if reduce is not None:
            check_rule(reduce, what=f"agree({name!r}, reduce=...)")
        if self._epoch < 0 and value is not _UNSET:
            raise UsageError(f"agree({name!r}, ...) before any epoch: call new_epoch() first")
        deadline = Deadline(self.timeout if timeout is None else seconds(timeout))
        session = self._session
        call = None
        if self.world_size > 1 and session is not None and session.frozen is not None:
            begun = None if self._agreed is None else self._agreed[:2]
            repeated = session.frozen.call.name == name and begun == (name, self._epoch)
            completed = self._round(Call(), deadline)
            call = completed if repeated else None
        if call is None:
            if value is not _UNSET:
                self.record(name, value, weight=weight)
            epoch = None if value is _UNSET else self._epoch
            call = Call(name, epoch, None if reduce is None else rule_id(reduce))
            self._agreed = (name, self._epoch, reduce)
            if self.world_size > 1:
                call = self._round(call, deadline)
            else:
                self._learn_rule(call)
        found = MISSING if call.epoch is None else self._agreed_value(call.epoch, name)
        if found is MISSING:
            raise KeyError(f"agree({name!r}): no rank brought a value")
        return found

    def _round(self, call: Call, deadline: Deadline) -> Call:
        session = self._usable_session()
        self._meet(deadline)
        done = session.sync(call, deadline)
        self._learn_rule(done.call)
        self._check_equal(done.touched)
        return done.call

    def _learn_rule(self, call: Call) -> None:
        if call.name is None or call.reduce is None:
            return
        rule: Reduction = call.reduce
        given = None if self._agreed is None else self._agreed[2]
        if given is not None and rule_id(given) == call.reduce:
            rule = given
        if self._rules.table.get(call.name) != rule:
            self._rules.table[call.name] = rule
            self._folds.clear()

    def _check_equal(self, touched: Mapping[int, set[str]]) -> None:
        for epoch, names in sorted(touched.items()):
            for name in sorted(names):
                if self._rules.table.get(name) == "equal":
                    _raise_unless_equal(name, epoch, self._log.epochs[epoch])

    def _usable_session(self) -> Session:
        if self._session is not None and self._ended is None:
            return self._session
        if self._ended is not None:
            raise UsageError(
                f"this history was {self._ended}: attach(store=..., rank=..., world_size=...) or "
                "clear() before it syncs again"
            )
        raise UsageError(
            "no store is attached (pickling and copying drop it): call "
            "attach(store=..., rank=..., world_size=...) first"
        )

    def _meet(self, deadline: Deadline) -> None:
        session = self._usable_session()
        if not session.met:
            session.meet(deadline, self._chains)
            self._chains = session.chains

    def _facts(self) -> Facts:
        return Facts(
            rank=self.rank,
            world_size=self.world_size,
            history=self._label(),
            job=self._job,
            rules=tuple(sorted((n, rule_id(r)) for n, r in self._rules.given.items())),
            clears=self._clears,
            lineage=self._log.lineage,
            digest=self._log.digest(),
            rounds=max(0, len(self._chains) - 1),
            chain=self._chains[-1] if self._chains else None,
            empty=not (self._clears or self._log or self._next_epoch or self._has_pending()),
        )

    def _rule_ids(self) -> dict[str, str]:
        return {name: rule_id(rule) for name, rule in self._rules.table.items()}

    def _receive(self, log: Log, clears: int, rules: Mapping[str, str]) -> None:
        self._rules.table.update(
            # A callable is its own identity's only holder: the next `agree` brings it again.
            {n: r for n, r in rules.items() if n not in self._rules.table and ":" not in r}
        )
        if log is not self._log:
            self._hold(log)
            self._next_epoch = max(self._next_epoch, len(log.epochs))
        self._clears = clears

    # -- leaving, starting afresh --------------------------------------------------------------

    def __enter__(self) -> Self:
        """Meet the other ranks, and receive the history if they hold more of it. Blocks."""
        if self.world_size > 1:
            if self._ended is not None and self._store is not None:
                self._connect(self._store)
            self._meet(Deadline(self.timeout))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Leave with `close()`, or on an exception with `abort(the exception)`."""
        if error is None:
            self.close()
        else:
            self.abort(error)

    def close(self, timeout: float = _LEAVE_SECONDS) -> None:
        """Leave the group in good order. Does not sync; reading and recording still work.

        Rank 0 waits for the others, so that a store which it hosts outlives their last reads; then
        it tidies up. A rank that still waits for this one gets `RankFailedError`.

        Args:
            timeout: seconds that rank 0 waits at most.
        """
        if self.world_size == 1 or self._session is None or self._ended is not None:
            return
        if self._has_pending():
            warnings.warn(
                f"rank {self.rank} closes its history with records that were never synced; "
                "call sync() before close()",
                SynchistWarning,
                stacklevel=2,
            )
        self._ended = "closed"
        self._session.exchange.close(seconds(timeout))

    def abort(self, reason: str | BaseException) -> None:
        """Tell the other ranks that this one gives up; they raise `RankFailedError` within seconds.

        Takes 2 seconds at most and never raises, so it can be called while an exception is on its
        way. What was recorded is kept.
        """
        if self.world_size == 1 or self._session is None or self._ended is not None:
            return
        if isinstance(reason, BaseException):
            reason = f"{type(reason).__name__}: {reason}" if str(reason) else type(reason).__name__
        self._ended = "aborted"
        self._session.exchange.abort(reason)
        self._session.exchange.close(_GIVE_UP_SECONDS)

    def clear(self) -> None:
        """Forget everything, as before a new fit. Does not talk; the next sync meets afresh.

        Call it on every rank.
        """
        if self._log or self._has_pending() or self._next_epoch:
            self._clears += 1
        lineage = self._log.lineage + 1
        self._reset_records(next_epoch=0)
        self._hold(Log(lineage))
        self._forget_session()
        if self._store is not None:
            self._connect(self._store)

    def _forget_session(self) -> None:
        """What was agreed or under way is no longer part of this history."""
        self._chains = []
        if self._session is not None:
            self._session.carried = self._session.frozen = None

    def attach(self, *, store: Store, rank: int, world_size: int) -> None:
        """Go on over this store, as after unpickling or after a rank failed. Does not talk.

        What was agreed and what is pending is kept; the next sync (or `with h:`) meets afresh. But
        a copy (loaded or unpickled) that is attached as another rank than the one that saved it
        drops that rank's pending records, with a warning: that rank brings them itself.

        Args:
            store: any `Store`.
            rank: this process's global rank.
            world_size: number of processes.
        """
        self._settle()
        group = group_of(store, rank, world_size)
        if self._store is not store:
            self._ordinal = -1
        if self._copied and group[0] != self.rank:
            self._leave_records(group[0])
        self._copied = False
        self.rank, self.world_size = group
        self._connect(store)

    def _leave_records(self, rank: int) -> None:
        """Become another rank: what the old one had under way is its own to bring."""
        if self._has_pending():
            warnings.warn(
                f"dropped records that rank {self.rank} had not synced when this history was "
                f"saved: it is attached as rank {rank}, and rank {self.rank} has to bring them",
                SynchistWarning,
                stacklevel=3,
            )
        self._reset_records(next_epoch=len(self._log.epochs))

    def _connect(self, store: Store) -> None:
        """Start a session on the store; what an earlier one had under way goes with it."""
        carried = None
        if self._session is not None:
            carried = self._session.frozen or self._session.carried
            self._session.exchange.retire()
        if self._store is not store or self._ordinal < 0:
            self._ordinal = next_ordinal(store, self.rank, self._label_name())
        self._store = store
        self._ended = None
        self._intake.shared = self.world_size > 1
        exchange = StoreExchange(store, self.rank, self.world_size, label=self._label())
        self._session = Session(self, exchange, carried)

    def _label(self) -> str:
        return f"{self._label_name()}#{self._ordinal + 1}"

    def _label_name(self) -> str:
        return self.name or "history"


def _raise_unless_equal(name: str, epoch: int, parts: Mapping[int, Part]) -> None:
    cells = {rank: part.cells[name] for rank, part in parts.items() if name in part.cells}
    if len({cell.data for cell in cells.values()}) > 1:
        told = ", ".join(f"rank {rank}: {cell.value()!r}" for rank, cell in cells.items())
        raise DivergenceError(
            f"{name!r} in epoch {epoch} has to be equal on every rank, but is not: {told}",
            reason=told,
        )
