"""`mt-context`: one entry point, one line for what goes wrong, exit code 2 for bad input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mt_context.cli import demo, replay, sessions
from mt_context.exceptions import MtContextError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code: 0, 1 for damage found, 2 for bad input, 130 for Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="mt-context", description="Context management for long-running agents."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (demo, replay):
        module.add_parser(commands)
    sessions.add_parsers(commands)
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        print("mt-context: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # `mt-context replay … | head`: the reader has what it wanted.
        sys.stderr.close()
        return 0
    except (MtContextError, ValueError, OSError) as error:
        print(f"mt-context: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
