"""What is said and done in the demo session: the requests, the answers, the calls, and the files that the agent writes.

`record_demo_session.py` carries it out. Answers quote figures of the results that came before them, never guessed ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from record_demo_session import Session

SCRATCH = "target/demo"

# fmt: off
SYSTEM = (
    "You are a careful coding agent. You work in the repository at `.` with the tools read_file, grep, glob, ls, edit_file, write_file "
    "and shell. You answer in the user's language and keep to the user's rules for the whole session."
)

# --- what the agent writes ---------------------------------------------------------------------------------------

BROKEN = r"""//! Folds progress bars: of a line that was rewritten with carriage returns only the last state stays.

use std::io::{self, Read, Write};

struct Folded {
    text: Vec<u8>,
    dropped: usize,
}

fn fold(input: &[u8]) -> Folded {
    let mut text = Vec::with_capacity(input.len());
    let mut dropped = 0;
    for line in input.split(|byte| byte == b'\n') {
        let last = line.rsplit(|byte| *byte == b'\r').next();
        text.extend_from_slice(last);
        text.push(b'\n');
        dropped += line.len() - last.len();
    }
    Folded { text, dropped }
}

fn main() -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let folded = fold(&input);
    io::stdout().write_all(&folded.text)?;
    eprintln!("dropped {} bytes", folded.droped);
    Ok(())
}
"""
FIX_TYPES = (
    """    for line in input.split(|byte| byte == b'\\n') {
        let last = line.rsplit(|byte| *byte == b'\\r').next();
""",
    """    for line in input.split(|byte| *byte == b'\\n') {
        let last = line.rsplit(|byte| *byte == b'\\r').next().unwrap_or(line);
""",
)
FIX_NEWLINE = (
    """    for line in input.split(|byte| *byte == b'\\n') {
        let last = line.rsplit(|byte| *byte == b'\\r').next().unwrap_or(line);
        text.extend_from_slice(last);
        text.push(b'\\n');
""",
    """    for (number, line) in input.split(|byte| *byte == b'\\n').enumerate() {
        if number > 0 {
            text.push(b'\\n');
        }
        let last = line.rsplit(|byte| *byte == b'\\r').next().unwrap_or(line);
        text.extend_from_slice(last);
""",
)
FIX_RETURN = (
    """        let last = line.rsplit(|byte| *byte == b'\\r').next().unwrap_or(line);
""",
    """        // A return at the end is the half of a CRLF, or a bar that was left standing: it overwrites nothing.
        let end = line.iter().rposition(|byte| *byte != b'\\r').map_or(0, |at| at + 1);
        let shown = line.get(..end).unwrap_or(line);
        let last = shown.rsplit(|byte| *byte == b'\\r').next().unwrap_or(shown);
""",
)
TESTS = '''"""What collapse does to line ends, checked against a slow and obvious fold."""

import itertools
import pathlib
import subprocess
import unittest

HERE = pathlib.Path(__file__).parent


def collapse(data):
    return subprocess.run([HERE / "collapse"], input=data, capture_output=True, check=True).stdout


def expected(data):
    return b"\\n".join(line.rstrip(b"\\r").split(b"\\r")[-1] for line in data.split(b"\\n"))


class CollapseTest(unittest.TestCase):
    maxDiff = None


PIECES = {
    "empty": b"",
    "plain": b"building 12 crates",
    "bar": b"[#    ] 20%\\r[###  ] 60%\\r[#####] 100%",
    "crlf": b"one\\r",
    "returns": b"\\r\\r\\r",
    "chinese": "\\u8fdb\\u5ea6 10%\\r\\u8fdb\\u5ea6 \\u5b8c\\u6210".encode(),
}


def case(data):
    def test(self):
        self.assertEqual(collapse(data), expected(data))

    return test


for count in (1, 2, 3):
    for names in itertools.product(PIECES, repeat=count):
        if count == 3 and len(set(names)) < 3:
            continue
        setattr(CollapseTest, "test_" + "_then_".join(names), case(b"\\n".join(PIECES[name] for name in names)))

if __name__ == "__main__":
    unittest.main()
'''
PROGRESS = r"""import sys, time
total = 400
for step in range(total + 1):
    done = step * 40 // total
    sys.stdout.write(f"\rlinking [{'#' * done}{'.' * (40 - done)}] {step:>3}/{total}")
    if step % 100 == 0 and step:
        sys.stdout.write(f"\nwarning: step {step} took longer than the one before\n")
    sys.stdout.flush()
print("\nlinked target/demo/app in 0 errors, 4 warnings")
"""
BENCH = r"""import pathlib, subprocess, sys, time
here = pathlib.Path(__file__).parent
line = b"".join(b"\r[" + b"#" * n + b"." * (40 - n) + b"]" for n in range(41)) + b"\n"
print(f"{'size MB':>8} {'run':>4} {'seconds':>8} {'MB/s':>8}")
best = {}
for size in (1, 2, 4, 8, 16, 32, 64):
    data = line * (size * 1_000_000 // len(line))
    for run in range(1, 9):
        start = time.perf_counter()
        subprocess.run([here / "collapse"], input=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        seconds = time.perf_counter() - start
        best[size] = min(best.get(size, seconds), seconds)
        sys.stdout.write("".join(f"\r  {size} MB, run {run}: {p:>3} %" for p in range(0, 101, 5)) + "\n")
        print(f"{size:>8} {run:>4} {seconds:>8.4f} {size / seconds:>8.1f}")
for size, seconds in best.items():
    print(f"best of 8 at {size:>2} MB: {seconds:.4f} s, {size / seconds:.0f} MB/s")
"""


def files_of(matches: str) -> int:
    return len({line.split(":", 1)[0] for line in matches.split("\n") if ":" in line})


# --- the session, part by part -------------------------------------------------------------------------------------


def first_look(s: Session) -> None:
    s.user(
        "Please get to know this repository before we change anything. Tell me what the Rust core promises, which numbers rule it, "
        "and which module knows text. Rules for today: every scratch file stays under target/demo, src/limits.rs is never touched, "
        "and you show me each command that you run."
    )
    s.agent(
        "I start with the layout, the README and the list of Rust files.",
        ("ls", {"path": "."}),
        ("glob", {"pattern": "src/**/*.rs"}),
        ("read_file", {"file_path": "README.md"}),
    )
    s.agent(
        "The map of the crate and the table of numbers come next.", ("read_file", {"file_path": "src/lib.rs"}), ("read_file", {"file_path": "src/limits.rs"})
    )
    s.agent("Now the message model that every policy sees.", ("read_file", {"file_path": "src/context/message.rs", "limit": 120}))
    s.agent("And what the modules offer.", ("grep", {"pattern": r"^\s*pub (fn|struct|enum|const|mod|trait) ", "path": "src"}))
    s.agent("The errors, and the build settings that forbid panics.", ("read_file", {"file_path": "src/error.rs"}), ("read_file", {"file_path": "Cargo.toml"}))
    s.agent(
        "What I found:\n"
        "- The core promises that policies are functions of their arguments, that only src/session acts, and that no panic reaches Python.\n"
        "- Every number stands in src/limits.rs, with its unit; nothing else may repeat one.\n"
        "- src/text.rs is the one that counts and cuts text. The message model holds sizes, not texts.\n"
        "I ran no command yet, only reads. Nothing was changed."
    )


def vocabulary(s: Session) -> None:
    s.user("Where in the whole tree do we speak of messages, results and calls? I want every line, so that we agree on one vocabulary.")
    (wide,) = s.agent("One wide grep over sources, tests and scripts.", ("grep", {"pattern": "message|result|call", "path": ".", "include": "*.*"}))
    lines = wide.count("\n") + 1
    s.agent(
        f"At least {lines} lines in {files_of(wide)} files. I look at the definitions only, and at how often each word is used.",
        ("grep", {"pattern": r"(fn|def|class|struct|enum) \w*([Mm]essage|[Rr]esult|[Cc]all)", "path": "."}),
        (
            "shell",
            {
                "command": r"for word in message result call record turn; do printf '%-8s ' $word; grep -rnwi --include='*.rs' --include='*.py' $word src python tests scripts | wc -l; done"
            },
        ),
    )
    s.agent(
        "The importers use `record` for a neutral message; I check how their module says it.",
        ("read_file", {"file_path": "python/mt_context/cli/importers/model.py", "limit": 130}),
    )
    s.agent(
        f"The wide search has over {lines - 1} lines, too many to agree on one by one. My proposal: *message* is what a model reads, *call* and *result* are "
        "the two halves of a tool use, *record* is one line on disk. `turn` hardly occurs; I would define it as one answer of the model."
    )


def progress_bars(s: Session) -> None:
    s.user(
        "好的，词汇就这样定。现在请写一个小的 Rust 程序：把带回车符的进度条输出折叠成最后一行，并统计丢掉了多少字节。"
        "放在 target/demo/collapse.rs，不要引入任何依赖，先编译再运行。"
    )
    s.agent("我先写程序，再用 rustc 直接编译。", ("write_file", {"file_path": f"{SCRATCH}/collapse.rs", "content": BROKEN}))
    s.agent("编译：", ("shell", {"command": f"cd {SCRATCH} && rustc --edition 2021 -O -o collapse collapse.rs"}))
    s.agent(
        "四个错误：比较的类型不对，`last` 是 Option，还有一个字段名写错了。先看出错的位置。",
        ("read_file", {"file_path": f"{SCRATCH}/collapse.rs", "offset": 10, "limit": 12}),
    )
    s.agent(
        "改这两处。",
        ("edit_file", {"file_path": f"{SCRATCH}/collapse.rs", "old_string": FIX_TYPES[0], "new_string": FIX_TYPES[1]}),
        ("edit_file", {"file_path": f"{SCRATCH}/collapse.rs", "old_string": "folded.droped", "new_string": "folded.dropped"}),
    )
    s.agent(
        "重新编译，同时准备一个真实的进度条输出。",
        ("shell", {"command": f"cd {SCRATCH} && rustc --edition 2021 -O -o collapse collapse.rs"}),
        ("write_file", {"file_path": f"{SCRATCH}/progress.py", "content": PROGRESS}),
    )
    s.agent("原始输出，没有折叠：", ("shell", {"command": f"python3 {SCRATCH}/progress.py"}))
    s.agent("折叠以后：", ("shell", {"command": f"python3 {SCRATCH}/progress.py | {SCRATCH}/collapse"}))
    s.agent("程序可以用了：四百步的进度条只剩最后的状态，警告都保留着，丢掉的字节数写在标准错误里。命令都在上面，没有依赖。")


def tests(s: Session) -> None:
    s.user("再写测试：空输入、只有回车、CRLF、中文都要覆盖，还有它们的组合。测试失败的话先给我看原因，再改程序。")
    s.agent(
        "我用 unittest，把每种片段和它们的组合都列出来，期望值由一个慢但明显正确的函数算出。",
        ("write_file", {"file_path": f"{SCRATCH}/test_collapse.py", "content": TESTS}),
    )
    build = f"cd {SCRATCH} && rustc --edition 2021 -O -D warnings -o collapse collapse.rs"
    s.agent("先运行到第一个失败为止。", ("shell", {"command": f"cd {SCRATCH} && python3 -m unittest -f test_collapse 2>&1"}))
    s.agent(
        "第一个原因：程序在末尾总是多写一个换行。换行应该只写在行与行之间。",
        ("read_file", {"file_path": f"{SCRATCH}/collapse.rs", "offset": 9, "limit": 14}),
        ("edit_file", {"file_path": f"{SCRATCH}/collapse.rs", "old_string": FIX_NEWLINE[0], "new_string": FIX_NEWLINE[1]}),
    )
    (failed,) = s.agent("重新编译，这次运行全部测试。", ("shell", {"command": f"{build} && python3 -m unittest -v test_collapse 2>&1"}))
    failures = failed.count("\nFAIL: ")
    s.agent(
        f"还有 {failures} 个失败，都含有 CRLF 或只有回车的行：行尾的回车被当成覆盖，整行就没了。",
        ("edit_file", {"file_path": f"{SCRATCH}/collapse.rs", "old_string": FIX_RETURN[0], "new_string": FIX_RETURN[1]}),
    )
    s.agent("再编译一次，只要结果。", ("shell", {"command": f"{build} && python3 -m unittest test_collapse 2>&1 | tail -n 5"}))
    s.agent("全部通过。原因和改法有两个：末尾多出的换行，现在只写在行与行之间；行尾的回车以前被当成「覆盖整行」，现在只有行中间的回车才算。")


def measure(s: Session) -> None:
    s.user("Good. Now measure it: how fast is it up to 64 MB, and what does the compiler make of the hot loop? Then clean up what isn't needed.")
    s.agent("A benchmark that prints each run.", ("write_file", {"file_path": f"{SCRATCH}/bench.py", "content": BENCH}))
    s.agent("Running it.", ("shell", {"command": f"python3 {SCRATCH}/bench.py"}))
    s.agent(
        "Now the assembly of the optimised build.",
        (
            "shell",
            {
                "command": f"cd {SCRATCH} && rustc --edition 2021 -O -C panic=abort --emit asm -o collapse.s collapse.rs && wc -l collapse.s && head -n 3000 collapse.s"
            },
        ),
    )
    s.agent(
        "I count what matters in it.",
        (
            "shell",
            {
                "command": f"cd {SCRATCH} && grep -c memchr collapse.s; grep -cE '(pcmpeqb|vpcmpeqb|cmeq)' collapse.s; grep -E 'call' collapse.s | awk '{{print $2}}' | cut -c1-70 | sort | uniq -c | sort -rn | head -n 20"
            },
        ),
    )
    s.agent(
        "The loop compares byte by byte; a vectorised search for line ends would help most. For the cleaning I would remove the build folder.",
        ("shell", {"command": "rm -rf target"}),
        deny="not the whole target folder, the build cache is in there",
    )
    s.agent(
        "Understood: only what I made myself.",
        ("shell", {"command": f"rm -f {SCRATCH}/collapse.s && rm -rf {SCRATCH}/__pycache__ && ls -l {SCRATCH} | awk '{{print $5, $9}}'"}),
        ("read_file", {"file_path": "docs/vocabulary.md"}),
    )
    s.agent(
        "Measured and cleaned: the speed is in the table above (best of eight runs per size), the hot loop is not vectorised. There is no docs/vocabulary.md "
        "yet, so the words we agreed on are written down nowhere; I can do that next. target itself stays, as you said."
    )


def after_lunch(s: Session) -> None:
    s.user("I'm back. What happened in this repository so far? Show me the history with its patches, then summarise.", after_minutes=95)
    s.agent(
        "The list first, then the patches of the sources.",
        ("shell", {"command": "git log --format='%h %ad %s' --date=short --stat -- src python tests ':!*.jsonl' | head -n 120"}),
    )
    s.agent("The patches:", ("shell", {"command": "git log -p --format='commit %h %s' -- src python ':!*.jsonl' | head -n 1400"}))
    s.agent(
        "I read two files again that the patches touch.",
        ("read_file", {"file_path": "python/mt_context/cli/importers/reading.py", "limit": 110}),
        ("read_file", {"file_path": "src/lib.rs"}),
    )
    s.agent("The history begins with the crate's numbers, errors and message model; the importers of recorded sessions came next, each with its tests.")


def write_down(s: Session) -> None:
    s.user("请把今天定下的词汇整理成一张表，写到 target/demo/vocabulary.md，每个词给出定义和用到它的文件。另外确认 src/limits.rs 没有改动。", after_minutes=4)
    found = s.agent(
        "先查每个词在哪里用。",
        ("grep", {"pattern": r"\b[Mm]essages?\b", "path": "src"}),
        ("grep", {"pattern": r"\b[Rr]ecords?\b", "path": "python"}),
        ("shell", {"command": "git status --short -- src && git diff --stat -- src/limits.rs && echo 'limits.rs: unchanged'"}),
    )
    table = "\n".join(
        [
            "| 词 | 定义 | 文件 |",
            "|---|---|---|",
            f"| message | 模型读到的一条消息 | src 中 {files_of(found[0])} 个文件 |",
            f"| record | 磁盘上的一行 | python 中 {files_of(found[1])} 个文件 |",
            "| call | 模型请求的一次工具调用 | src/context/message.rs |",
            "| result | 一次工具调用的返回 | src/context/message.rs |",
            "| turn | 模型的一次回答 | （今天定下） |",
            "",
        ]
    )
    s.agent("写表。", ("write_file", {"file_path": f"{SCRATCH}/vocabulary.md", "content": table}))
    s.agent("检查写好的文件。", ("read_file", {"file_path": f"{SCRATCH}/vocabulary.md"}))
    s.agent("表已经写好，src/limits.rs 没有改动。今天的规则都遵守了：草稿都在 target/demo，命令都列在上面。")


def last_run(s: Session) -> None:
    s.user(
        "One more thing: run the program on everything we have, to see that it changes nothing where there is no bar. And list all our test names.",
        after_minutes=3,
    )
    s.agent(
        "All sources through it, compared byte by byte; and the names of the tests.",
        (
            "shell",
            {
                "command": f"cat $(git ls-files src python tests scripts | grep -v jsonl) > {SCRATCH}/all.txt && {SCRATCH}/collapse < {SCRATCH}/all.txt | cmp - {SCRATCH}/all.txt && wc -lc {SCRATCH}/all.txt"
            },
        ),
        ("grep", {"pattern": r"^\s*(def test_|fn \w+\(\) \{)", "path": "."}),
    )
    s.agent(
        "For the record, every documented item of the tree, as the last big search of today.",
        ("grep", {"pattern": r'^\s*(///|//!|"""|#) ?\w+', "path": ".", "include": "*.*"}),
    )
    s.agent("The program leaves text without bars alone, byte for byte. Everything you asked for today is done; what I made lies in target/demo.")
    s.wait(0.5)

PARTS = (first_look, vocabulary, progress_bars, tests, measure, after_lunch, write_down, last_run)
# fmt: on
