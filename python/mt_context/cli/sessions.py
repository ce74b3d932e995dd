"""`mt-context sessions`, `artifacts` and `verify`: what is on disk, for people."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mt_context._core import clean_text
from mt_context.session import SessionRecorder, artifacts, format_file_size, format_relative_time
from mt_context.session.verify import repair_session, verify_session

__all__ = ["add_parsers"]

#: Damaged lines that are named one by one.
SHOWN = 20


def add_parsers(commands: Any) -> None:
    """Adds the three commands to the parser of `mt-context`."""
    sessions = commands.add_parser("sessions", help="the sessions of a project")
    _places(sessions)
    sessions.add_argument("--json", action="store_true", help="one JSON object a line per session")
    sessions.set_defaults(run=run_sessions)

    shown = commands.add_parser("artifacts", help="list, read and search the full tool results of a session")
    _places(shown)
    shown.add_argument("session", help="a session's id, or the beginning of one; `last` for the newest")
    shown.add_argument(
        "path", nargs="?", help="an artifact, such as tool-results/call_1.txt; without it all are listed"
    )
    shown.add_argument("--offset", type=int, default=1, metavar="LINE", help="first line to show (default 1)")
    shown.add_argument("--limit", type=int, default=200, metavar="LINES", help="how many lines (default 200)")
    shown.add_argument("--grep", metavar="PATTERN", help="search instead: a regular expression")
    shown.add_argument("--ignore-case", action="store_true")
    shown.add_argument("--json", action="store_true", help="one JSON object a line")
    shown.set_defaults(run=run_artifacts)

    verify = commands.add_parser("verify", help="look transcripts over for damage")
    verify.add_argument("files", nargs="+", metavar="FILE", help="transcripts")
    verify.add_argument(
        "--repair", action="store_true", help="write them anew without damaged lines; the old files are kept"
    )
    verify.add_argument("--json", action="store_true", help="one JSON object a line per file")
    verify.set_defaults(run=run_verify)


def _places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", default=".", metavar="DIR", help="the working directory (default: this one)"
    )
    parser.add_argument(
        "--global-dir", metavar="DIR", help=f"where sessions lie (default {artifacts.DEFAULT_GLOBAL_DIR})"
    )


def _recorder(arguments: argparse.Namespace) -> SessionRecorder:
    config = {"global_dir": arguments.global_dir} if arguments.global_dir else {}
    return SessionRecorder(arguments.project, config)


def run_sessions(arguments: argparse.Namespace) -> int:
    """Lists the project's sessions, newest first."""
    found = _recorder(arguments).list_sessions()
    if arguments.json:
        for session in found:
            print(json.dumps({**session, "filepath": str(session["filepath"])}, ensure_ascii=False))
        return 0
    if not found:
        print("No sessions of this project. `--project` names another one, `--global-dir` another place.")
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("session", "started", "messages", "size", "model", "first request"):
        table.add_column(
            name,
            justify="right" if name in ("messages", "size") else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    for session in found:
        about = "about " if session["message_count_estimated"] else ""
        table.add_row(
            session["session_id"],
            format_relative_time(session["timestamp"]),
            f"{about}{session['message_count']:,}",
            format_file_size(session["file_size"]),
            session["model"] or "–",
            _one_line(session["first_user_message"]),
        )
    _console().print(table)
    return 0


def run_artifacts(arguments: argparse.Namespace) -> int:
    """Lists the artifacts of a session, or shows or searches one."""
    folder = _artifact_dir(arguments)
    if arguments.path is None:
        return _list(folder, arguments.json)
    if arguments.grep is not None:
        return _search(folder, arguments)
    part = artifacts.read_tool_result_artifact(
        folder,
        arguments.path,
        offset=max(arguments.offset, 1),
        limit=max(arguments.limit, 1),
        max_chars=1_000_000,
    )
    if arguments.json:
        print(json.dumps(part, ensure_ascii=False))
        return 0
    text = clean_text(part["text"])
    for number, line in enumerate(text.removesuffix("\n").split("\n"), part["start_line"]):
        print(f"{number:>7}\t{line}")
    if part["next_line"]:
        print(f"… go on with --offset {part['next_line']}", file=sys.stderr)
    return 0


def _artifact_dir(arguments: argparse.Namespace) -> Path:
    recorder = _recorder(arguments)
    found = recorder.list_sessions()
    ids = [s["session_id"] for s in found]
    wanted = arguments.session
    matching = (
        ids[:1]
        if wanted == "last"
        else [i for i in ids if i == wanted] or [i for i in ids if i.startswith(wanted)]
    )
    root = artifacts.get_artifacts_root(recorder._working_dir, recorder._config)
    if len(matching) == 1:
        return artifacts.get_session_artifact_dir(recorder._working_dir, recorder._config, matching[0])
    if not matching and (root / wanted).is_dir() and "/" not in wanted and wanted not in ("", ".", ".."):
        return root / wanted
    known = ", ".join(ids[:5]) or "none"
    problem = "is the beginning of several" if matching else "is not one of this project's"
    raise ValueError(f"session {wanted!r} {problem}. Known: {known}. `mt-context sessions` lists them")


def _list(folder: Path, as_json: bool) -> int:
    listed = list(artifacts.list_artifacts(folder))
    if as_json:
        for artifact in listed:
            print(json.dumps(artifact._asdict()))
        return 0
    if not listed:
        print("This session has no artifacts.")
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("artifact", "size", "written"):
        table.add_column(name, justify="right" if name == "size" else "left", no_wrap=True)
    for artifact in listed:
        when = datetime.fromtimestamp(artifact.modified_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(artifact.path, format_file_size(artifact.size_bytes), when)
    _console().print(table)
    return 0


def _search(folder: Path, arguments: argparse.Namespace) -> int:
    found = artifacts.search_tool_result_artifact(
        folder, arguments.path, arguments.grep, ignore_case=arguments.ignore_case, max_hits=200
    )
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for line, _offset, text in found["hits"]:
        print(f"{line:>7}\t{text}")
    shown = len(found["hits"])
    print(
        f"{found['total']} lines match" + (f", the first {shown} are shown" if found["more"] else ""),
        file=sys.stderr,
    )
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    """Says what is wrong with transcripts; exit code 1 if anything is."""
    wrong = 0
    for name in arguments.files:
        backup = None
        if arguments.repair:
            backup, found = repair_session(name)
        else:
            found = verify_session(name)
        wrong += not found.ok and backup is None
        if arguments.json:
            print(json.dumps({**asdict(found), "ok": found.ok, "backup": str(backup) if backup else None}))
            continue
        state = "ok" if found.ok else "damaged"
        print(
            f"{name}: {state}: {found.records:,} records, {found.compactions} compactions, {format_file_size(found.size)}"
        )
        for offset, reason in found.damaged[:SHOWN]:
            print(f"  byte {offset:,}: {reason}")
        if len(found.damaged) > SHOWN:
            print(f"  and {len(found.damaged) - SHOWN:,} more damaged lines")
        if found.torn_bytes:
            print(
                f"  {found.torn_bytes:,} bytes behind the last record: the next writer saves them and cuts them off"
            )
        for offset, expected, seq in found.seq_gaps:
            print(f"  byte {offset:,}: record {seq} where {expected} was expected")
        for path in found.missing_artifacts:
            print(f"  {path} is recorded and not there")
        if found.unanswered_calls:
            print(f"  {len(found.unanswered_calls)} calls have no result; a resume says so to the model")
        if backup is not None:
            print(f"  mended; the old file is {backup}")
    return 1 if wrong else 0


def _one_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)
