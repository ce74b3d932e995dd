#!/usr/bin/env python3
"""Fits the estimator's table (src/tokens/estimate_table.rs) to o200k_base.

    python3 scripts/fit_estimator.py            # gather texts, fit, print the errors, write the table
    python3 scripts/fit_estimator.py --check    # only print the errors of the table a fit would write

Texts: sources, documentation and message catalogues found on this machine (Rust sources and documentation, Python's
library, C headers, gettext catalogues in Chinese, Japanese, Korean, Russian and German), and generated ones (logs, CSV,
JSON, listings, grep output, diffs, hex dumps, base64, colours, Chinese prose with code, degenerate runs). Every kind has the same
weight. Every second text of 4 KB is held out of the fit; the errors are those on the held-out half. The table is
determined by the texts; other machines have other ones, so its figures move by a per cent or so. Stdlib only.
"""

from __future__ import annotations

import argparse
import collections
import gettext
import glob
import html
import os
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLASSES, BUCKETS = 55, 21
MIDDLES = [*range(1, 17), 18, 22, 28, 40, 56]
SIZE = 800_000


def files(pattern: str, ending: str = "", limit: int = SIZE, strip=lambda text: text) -> str:
    """Up to `limit` characters of the files that match, the same ones every time."""
    paths = sorted(p for p in glob.glob(os.path.expanduser(pattern), recursive=True) if p.endswith(ending))
    random.Random(1).shuffle(paths)
    found: list[str] = []
    total = 0
    for path in paths:
        if total >= limit:
            break
        try:
            text = strip(Path(path).read_text("utf-8"))[:60_000]
        except (OSError, UnicodeDecodeError):
            continue
        found.append(text)
        total += len(text)
    return "\n".join(found)


def prose(page: str) -> str:
    page = re.sub(r"(?s)<(script|style|pre|code|nav)\b.*?</\1>", "", page)
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    return "\n".join(line.strip() for line in text.splitlines() if len(line.strip()) > 60)


def catalogues(language: str, limit: int = 250_000) -> str:
    """Translated messages of at least a sentence's length, from gettext catalogues."""
    found: list[str] = []
    total = 0
    for path in sorted(glob.glob(f"/usr/share/locale/{language}/LC_MESSAGES/*.mo")):
        if "iso_" in path or "iso-" in path or total >= limit:
            continue
        try:
            with open(path, "rb") as file:
                messages = gettext.GNUTranslations(file)._catalog.values()
        except Exception:
            continue
        for message in messages:
            if isinstance(message, str) and len(message) > 15:
                found.append(message)
                total += len(message)
    return "\n".join(found)


def generated() -> dict[str, str]:
    r = random.Random(2)
    words = [
        "error",
        "the",
        "cache",
        "of",
        "request",
        "timeout",
        "value",
        "is",
        "not",
        "loaded",
        "node",
        "and",
        "retry",
        "user",
        "session",
        "config",
        "server",
        "client",
        "worker",
        "thread",
        "buffer",
        "index",
        "query",
        "table",
        "kernel",
        "matrix",
        "vector",
        "stream",
        "token",
        "message",
        "context",
        "window",
        "budget",
    ]
    levels = ["INFO", "WARN", "ERROR", "DEBUG", "TRACE"]
    word = lambda: r.choice(words)
    name = lambda: "_".join(word() for _ in range(r.randint(1, 3)))
    path = lambda: (
        "/".join(word() for _ in range(r.randint(1, 4)))
        + "/"
        + name()
        + r.choice([".rs", ".py", ".ts", ".c", ".log"])
    )
    stamp = lambda: (
        f"2026-{r.randint(1, 12):02}-{r.randint(1, 28):02}T{r.randint(0, 23):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}"
    )

    def many(line, size: int = 400_000) -> str:
        out: list[str] = []
        total = 0
        while total < size:
            out.append(line())
            total += len(out[-1])
        return "".join(out)

    han = han_words()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    colour = lambda: f"\x1b[{r.randint(0, 1)};{r.randint(30, 37)}m{name()}\x1b[0m"

    def zh(code: bool) -> str:
        clause = "".join(han() for _ in range(r.randint(2, 9)))
        if code and r.random() < 0.4:
            clause += r.choice([f" `{name()}` ", f"{name()}()", f" {r.randint(1, 4096)} ", path()])
        return clause + r.choice("，，，。、；") + ("\n" if r.random() < 0.1 else "")

    return {
        "svc_log": many(
            lambda: (
                f"{stamp()}.{r.randint(0, 999):03}Z {r.choice(levels)} [{word()}-{r.randint(0, 31)}] {' '.join(word() for _ in range(r.randint(3, 9)))} id={r.getrandbits(r.choice([32, 64, 128])):x} took {r.randint(1, 9000)}ms\n"
            )
        ),
        "access_log": many(
            lambda: (
                f'{r.randint(1, 223)}.{r.randint(0, 255)}.{r.randint(0, 255)}.{r.randint(1, 254)} - - [{r.randint(1, 28):02}/Nov/2026:12:{r.randint(0, 59):02}:{r.randint(0, 59):02} +0000] "GET /{path()}?q={word()} HTTP/1.1" {r.choice([200, 304, 404, 500])} {r.randint(100, 99999)}\n'
            )
        ),
        "csv_num": many(
            lambda: ",".join(f"{r.uniform(-1000, 1000):.{r.randint(1, 6)}f}" for _ in range(6)) + "\n"
        ),
        "json_compact": many(
            lambda: (
                f'{{"id":{r.randint(1, 10**7)},"{name()}":"{name()}","ok":{r.choice(["true", "false", "null"])},"tags":["{word()}","{word()}"],"{word()}":{r.uniform(0, 100):.3f}}},'
            )
        ),
        "json_pretty": many(
            lambda: (
                f'    {{\n      "id": {r.randint(1, 10**6)},\n      "{name()}": "{word()} {word()}",\n      "{word()}": null\n    }},\n'
            )
        ),
        "grep": many(
            lambda: (
                f"{path()}:{r.randint(1, 2000)}:{' ' * r.choice([0, 4, 8])}let {name()} = {name()}({name()}, {r.randint(0, 99)});\n"
            )
        ),
        "ls_find": many(
            lambda: r.choice(
                [
                    f"-rw-r--r-- 1 root root {r.randint(1, 10**7):>8} Nov {r.randint(1, 30):>2} {r.randint(0, 23):02}:{r.randint(0, 59):02} {name()}-{r.randint(0, 99)}.{r.choice(['rs', 'o', 'so', 'py'])}\n",
                    f"./{path()}\n",
                ]
            )
        ),
        "compiler_log": many(
            lambda: r.choice(
                [
                    f"   Compiling {name().replace('_', '-')} v{r.randint(0, 9)}.{r.randint(0, 30)}.{r.randint(0, 9)}\n",
                    f"{path()}:{r.randint(1, 999)}:{r.randint(1, 80)}: warning: unused variable '{name()}' [-Wunused-variable]\n",
                    f"error[E{r.randint(1, 999):04}]: cannot find value `{name()}` in this scope\n  --> {path()}:{r.randint(1, 999)}:{r.randint(1, 80)}\n   |\n{r.randint(1, 999)} |     {name()}.{name()}();\n   |     {'^' * r.randint(3, 20)} not found in this scope\n\n",
                ]
            )
        ),
        "git_diff": many(
            lambda: r.choice(
                [
                    f"diff --git a/{path()} b/{path()}\nindex {r.getrandbits(28):07x}..{r.getrandbits(28):07x} 100644\n@@ -{r.randint(1, 999)},{r.randint(1, 9)} +{r.randint(1, 999)},{r.randint(1, 9)} @@\n",
                    f"{r.choice(' +-')}    {name()} = {name()}({name()})\n",
                ]
            )
        ),
        "hexdump": many(
            lambda: (
                f"{r.getrandbits(24):08x}: "
                + " ".join(f"{r.getrandbits(16):04x}" for _ in range(8))
                + "  "
                + "".join(r.choice("...." + alphabet) for _ in range(16))
                + "\n"
            )
        ),
        "hex": many(lambda: f"{r.getrandbits(512):0128x}\n"),
        "base64": many(lambda: "".join(r.choice(alphabet) for _ in range(76)) + "\n"),
        "base64_line": many(lambda: "".join(r.choice(alphabet) for _ in range(9000))),
        "uuid": many(
            lambda: (
                f"{name()}: {r.getrandbits(32):08x}-{r.getrandbits(16):04x}-{r.getrandbits(16):04x}-{r.getrandbits(16):04x}-{r.getrandbits(48):012x}\n"
            )
        ),
        "ansi": many(lambda: colour() + r.choice([" ", "\n", ": "])),
        "min_js": many(
            lambda: (
                f"function {r.choice('abcdefgh')}({r.choice('tnre')}){{return {r.choice('abcdefgh')}.{name().replace('_', '')}({r.choice('tnre')},{r.randint(0, 99)})&&!{r.choice('xyz')}?{r.choice('uvw')}:void 0}}var {r.choice('klm')}=[];"
            )
        ),
        "progress": many(
            lambda: (
                f"\r {r.randint(0, 100):>3}%|{'█' * r.randint(0, 40)}{' ' * r.randint(0, 40)}| {r.randint(0, 999)}/999 [{r.randint(0, 59):02}:{r.randint(0, 59):02}<00:10, {r.uniform(1, 99):.2f}it/s]"
            )
        ),
        "zh_prose": many(lambda: zh(False), 150_000),
        "zh_mixed": many(lambda: zh(True), 200_000),
        "emoji": many(
            lambda: word() + " " + chr(0x1F600 + r.randint(0, 63)) + r.choice(["\n", " ", chr(0x1F44D)]),
            100_000,
        ),
        "unicode": many(
            lambda: "".join(chr(c) for c in (r.randint(0x20, 0xD7FF) for _ in range(8))) + " ", 100_000
        ),
    }


def han_words():
    """A source of Chinese words: common ones mostly, sometimes any of the 3 755 characters of GB2312's first level."""
    common = [
        "我们",
        "你们",
        "他们",
        "这个",
        "那个",
        "什么",
        "可以",
        "没有",
        "因为",
        "所以",
        "如果",
        "但是",
        "问题",
        "时间",
        "系统",
        "文件",
        "代码",
        "函数",
        "数据",
        "内存",
        "计算",
        "方法",
        "结果",
        "使用",
        "需要",
        "进行",
        "实现",
        "运行",
        "测试",
        "检查",
        "修改",
        "添加",
        "删除",
        "读取",
        "写入",
        "处理",
        "返回",
        "参数",
        "变量",
        "错误",
        "信息",
        "用户",
        "请求",
        "服务",
        "工具",
        "消息",
        "上下文",
        "压缩",
        "窗口",
        "预算",
        "性能",
        "优化",
        "向量",
        "矩阵",
        "乘法",
        "内核",
        "循环",
        "展开",
        "流水线",
        "寄存器",
        "指令",
        "编译",
        "链接",
        "线程",
        "同步",
        "缓冲",
        "地址",
        "对齐",
        "开销",
        "带宽",
        "延迟",
        "吞吐",
        "现在",
        "已经",
        "还是",
        "或者",
        "以及",
        "之后",
        "之前",
        "当前",
        "所有",
        "每个",
        "一个",
        "两个",
        "第一",
        "第二",
        "首先",
        "然后",
        "最后",
        "注意",
        "确认",
        "说明",
        "建议",
        "完成",
        "继续",
        "开始",
        "结束",
        "的",
        "了",
        "是",
        "在",
        "和",
        "有",
        "不",
        "就",
        "都",
        "也",
        "对",
        "到",
        "会",
        "把",
        "被",
        "从",
        "向",
        "再",
        "用",
        "给",
        "让",
        "为",
        "与",
        "及",
        "等",
        "中",
        "上",
        "下",
        "里",
        "后",
        "前",
        "每",
        "各",
        "该",
        "此",
        "其",
    ]
    level_one = [
        bytes((a, b)).decode("gb2312")
        for a in range(0xB0, 0xD8)
        for b in range(0xA1, 0xFF)
        if (a, b) < (0xD7, 0xFA)
    ]
    r = random.Random(3)
    return lambda: r.choice(level_one) if r.random() < 0.12 else r.choice(common)


def degenerate() -> dict[str, str]:
    r = random.Random(4)
    n = 100_000
    return {
        "spaces": " " * n,
        "newlines": "\n" * n,
        "tabs": "\t" * n,
        "same_letter": "a" * n,
        "same_sign": "=" * n,
        "signs": "".join(r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(n)),
        "letters": "".join(r.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n)),
        "capitals": "".join(r.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(n)),
        "han": "".join(han() for han in [han_words()] for _ in range(n // 3)),
        "emoji": "".join(chr(0x1F600 + r.randint(0, 63)) for _ in range(n // 4)),
    }


def gather() -> dict[str, str]:
    registry = "~/.cargo/registry/src/*"
    python = sysconfig.get_paths()["stdlib"]
    found = {
        "rs_src": files(f"{registry}/*/src/**/*", ".rs"),
        "md_docs": files(f"{registry}/*/*", ".md"),
        "toml": files(f"{registry}/*/*", ".toml", 200_000),
        "py_src": files(f"{python}/**/*", ".py"),
        "c_src": files("/usr/include/**/*", ".h"),
        "en_prose": files("~/.rustup/toolchains/stable*/share/doc/rust/html/book/*", ".html", strip=prose),
        "html": files("~/.rustup/toolchains/stable*/share/doc/rust/html/book/*", ".html", 300_000),
        "zh_docs": catalogues("zh_CN") + files("/usr/share/vim/vim*/tutor/tutor.zh_cn.utf-8"),
        "ja_docs": catalogues("ja"),
        "ko_docs": catalogues("ko"),
        "ru_docs": catalogues("ru"),
        "de_docs": catalogues("de"),
    }
    found.update(generated())
    return {kind: text for kind, text in found.items() if len(text) > 20_000}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--check", action="store_true", help="print the errors, write nothing")
    check = options.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        texts = {**gather(), **{f"degenerate_{kind}": text for kind, text in degenerate().items()}}
        for kind, text in texts.items():
            Path(folder, kind).write_text(text, "utf-8", newline="")
        run = subprocess.run(
            ["cargo", "run", "--quiet", "--release", "--example", "estimate_cells"],
            input="\n".join(str(Path(folder, kind)) for kind in texts),
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
    if run.returncode:
        sys.exit(run.stderr)
    samples = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        path, size, chars, tokens, *cells = line.split("\t")
        samples[Path(path).name].append(
            (int(size), int(chars), int(tokens), [tuple(map(int, c.split(":"))) for c in cells])
        )

    table, slopes = fit(samples)
    print(f"{'kind':<14}{'texts':>6}{'p50 %':>8}{'p95 %':>8}{'bias %':>8}{'chars/4 %':>11}")
    errors, total, exact = [], 0.0, 0
    for kind, rows in samples.items():
        held = rows if kind.startswith("degenerate") else rows[1::2]
        signed = [100 * (estimate(cells, table, slopes) / tokens - 1) for _, _, tokens, cells in held]
        plain = statistics.median(100 * (chars / 4 / tokens - 1) for _, chars, tokens, _ in held)
        size = sorted(map(abs, signed))
        print(
            f"{kind:<14.14}{len(held):>6}{size[len(size) // 2]:>8.1f}{size[int(len(size) * 0.95)]:>8.1f}{statistics.median(signed):>8.1f}{plain:>11.1f}"
        )
        if not kind.startswith("degenerate"):
            errors += [(abs(s), 1 / len(signed)) for s in signed]
            total += sum(estimate(cells, table, slopes) for *_, cells in held) / len(held)
            exact += sum(tokens for _, _, tokens, _ in held) / len(held)
    errors.sort()

    def quantile(q: float) -> float:
        left = q * sum(w for _, w in errors)
        for error, weight in errors:
            left -= weight
            if left <= 0:
                return error
        return errors[-1][0]

    summary = f"held-out halves of {sum(not k.startswith('degenerate') for k in samples)} kinds, every kind weighing the same: p50 {quantile(0.5):.1f} %, p95 {quantile(0.95):.1f} %, total bias {100 * (total / exact - 1):+.1f} %"
    print(summary)
    if not check:
        write(table, slopes, summary)


def fit(samples) -> tuple[list[list[float]], list[float]]:
    """The mean tokens of a piece in each cell; a thin cell leans on its class's tokens per byte."""
    pieces = collections.Counter()
    tokens = collections.Counter()
    long_bytes = collections.Counter()
    for kind, rows in samples.items():
        used = rows if kind.startswith("degenerate") else rows[::2]
        # A degenerate text may only speak where nothing else does.
        weight = (1e-3 if kind.startswith("degenerate") else 1) * 1e5 / sum(row[2] for row in used)
        for *_, cells in used:
            for klass, bucket, n, beyond, t in cells:
                pieces[klass, bucket] += weight * n
                tokens[klass, bucket] += weight * t
                if bucket == BUCKETS:
                    long_bytes[klass] += weight * (beyond + 64 * n)
    table, slopes = [], []
    for klass in range(CLASSES):
        size = sum(pieces[klass, b] * MIDDLES[b] for b in range(BUCKETS))
        rate = sum(tokens[klass, b] for b in range(BUCKETS)) / size if size else 0.25
        slope = tokens[klass, BUCKETS] / long_bytes[klass] if long_bytes[klass] else rate
        row = []
        for bucket in range(BUCKETS):
            prior = max(1.0, rate * MIDDLES[bucket])
            row.append(max(1.0, (tokens[klass, bucket] + 2 * prior) / (pieces[klass, bucket] + 2)))
        table.append(row)
        slopes.append(slope)
    refine(samples, table)
    return table, slopes


def refine(samples, table) -> None:
    """Moves the means a little towards the least relative error of whole texts: a piece's neighbours say more than its class."""
    means = [row[:] for row in table]
    rows = []
    for kind, all_rows in samples.items():
        if not kind.startswith("degenerate"):
            used = all_rows[::2]
            rows += [(row, min(1.0, 25 / len(used))) for row in used]
    random.Random(5).shuffle(rows)
    for epoch in range(60):
        step = 0.05 / (1 + epoch / 10)
        for (_, _, tokens, cells), weight in rows:
            # Long pieces go by the slope, which stays.
            short = [(k, b, n / tokens) for k, b, n, _, _ in cells if b < BUCKETS]
            error = (
                sum(share * table[k][b] for k, b, share in short)
                - sum(t for _, b, _, _, t in cells if b < BUCKETS) / tokens
            )
            norm = sum(share * share for *_, share in short)
            for k, b, share in short:
                moved = table[k][b] - step * weight * error * share / max(norm, 1e-3)
                table[k][b] = min(max(moved, 1.0, 0.7 * means[k][b]), 1.4 * means[k][b])


def estimate(cells, table, slopes) -> float:
    return sum(n * table[k][min(b, BUCKETS - 1)] + beyond * slopes[k] for k, b, n, beyond, _ in cells)


def write(table, slopes, summary: str) -> None:
    lines = [
        "//! Written by `scripts/fit_estimator.py`; do not edit. Fitted to o200k_base.",
        "//!",
        f"//! Error on the {summary.split(':')[0]}:",
        f"//! {summary.split(':', 1)[1].split(': ')[-1].strip()}.",
        "",
        "use super::estimate::BUCKETS;",
        "",
        "/// Thousandths of a token of a piece, by class and bucket of its length.",
        "#[rustfmt::skip]",
        "pub const TOKENS: &[[u16; BUCKETS]] = &[",
        *("    [" + ", ".join(str(min(65_535, round(1000 * t))) for t in row) + "]," for row in table),
        "];",
        "",
        "/// Millionths of a token for every byte beyond the longest bucket, by class.",
        "#[rustfmt::skip]",
        "pub const SLOPES: &[u32] = &[",
        *(
            "    " + ", ".join(str(round(1e6 * s)) for s in slopes[i : i + 12]) + ","
            for i in range(0, CLASSES, 12)
        ),
        "];",
        "",
    ]
    Path(ROOT, "src/tokens/estimate_table.rs").write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
