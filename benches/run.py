"""Side-by-side figures, in one run, as ratios: `make bench`.

Both sides of every line run interleaved in this process on the same input; the median of the rounds is shown. Texts are made here or
are files of this machine's Python; each text is counted for the first time in a fresh process state where that matters ("first").
The best simple alternative stands beside every claim: where native code does not help, the table says so.
"""

from __future__ import annotations

import argparse
import base64
import copy
import json
import random
import statistics
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpe_openai
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
    trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately

from mt_context import _core
from mt_context._core import TokenCounter


def seconds(function: Callable[[], Any]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def interleaved(sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each side; the sides take turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, function in sides.items():
            times[name].append(seconds(function))
    return {name: statistics.median(values) for name, values in times.items()}


# --- texts


def texts(size: int) -> dict[str, str]:
    """One text of about `size` characters per kind."""
    rng = random.Random(7)
    library = Path(sysconfig.get_paths()["stdlib"])
    python = "\n".join(
        p.read_text(encoding="utf-8", errors="replace") for p in sorted(library.glob("*.py"))[:60]
    )
    common = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经"
    words = [
        "kernel",
        "buffer",
        "tile",
        "vector",
        "loop",
        "load",
        "store",
        "memory",
        "bandwidth",
        "latency",
        "compile",
        "error",
        "warning",
        "test",
        "pass",
        "failed",
        "value",
    ]
    log = (
        f"src/kernel_{rng.randrange(90)}.c:{rng.randrange(900)}:{rng.randrange(80)}: warning: unused variable '{rng.choice(words)}' [-Wunused]\n"
        for _ in iter(int, 1)
    )
    grep = (
        f"src/dsp/{rng.choice(words)}/{rng.choice(words)}.c:{rng.randrange(2000)}:    {rng.choice(words)}({rng.choice(words)}, {rng.randrange(64)});\n"
        for _ in iter(int, 1)
    )
    chinese = (
        "".join(rng.choices(common, k=rng.randrange(6, 30))) + rng.choice("，。；\n") for _ in iter(int, 1)
    )
    numbers = (f"{rng.random():.6f},{rng.randrange(10**6)},{rng.choice(words)}\n" for _ in iter(int, 1))
    records = (
        json.dumps({"id": rng.randrange(10**6), "name": rng.choice(words), "ok": True}) + ","
        for _ in iter(int, 1)
    )
    prose = (" ".join(rng.choices(words, k=12)).capitalize() + ". " for _ in iter(int, 1))

    def take(pieces: Any) -> str:
        out, length = [], 0
        for piece in pieces:
            out.append(piece)
            length += len(piece)
            if length >= size:
                return "".join(out)
        return "".join(out)

    return {
        "python source": python[:size],
        "compiler log": take(log),
        "grep output": take(grep),
        "json": take(records),
        "csv numbers": take(numbers),
        "english words": take(prose),
        "chinese": take(chinese)[: size // 2],
        "base64": base64.b64encode(rng.randbytes(size * 3 // 4)).decode(),
    }


def reference_tiktoken(name: str) -> Any:
    """Python `tiktoken` with the vocabulary that is embedded in our core: its own download needs the network."""
    import tiktoken
    import tiktoken_ext.openai_public as public

    ranks = _core.vocabulary(name)
    public.load_tiktoken_bpe = lambda *args, **options: ranks
    return tiktoken.Encoding(**getattr(public, name)())


def bench_counting(size: int) -> None:
    for name in ("o200k_base", "cl100k_base"):
        reference = reference_tiktoken(name)
        peer = bpe_openai.get_encoding(name)
        ours = TokenCounter(encoding=name)
        ours.count("warm"), reference.encode_ordinary("warm"), peer.encode_ordinary("warm")
        print(f"\nExact counting, {name}, one pass over each text (MB/s; × = ratio to ours)")
        print(f"{'text':16}{'ours':>9}{'tiktoken':>12}{'':8}{'bpe-openai':>12}")
        ratios: list[float] = []
        peers: list[float] = []
        for kind, text in texts(size).items():
            megabytes = len(text.encode()) / 1e6
            # A new text each round, so that no side answers from a cache of pieces of the very same text.
            shift = iter(range(1, 100))

            def fresh(text: str = text, shift: Any = shift) -> str:
                return text[next(shift) :]

            t = interleaved(
                {
                    "ours": lambda fresh=fresh: ours.count(fresh()),
                    "tiktoken": lambda fresh=fresh: len(reference.encode_ordinary(fresh())),
                    "peer": lambda fresh=fresh: sum(
                        len(peer.encode_ordinary(part)) for part in _parts(fresh())
                    ),
                },
                3,
            )
            assert ours.count(text) == len(reference.encode_ordinary(text)), kind
            ratios.append(t["tiktoken"] / t["ours"])
            peers.append(t["peer"] / t["ours"])
            print(
                f"{kind:16}{megabytes / t['ours']:9.0f}{megabytes / t['tiktoken']:12.1f} ×{ratios[-1]:<6.1f}"
                f"{megabytes / t['peer']:12.1f} ×{peers[-1]:.1f}"
            )
        print(
            f"{'geometric mean':16}{'':21} ×{statistics.geometric_mean(ratios):<6.1f}{'':12} ×{statistics.geometric_mean(peers):.1f}"
        )


def _parts(text: str) -> list[str]:
    """bpe-openai refuses more than 200 000 tokens at once."""
    return [text[i : i + 150_000] for i in range(0, len(text), 150_000)]


# --- messages


def history(count: int) -> list[Any]:
    """40 % tool results, 40 % calls, the rest text; about 1.1 KB a message, a fifth Chinese."""
    rng = random.Random(count)
    source = texts(400_000)
    english, chinese = source["compiler log"], source["chinese"]
    messages: list[Any] = []
    for i in range(count // 5):
        text = chinese if i % 5 == 0 else english
        at = rng.randrange(len(text) - 4_000)
        call = {
            "name": "grep",
            "args": {"pattern": f"kernel_{i}", "path": "src"},
            "id": f"call_{i}",
            "type": "tool_call",
        }
        again = {**call, "id": f"call_{i}b", "name": "read_file"}
        messages += [
            HumanMessage(text[at : at + 300], id=f"u{i}")
            if i % 2
            else AIMessage(text[at : at + 300], id=f"x{i}"),
            AIMessage(text[at : at + 200], id=f"a{i}", tool_calls=[call]),
            ToolMessage(text[at : at + 2_400], tool_call_id=f"call_{i}", name="grep", id=f"t{i}"),
            AIMessage("", id=f"b{i}", tool_calls=[again]),
            ToolMessage(text[at : at + 2_600], tool_call_id=f"call_{i}b", name="read_file", id=f"s{i}"),
        ]
    return messages


def plain_python_estimate(messages: list[Any]) -> int:
    """The best simple way to the host's own estimate: `isascii` is O(1)."""
    total = 0
    for m in messages:
        text = f"[{m.type}] {m.content}"
        ascii_count = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
        total += int(ascii_count / 4 + (len(text) - ascii_count) * 1.3)
    return total


def host_estimate(messages: list[Any]) -> int:
    """The same figure character by character, as the host computes it today."""
    total = 0
    for m in messages:
        text = f"[{m.type}] {m.content}"
        ascii_count = sum(1 for c in text if ord(c) < 128)
        total += int(ascii_count / 4 + (len(text) - ascii_count) * 1.3)
    return total


def bench_messages() -> None:
    print("\nThe cost of one turn's count, in ms (× = ratio to ours unchanged)")
    names = [
        "cold",
        "unchanged",
        "one new message",
        "reloaded",
        "approx (LangChain)",
        "trim (LangChain)",
        "plain Python",
        "host's loop",
    ]
    print(f"{'messages':>9} " + "".join(f"{n:>20}" for n in names))
    for count in (100, 1_000, 10_000):
        messages = history(count)
        counter = TokenCounter(encoding="o200k_base")
        counter.count("warm")
        cold = seconds(lambda: counter.count_messages(messages))
        reloaded = [messages_from_dict(messages_to_dict(messages)) for _ in range(3)]
        reload_times = [seconds(lambda r=r: counter.count_messages(r)) for r in reloaded]
        counter.count_messages(messages)
        extra = HumanMessage("one more")

        def grown(messages: list[Any] = messages, counter: TokenCounter = counter) -> None:
            counter.count_messages([*messages, extra])

        t = interleaved(
            {
                "unchanged": lambda: counter.count_messages(messages),
                "grown": grown,
                "approx": lambda: count_tokens_approximately(messages),
                "trim": lambda: trim_messages(messages, max_tokens=10**9, token_counter="approximate"),
                "plain": lambda: plain_python_estimate(messages),
                "host": lambda: host_estimate(messages),
            },
            7,
        )
        ours = t["unchanged"]
        row = [
            cold,
            ours,
            t["grown"],
            statistics.median(reload_times),
            t["approx"],
            t["trim"],
            t["plain"],
            t["host"],
        ]
        print(f"{count:>9} " + "".join(f"{1000 * v:>12.3f} ×{v / ours:<6.0f}" for v in row))


def bench_preview() -> None:
    line = "src/dsp/kernel.c:120:   for (int i = 0; i < n; ++i) y[i] += a * x[i];\n"
    text = line * (64 * 1024 * 1024 // len(line))
    t = interleaved(
        {
            "ours": lambda: _core.preview_text("shell", text, max_chars=4_000, artifact="tool-results/x.txt"),
            "splitlines": lambda: len(text.splitlines()),
            "count": lambda: text.count("\n"),
            "slice": lambda: text[:2_000] + text[-2_000:],
        },
        5,
    )
    print("\nA preview of a 64 MB shell result, in ms")
    print(f"  ours: lines, chars, error lines of the middle  {1000 * t['ours']:9.1f}")
    for name, what in (
        ("splitlines", "Python: len(text.splitlines())"),
        ("count", "Python: text.count('\\n')"),
        ("slice", "Python: two slices, no count"),
    ):
        print(f"  {what:46} {1000 * t[name]:9.3f}  ×{t[name] / t['ours']:.2f}")
    print(
        "  A bare slice cannot be beaten, and is not tried to be: it counts nothing and saves no error line."
    )


def bench_policies() -> None:
    from mt_context.context.message_invariants import repair_messages, validate_messages
    from mt_context.context.microcompact import maybe_time_based_microcompact

    print("\nPolicies over a counted history, in ms")
    for count in (1_000, 10_000):
        messages = history(count)
        counter = TokenCounter(encoding="o200k_base")
        counter.count_messages(messages)
        t = interleaved(
            {
                "validate": lambda: validate_messages(messages, counter=counter),
                "repair (nothing to do)": lambda: repair_messages(messages, counter=counter),
                "split 10K/40K": lambda: _core.find_safe_split(counter, messages, 10_000, 40_000),
                "microcompact, all but 5": lambda: maybe_time_based_microcompact(
                    copy.copy(messages), 10**13, 1, counter=counter
                ),
            },
            5,
        )
        for name, value in t.items():
            print(f"  {count:>6} messages  {name:28}{1000 * value:9.2f}")


def bench_sessions(largest_mb: int) -> None:
    """Resume and listing of transcripts whose last compaction lies 4 MB from the end, beside reading them whole with `json`."""
    import os
    import resource
    import tempfile

    from mt_context.session import SessionRecorder

    print("\nResume of a transcript, last compaction 4 MB from its end, in ms (× = ratio to ours)")
    print(
        f"{'size':>9}{'resume':>12}{'read':>10}{'listing':>10}{'json, all of it':>18}{'':>8}{'growth of our memory':>24}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in [s for s in (5, 50, 200, 1_000) if s <= largest_mb]:
            path = Path(folder) / f"session-{size}.jsonl"
            _write_transcript(path, size)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            found: dict[str, Any] = {}
            resume = seconds(lambda path=path, found=found: found.update(_core.resume_session(path)))
            growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            listing = seconds(lambda path=path: _core.session_listing(path))
            whole = (
                seconds(lambda path=path: [json.loads(line) for line in path.open("rb")])
                if size <= 200
                else float("nan")
            )
            print(
                f"{size:>6} MB{1000 * resume:>12.1f}{found['bytes_read'] / 1e6:>7.1f} MB{1000 * listing:>10.2f}"
                f"{1000 * whole:>18.0f} ×{whole / resume:<7.0f}{growth / 1024:>20.0f} MB"
            )
            path.unlink()
        record = {"type": "transcript_message", "role": "user", "content": "word " * 280}
        recorders = {
            mode: SessionRecorder(folder, {"global_dir": f"{folder}/{mode}"}, sync=mode)
            for mode in ("always", "turn")
        }
        plain = open(f"{folder}/plain.jsonl", "a", encoding="utf-8")  # noqa: SIM115  both sides keep theirs open

        def python(sync: bool) -> None:
            plain.write(json.dumps(record, ensure_ascii=False) + "\n")
            plain.flush()
            if sync:
                os.fdatasync(plain.fileno())

        for recorder in recorders.values():
            recorder.record(dict(record))
        t = interleaved(
            {
                "ours, turn": lambda: recorders["turn"].record(dict(record)),
                "python": lambda: python(False),
                "ours, always": lambda: recorders["always"].record(dict(record)),
                "python + fdatasync": lambda: python(True),
            },
            400,
        )
        print("\nOne record of 1.4 KB, in µs: " + ", ".join(f"{name} {1e6 * v:.0f}" for name, v in t.items()))
        print(
            "  The bare write is faster: it numbers, names, locks and checks nothing. With a sync the disk decides."
        )
        text = "src/dsp/kernel.c:120:   for (int i = 0; i < n; ++i) y[i] += a * x[i];\n" * 900_000
        store = _core.ArtifactStore(folder)

        def spill() -> None:
            with open(f"{folder}/spill.tmp", "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fdatasync(file.fileno())
            os.replace(f"{folder}/spill.tmp", f"{folder}/spill.txt")

        t = interleaved({"ours": lambda: store.write("c", text), "python": spill}, 5)
        print(
            f"A 64 MB artifact, durable, in ms: ours {1000 * t['ours']:.0f}, Python {1000 * t['python']:.0f} ×{t['python'] / t['ours']:.2f}"
        )


def _write_transcript(path: Path, megabytes: int) -> None:
    line = (
        json.dumps(
            {"type": "transcript_message", "role": "tool", "id": "x", "content": "kernel output " * 100}
        )
        + "\n"
    )
    boundary = json.dumps(
        {
            "type": "compact_boundary",
            "reason": "auto",
            "summary": "what was done",
            "pre_tokens": 1,
            "post_tokens": 1,
        }
    )
    tail = 4_000_000 // len(line)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(max(megabytes * 1_000_000 // len(line) - tail, 1)):
            file.write(line)
        file.write(boundary + "\n")
        for i in range(tail):
            file.write(line.replace('"x"', f'"m{i}"'))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--size", type=int, default=1_000_000, help="characters per text (default %(default)s)"
    )
    parser.add_argument(
        "--largest-session", type=int, default=200, help="MB of the largest transcript (default %(default)s)"
    )
    arguments = parser.parse_args()
    bench_counting(arguments.size)
    bench_messages()
    bench_policies()
    bench_preview()
    bench_sessions(arguments.largest_session)


if __name__ == "__main__":
    main()
