"""Opening a torch store without hanging, and with errors that say what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from synchist import StoreError
from synchist_torch.c10d import Store

__all__ = ["connected", "with_or_without_libuv"]

_SLICE = 0.2  # seconds; how long Ctrl-C can be held up


def connected(connect: Callable[[bool], Store], timeout: float, *, where: str) -> Store:
    """The store that `connect` opens, within `timeout` seconds.

    torch's own timeout covers connecting but not the first exchange with the server: where
    something else listens that never answers, its constructor waits for ever. So it runs in a
    thread that can be left behind.

    Args:
        connect: opens the store; its argument says whether to use libuv.
        timeout: in seconds.
        where: the server's `host:port`, for messages.

    Raises:
        StoreError: no store answered in time, or the port is taken.
    """
    stores: list[Store] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            stores.append(with_or_without_libuv(connect))
        except BaseException as error:  # noqa: BLE001  (raised again by the caller)
            errors.append(error)

    thread = threading.Thread(target=run, name="synchist-connect", daemon=True)
    thread.start()
    waited = 0.0
    while thread.is_alive() and waited < timeout:
        thread.join(min(_SLICE, timeout - waited))
        waited += _SLICE
    if stores:
        return stores[0]
    cause = errors[0] if errors else None
    if cause is not None and not isinstance(cause, Exception):
        raise cause
    text = str(cause or "")
    if "EADDRINUSE" in text or "in use" in text:
        raise StoreError(
            f"cannot host a store at {where}: the port is taken on this machine; choose another"
        ) from cause
    if cause is not None and "timed out" not in text:
        raise StoreError(f"cannot open the store at {where}: {text.splitlines()[0]}") from cause
    raise StoreError(
        f"no store answered at {where} within {timeout:g} s: is rank 0 running, on that host, and "
        "is the port free of other programs and open in the firewall?"
    ) from cause


def with_or_without_libuv(connect: Callable[[bool], Store]) -> Store:
    """`connect(True)`, or `connect(False)` where torch was built without libuv."""
    try:
        return connect(True)
    except (RuntimeError, ValueError) as error:
        if "libuv" not in str(error):
            raise
        return connect(False)
