"""Where things stand in the store: the one home of key names."""

from __future__ import annotations

import attrs

__all__ = ["Keys"]


@attrs.frozen
class Keys:
    """Key names below one prefix.

    A key is either fresh (it holds a nonce of this meeting) or overwritten on purpose (`challenge`,
    `last`, `where`); nothing that an earlier run left under a fresh key can be taken for ours.

    | key | written by | holds |
    | --- | --- | --- |
    | challenge | rank 0 | its nonce, the history it meets in |
    | answer/C/r | rank r | its nonce, what it says of itself, the history it meets in |
    | ack/C | rank 0 | the verdict on all answers |
    | stop/X | anyone | why attempt X, or the meeting of the rank with nonce X, is over |
    | A/n/r | rank r | round n: a manifest, with the payload if it fits |
    | A/n/r/i | rank r | round n: piece i of a large payload |
    | A/n/commit | rank 0 | reserved: the round is on disk |
    | bye/A/r, left/A | rank r | that it left; that somebody did |
    | last/H | rank 0 | attempt and round, for the next meeting of history H to tidy up |
    | where/r | rank r | in which history and round it waits |
    """

    prefix: str

    @property
    def challenge(self) -> str:
        return f"{self.prefix}/challenge"

    def answer(self, challenge: str, rank: int) -> str:
        return f"{self.prefix}/answer/{challenge}/{rank}"

    def ack(self, challenge: str) -> str:
        return f"{self.prefix}/ack/{challenge}"

    def stop(self, nonce: str) -> str:
        return f"{self.prefix}/stop/{nonce}"

    def segment(self, attempt: str, number: int, rank: int) -> str:
        return f"{self.prefix}/{attempt}/{number}/{rank}"

    def piece(self, attempt: str, number: int, rank: int, index: int) -> str:
        return f"{self.prefix}/{attempt}/{number}/{rank}/{index}"

    def commit(self, attempt: str, number: int) -> str:
        return f"{self.prefix}/{attempt}/{number}/commit"

    def bye(self, attempt: str, rank: int) -> str:
        return f"{self.prefix}/bye/{attempt}/{rank}"

    def left(self, attempt: str) -> str:
        return f"{self.prefix}/left/{attempt}"

    def last(self, label: str) -> str:
        return f"{self.prefix}/last/{label}"

    def where(self, rank: int) -> str:
        return f"{self.prefix}/where/{rank}"
