"""How a replay is shown: a live line while it runs, a line per turn, a table, a closing summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from mt_context.cli.simulation import Outcome, Turn

__all__ = ["Report", "TurnPrinter", "print_report", "progress"]


@dataclass
class Report:
    """What a replay found out about one file; the keys of `--json`."""

    file: str
    format: str | None = None
    messages: int = 0
    turns: int = 0
    window: int = 0
    threshold: int | None = None
    max_view_tokens: int = 0
    #: Views larger than the window.
    over_window: int = 0
    #: Views that break a rule of the provider.
    invalid_views: int = 0
    #: Views without the user's current request.
    lost_requests: int = 0
    persisted: int = 0
    microcompacted: int = 0
    compactions: int = 0
    tokens_sent: int = 0
    #: What would have been sent with no policy at all.
    tokens_without: int = 0
    damaged_lines: int = 0
    seconds: float = 0.0
    error: str | None = None

    def add(self, messages: int, outcome: Outcome) -> None:
        """Adds one session of the file."""
        self.messages += messages
        self.turns += outcome.turns
        self.max_view_tokens = max(self.max_view_tokens, outcome.max_view_tokens)
        self.over_window += outcome.over_window
        self.invalid_views += outcome.invalid_views
        self.lost_requests += outcome.lost_requests
        self.persisted += outcome.persisted
        self.microcompacted += outcome.microcompacted
        self.compactions += outcome.compactions
        self.tokens_sent += outcome.tokens_sent
        self.tokens_without += outcome.tokens_without

    @property
    def problems(self) -> int:
        """Views that a provider would have refused, or in which the request was missing."""
        return self.over_window + self.invalid_views + self.lost_requests


@contextmanager
def progress(files: int, *, visible: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A live line on standard error: the file, how far it is, and the time."""
    console = Console(stderr=True)
    if not visible or not console.is_terminal:
        yield lambda path, done, of: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("replay", total=1, detail="")
        seen: list[str] = []

        def advance(path: str, done: int, of: int) -> None:
            if path not in seen[-1:]:
                seen.append(path)
            name = os.path.basename(path)
            bar.update(
                task,
                description=f"{len(seen)}/{files} {name[:40]}",
                completed=done,
                total=max(of, 1),
                detail=f"{done} of {of} messages",
            )

        yield advance


class TurnPrinter:
    """Prints one line of what happened before each call of the model, under the request that it serves."""

    def __init__(self) -> None:
        self._request: str | None = None
        self._console = Console(soft_wrap=True, highlight=False)

    def __call__(self, turn: Turn) -> None:
        if turn.request != self._request:
            self._request = turn.request
            request = Text(f"› {turn.request}", style="bold")
            request.truncate(min(self._console.width, 100) - 1, overflow="ellipsis")
            self._console.print(request)
        line = Text(f"{turn.number:>4}  view {turn.view_tokens:>7,}  of {turn.history_tokens:>9,} tokens  ")
        if turn.persisted:
            line.append(f"{_results(turn.persisted)} persisted  ", style="cyan")
        if turn.cleared:
            line.append(f"{_results(turn.cleared)} cleared {turn.cleared_because}  ", style="yellow")
        if turn.compacted:
            before, after = turn.compacted
            line.append(f"compacted {before:,} → {after:,}  ", style="bold magenta")
        if turn.repaired:
            line.append("repaired  ", style="dim")
        if turn.level == "warn":
            line.append("nearly full  ", style="dim")
        line.rstrip()
        self._console.print(line)


def _results(count: int) -> str:
    return f"{count} result{'s' if count != 1 else ''}"


def print_report(reports: Sequence[Report]) -> None:
    """The table, and what it comes to."""
    good = [r for r in reports if r.error is None]
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    if good:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("file", overflow="ellipsis", no_wrap=True, min_width=12)
        table.add_column("format", no_wrap=True)
        for name in (
            "turns",
            "persisted",
            "cleared",
            "compacted",
            "largest view",
            "tokens sent",
            "without",
            "saved",
        ):
            table.add_column(name, justify="right", no_wrap=True)
        for r in good:
            table.add_row(
                os.path.basename(r.file),
                r.format or "",
                *(f"{n:,}" for n in (r.turns, r.persisted, r.microcompacted, r.compactions)),
                f"{r.max_view_tokens:,}",
                _short(r.tokens_sent),
                _short(r.tokens_without),
                _saved(r.tokens_sent, r.tokens_without),
            )
        console.print(table)
    _print_summary(console, reports, good)


def _print_summary(console: Console, reports: Sequence[Report], good: Sequence[Report]) -> None:
    if good:
        turns = sum(r.turns for r in good)
        sent, without = sum(r.tokens_sent for r in good), sum(r.tokens_without for r in good)
        first = good[0]
        console.print(
            f"\n{len(good)} file{'s' if len(good) != 1 else ''}, {turns:,} turns at a window of {first.window:,} tokens "
            f"(auto compact at {first.threshold or 0:,}): {_short(sent)} tokens sent instead of {_short(without)} "
            f"({_saved(sent, without)} saved)."
        )
        over, invalid, lost = (
            sum(getattr(r, k) for r in good) for k in ("over_window", "invalid_views", "lost_requests")
        )
        style = "red" if over + invalid + lost else "green"
        console.print(
            f"Views over the window: {over}. Views a provider would refuse: {invalid}. Views without the user's request: {lost}.",
            style=style,
        )
    damaged = sum(r.damaged_lines for r in good)
    if damaged:
        console.print(
            f"{damaged} damaged line{'s' if damaged != 1 else ''} in the files, read around.", style="yellow"
        )
    if len(good) < len(reports):
        console.print(
            f"{len(reports) - len(good)} of {len(reports)} files could not be replayed.", style="red"
        )


def _short(tokens: int) -> str:
    if tokens < 100_000:
        return f"{tokens:,}"
    return f"{tokens / 1e6:,.1f}M" if tokens >= 10_000_000 else f"{tokens / 1e6:,.2f}M"


def _saved(sent: int, without: int) -> str:
    return f"{100 * (1 - sent / without):.0f} %" if without else "–"
