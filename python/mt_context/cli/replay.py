"""`mt-context replay FILE…`: what the policies would have done to recorded sessions."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from mt_context._core import TokenBudget, TokenCounter, encodings
from mt_context.cli import importers
from mt_context.cli.report import Report, TurnPrinter, print_report, progress
from mt_context.cli.simulation import Settings, Turn, simulate
from mt_context.context.tool_results import ToolResultPolicy
from mt_context.exceptions import MtContextError

__all__ = ["add_parser", "replay_file"]

PROVIDERS = ("openai", "anthropic", "deepseek", "gemini")


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `mt-context`."""
    parser = commands.add_parser(
        "replay",
        help="what the policies would have done to a recorded session",
        description="Replays recorded sessions under the policies: budgeting of results, microcompact, compaction. "
        "Nothing is written, no model is asked.",
        epilog=f"Formats, found by content: {', '.join(importers.FORMATS)}. A .gz is unpacked on the way.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    add_settings(parser, window=131072)
    parser.add_argument(
        "--format", choices=importers.FORMATS, help="read the files as this, whatever they look like"
    )
    parser.add_argument("--turns", action="store_true", help="print every turn")
    parser.add_argument("--json", action="store_true", help="one JSON object a line per file")
    parser.set_defaults(run=run)


def add_settings(parser: argparse.ArgumentParser, *, window: int) -> None:
    """The options that say what is assumed; `demo` has them too."""
    parser.add_argument(
        "--window",
        type=_tokens,
        default=window,
        metavar="TOKENS",
        help="the model's window (default %(default)s)",
    )
    parser.add_argument("--reserve", type=_tokens, metavar="TOKENS", help="tokens reserved for a summary")
    parser.add_argument("--buffer", type=_tokens, metavar="TOKENS", help="safety buffer below the reserve")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", help="count as this model does")
    which.add_argument(
        "--encoding", help=f"count with this vocabulary (default o200k_base; {', '.join(encodings())})"
    )
    parser.add_argument(
        "--provider", choices=PROVIDERS, help="whose rules a view must obey (default: the recording's)"
    )
    parser.add_argument(
        "--gap-minutes", type=int, default=60, metavar="N", help="pause that clears old results (default 60)"
    )
    parser.add_argument(
        "--keep-recent", type=int, default=5, metavar="N", help="results that stay then (default 5)"
    )


def _tokens(text: str) -> int:
    """A token figure: 65536, 64k or 1M."""
    units = {"k": 1024, "m": 1024 * 1024}
    number, unit = (text[:-1], units[text[-1].lower()]) if text[-1:].lower() in units else (text, 1)
    if not number.isdecimal() or not 0 < int(number) * unit < 2**40:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens, such as 65536 or 64k")
    return int(number) * unit


def settings_from(arguments: argparse.Namespace, session_format: str, counter: TokenCounter) -> Settings:
    """The settings for a session of this format."""
    budget = TokenBudget(
        arguments.window, reserved_summary_tokens=arguments.reserve, buffer_tokens=arguments.buffer
    )
    provider = arguments.provider or ("anthropic" if session_format == "claude-code" else "openai")
    return Settings(
        budget=budget,
        counter=counter,
        provider=provider,
        policy=ToolResultPolicy.for_budget(budget),
        gap_minutes=arguments.gap_minutes,
        keep_recent=arguments.keep_recent,
    )


def counter_from(arguments: argparse.Namespace) -> TokenCounter:
    """The counter that the options ask for."""
    if arguments.model:
        return TokenCounter(arguments.model)
    return TokenCounter(encoding=arguments.encoding or "o200k_base")


def run(arguments: argparse.Namespace) -> int:
    """The command; exit code 2 if any file could not be replayed."""
    counter = counter_from(arguments)
    reports: list[Report] = []
    with progress(len(arguments.files), visible=not arguments.json) as advance:
        for path in arguments.files:
            on_turn = TurnPrinter() if arguments.turns and not arguments.json else None
            report = replay_file(path, arguments, counter, on_turn, advance)
            reports.append(report)
            if arguments.json:
                print(json.dumps(asdict(report), ensure_ascii=False), flush=True)
            elif report.error:
                print(f"mt-context: {report.error}", file=sys.stderr)
    if not arguments.json:
        print_report(reports)
    return 2 if any(report.error for report in reports) else 0


def replay_file(
    path: str,
    arguments: argparse.Namespace,
    counter: TokenCounter,
    on_turn: Callable[[Turn], None] | None = None,
    advance: Callable[[str, int, int], None] = lambda path, done, of: None,
) -> Report:
    """Replays one file; what goes wrong with it is in the report's `error`."""
    report = Report(file=path, window=arguments.window)
    started = time.perf_counter()
    try:
        sessions = importers.load(path, arguments.format)
        done, total = 0, sum(len(s.messages) for s in sessions)
        for session in sessions:
            settings = settings_from(arguments, session.format, counter)
            report.format, report.threshold = session.format, settings.budget.auto
            report.damaged_lines += session.damaged_lines

            def seen(turn: Turn, done: int = done) -> None:
                if on_turn is not None:
                    on_turn(turn)
                advance(path, done + turn.number, total)

            report.add(len(session.messages), simulate(session, settings, seen))
            done += len(session.messages)
    except (MtContextError, ValueError, OSError) as error:
        report.error = f"{path}: {error}" if path not in str(error) else str(error)
    report.seconds = round(time.perf_counter() - started, 3)
    return report
