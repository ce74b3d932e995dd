"""`mt-context demo`: the main job on a session that ships with the package, turn by turn."""

from __future__ import annotations

import argparse
from importlib.resources import as_file, files
from typing import Any

from mt_context.cli import replay
from mt_context.cli.report import TurnPrinter, print_report

__all__ = ["add_parser"]

#: Small enough that results are persisted, cleared and compacted.
WINDOW = 16384


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `mt-context`."""
    parser = commands.add_parser("demo", help="replay a session that ships with the package, turn by turn")
    replay.add_settings(parser, window=WINDOW)
    parser.set_defaults(run=run, format=None)


def run(arguments: argparse.Namespace) -> int:
    """The command."""
    counter = replay.counter_from(arguments)
    with as_file(files("mt_context.cli") / "demo_session.jsonl") as path:
        print(
            "A recorded session of a coding agent on this repository: greps, reads, compiler and test output.\n"
            f"The model's window is {arguments.window:,} tokens. For every call of the model: the tokens of the view that it\n"
            "receives, of the tokens of the history so far.\n"
        )
        report = replay.replay_file(str(path), arguments, counter, TurnPrinter())
        print()
        print_report([report])
    return 2 if report.error or report.problems else 0
