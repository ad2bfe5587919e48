"""What the demo shows: pure functions from a history to what rich can print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..history import History
from .demo_plan import EVALUATED, IMAGES, PATIENCE, Plan

__all__ = ["console", "digests", "disagreement", "ending", "introduction", "progress", "table"]

_PLAIN_WIDTH = 100_000  # columns; nothing in files and pipes is left out


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the reader's leaving be an error like any other, so that all ranks end."""
        raise  # noqa: PLE0704  (rich calls this while it handles the BrokenPipeError)


def console() -> Console:
    """The console on standard output. Without a terminal it shows plain text of any width."""
    width = None if Console().is_terminal else _PLAIN_WIDTH
    return _Console(width=width, highlight=False, soft_wrap=True)  # terminals wrap by themselves


def introduction(plan: Plan, store: str) -> RenderableType:
    """What is about to happen."""
    processes = "1 process" if plan.world_size == 1 else f"{plan.world_size} processes"
    lines = [Text(f"{IMAGES} handwritten digits, {processes}, store: {store}", style="bold")]
    for rank in range(plan.world_size):
        share, batches = len(plan.share(rank)), plan.batches(rank)
        line = f"  rank {rank} trains on {share} images, {batches} batches an epoch"
        lines.append(Text(line + (f"; evaluates on {EVALUATED} others" if rank == 0 else "")))
    lines += [Text(), Text(f"Starting {processes} ...", style="dim")]
    return Group(*lines)


def progress(h: History, epoch: int) -> Text:
    """One line for an epoch that has just been synced."""
    loss = h.reduce("loss", weight="batch_size", epoch=epoch)
    line = Text(f"epoch {epoch:>3}   loss {loss:.4f}   valid_acc {h[epoch, 'valid_acc']:.4f}")
    since = h.epochs_since_best("valid_acc", mode="max")
    if since == 0:
        line.append("   best so far", style="green")
    else:
        line.append(f"   no better for {since} of {PATIENCE} epochs", style="dim")
    return line


def table(h: History, width: int, *, lines: bool) -> RenderableType:
    """Every epoch: what all ranks agree on beside what each rank has by itself.

    Args:
        h: the history, synced.
        width: columns there are; ranks that do not fit are left out, and a note says so.
        lines: whether to draw some.
    """
    ruler = Console(width=_PLAIN_WIDTH)
    for shown in range(h.world_size, 0, -1):
        made = _table(h, shown, lines=lines)
        if ruler.measure(made).maximum <= width:
            break
    if shown == h.world_size:
        return made
    return Group(made, Text(f"{shown} of {h.world_size} ranks fit in {width} columns.", "dim"))


def _table(h: History, ranks: int, *, lines: bool) -> Table:
    made = Table(
        box=box.SIMPLE_HEAD if lines else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1) if lines else (0, 2, 0, 0),
        collapse_padding=True,
        header_style="bold",
    )
    heads = ["\nepoch", "loss\nall ranks", *(f"loss\nrank {rank}" for rank in range(ranks))]
    for head in [*heads, "valid_acc\nrank 0", "dur (s)\nslowest"]:
        made.add_column(head, justify="right", no_wrap=True)
    made.add_column("", no_wrap=True)
    best = h.best("valid_acc", mode="max").epoch
    for epoch in range(len(h)):
        losses = [h, *(h.ranks[rank] for rank in range(ranks))]
        cells = [
            str(epoch),
            *(f"{of.reduce('loss', weight='batch_size', epoch=epoch):.4f}" for of in losses),
            f"{h[epoch, 'valid_acc']:.4f}",
            f"{h[epoch, 'dur']:.2f}",
            "best" if epoch == best else "",
        ]
        made.add_row(*cells, style="bold green" if epoch == best else None)
    return made


def ending(h: History) -> Text:
    """Why the run ended where it did."""
    count = "1 epoch" if len(h) == 1 else f"{len(h)} epochs"
    who = "Both ranks" if h.world_size == 2 else f"All {h.world_size} ranks"
    who = "The one rank" if h.world_size == 1 else who
    since = h.epochs_since_best("valid_acc", mode="max")
    if since >= PATIENCE:
        return Text(f"{who} stopped after {count}: valid_acc got no better for {since}.")
    return Text(f"{who} stopped after {count}, the most that --epochs allows.")


def disagreement(of_ranks: Sequence[str]) -> str | None:
    """A sentence that names the ranks whose digests differ; None if there is one digest only.

    >>> disagreement(["c0ffee", "c0ffee"])
    >>> disagreement(["c0ffee", "decade", "c0ffee"])
    'the ranks disagree: ranks 0 and 2 have one history, rank 1 another'
    """
    groups = _groups(of_ranks)
    if len(groups) == 1:
        return None
    first, *rest = (_name(ranks) for ranks in groups.values())
    said = [f"{first} {'has' if first.startswith('rank ') else 'have'} one history"]
    said += [f"{other} another" for other in rest]
    return "the ranks disagree: " + ", ".join(said)


def _groups(of_ranks: Sequence[str]) -> Mapping[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for rank, digest in enumerate(of_ranks):
        groups.setdefault(digest, []).append(rank)
    return groups


def _name(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def digests(of_ranks: Sequence[str]) -> RenderableType:
    """The digest of every rank, and what that means."""
    groups = _groups(of_ranks)
    agreed = len(groups) == 1
    title = "Digest of the history on each rank:"
    lines = [Text(title)]
    for rank, digest in enumerate(of_ranks):
        style = "green" if agreed else "bold red" if digest != of_ranks[0] else ""
        lines.append(Text(f"  rank {rank:<2} ").append(digest, style=style))
    if agreed and len(of_ranks) > 1:
        lines.append(Text("The same on every rank.", style="bold green"))
    return Group(*lines)
