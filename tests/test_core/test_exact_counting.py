"""Exact counts against independent tokenizers: PyPI's `bpe-openai` and `tiktoken` (spec 1)."""

from __future__ import annotations

import base64
import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpe_openai
import pytest
import tiktoken
import tiktoken_ext.openai_public
from hypothesis import given
from hypothesis import strategies as st

from mt_context import _core
from mt_context._core import TokenCounter

ENCODINGS = ("o200k_base", "cl100k_base")


@pytest.fixture(scope="module", params=ENCODINGS)
def both(request: pytest.FixtureRequest) -> Iterator[tuple[TokenCounter, Any]]:
    """Our counter, and tiktoken over the same vocabulary (its own download needs the network)."""
    patch = pytest.MonkeyPatch()
    ranks = _core.vocabulary(request.param)
    patch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", lambda *args, **options: ranks)
    reference = tiktoken.Encoding(**getattr(tiktoken_ext.openai_public, request.param)())
    patch.undo()
    yield TokenCounter(encoding=request.param), reference


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_embedded_vocabulary_is_that_of_an_independent_package(name: str) -> None:
    peer = bpe_openai.get_encoding(name)
    ranks = _core.vocabulary(name)
    assert len(ranks) > 100_000
    for token, rank in random.Random(5).sample(sorted(ranks.items()), 3_000):
        assert peer.decode_single_token_bytes(rank) == token


def real_texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.endswith((".sqlite.gz", ".tar.gz")):
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            yield path.name, data[:3_000_000].decode("utf-8", "replace")


def test_every_real_text_counts_as_the_reference_does(
    both: tuple[TokenCounter, Any], shared_data: Path
) -> None:
    counter, reference = both
    counts = {
        name: (counter.count(text), len(reference.encode_ordinary(text)))
        for name, text in real_texts(shared_data)
    }
    assert len(counts) > 100
    assert {name: pair for name, pair in counts.items() if pair[0] != pair[1]} == {}


def pathological() -> dict[str, str]:
    rng = random.Random(3)
    million = {repr(c): c * 1_000_000 for c in ("a", "\n", "!", "=", "0", "\r\n"[:1])}
    return million | {
        "base64": base64.b64encode(rng.randbytes(600_000)).decode(),
        "minified": "".join(
            rng.choice(["function(a,b){return a+b}", "var x=1;", "!0&&", "[0],", '"s"'])
            for _ in range(60_000)
        ),
        "punctuation": "".join(rng.choices("!@#$%^&*()_+-=[]{}|;':,./<>?", k=400_000)),
        "letters without end": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=300_000)),
        "one Han paragraph": "".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(200_000)),
        "emoji": "👩‍👩‍👧‍👦🇨🇳👍🏽" * 30_000,
        "any planes": "".join(
            chr(rng.choice([rng.randrange(0x20, 0xD800), rng.randrange(0xE000, 0x20000)]))
            for _ in range(120_000)
        ),
        "lone surrogates": "a\ud800b\udcffc\ud83d" * 20_000,
        "escape sequences": "\x1b[31merror\x1b[0m: x\r\n" * 30_000,
        "special tokens": "<|endoftext|><|im_start|>" * 5_000,
    }


@pytest.mark.parametrize("kind", list(pathological()))
def test_pathological_text_counts_as_the_reference_does(both: tuple[TokenCounter, Any], kind: str) -> None:
    counter, reference = both
    text = pathological()[kind]
    expected = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert counter.count(text) == len(reference.encode_ordinary(expected))


def test_a_million_spaces_count_where_the_reference_panics() -> None:
    counts = [TokenCounter(encoding="o200k_base").count(" " * n) for n in (100_000, 200_000, 1_000_000)]
    # Long runs cost the same per space, whatever their length.
    assert abs(counts[1] - 2 * counts[0]) <= 2 and abs(counts[2] - 10 * counts[0]) <= 10


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=200))
def test_any_text_counts_as_the_reference_does(text: str) -> None:
    for name in ENCODINGS:
        assert TokenCounter(encoding=name).count(text) == len(
            bpe_openai.get_encoding(name).encode_ordinary(text)
        )


@pytest.mark.parametrize(
    ("model", "encoding"),
    [("gpt-4o", "o200k_base"), ("openai/gpt-4.1-mini", "o200k_base"), ("gpt-4", "cl100k_base"), ("deepseek-chat", "deepseek_v3"),
     ("openrouter/deepseek/deepseek-r1", "deepseek_v3"), ("Qwen2.5-Coder-32B-Instruct", "qwen2"), ("o3-mini", "o200k_base"),
     ("claude-sonnet-4-5", None), ("gemini-2.5-pro", None), ("my-own-model", None)],
)  # fmt: skip
def test_a_model_s_name_gives_its_vocabulary(model: str, encoding: str | None) -> None:
    assert _core.encoding_for_model(model) == encoding
    counter = TokenCounter(model)
    assert counter.is_exact == (encoding is not None)
    if encoding:
        assert counter.name == encoding


def test_windows_are_known_by_model_and_never_a_million_for_all() -> None:
    windows = {
        m: _core.context_window_for_model(m)
        for m in ("gpt-4o", "gpt-4", "deepseek-chat", "claude-sonnet-4-5", "unheard-of")
    }
    assert windows["unheard-of"] is None and windows["gpt-4o"] == 128_000 and windows["gpt-4"] == 8_192
    assert 64_000 <= (windows["deepseek-chat"] or 0) <= 163_840 and windows["claude-sonnet-4-5"] == 200_000


def test_the_estimator_is_near_the_exact_count_on_what_tools_print() -> None:
    exact, estimate = TokenCounter(encoding="o200k_base"), TokenCounter()
    rng = random.Random(1)
    samples = {
        "grep": "".join(
            f"src/dsp/k{rng.randrange(99)}.c:{rng.randrange(999)}: load(buf, {rng.randrange(64)});\n"
            for _ in range(500)
        ),
        "csv": "".join(f"{rng.random():.6f},{rng.randrange(10**6)}\n" for _ in range(500)),
        "json": "".join(
            f'{{"id": {rng.randrange(10**6)}, "name": "kernel", "ok": true}},' for _ in range(300)
        ),
        "chinese": "把双缓冲矩阵乘法内核移植到数字信号处理器上，并说明每一步的访存开销。" * 60,
        "english": "Please port the double-buffered matrix kernel and explain the cost of each memory access. "
        * 60,
    }
    for kind, text in samples.items():
        assert 0.75 <= estimate.count(text) / exact.count(text) <= 1.25, kind


def test_a_tokenizer_json_counts_exactly_and_a_broken_one_is_a_clear_error() -> None:
    import json

    vocabulary = {c: i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")} | {"ab": 26, "abc": 27}
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"], ["ab", "c"]]},
    }  # fmt: skip
    counter = TokenCounter(tokenizer_json=json.dumps(document).encode())
    assert counter.is_exact and [counter.count(t) for t in ("abc", "abab", "zab", "")] == [1, 2, 2, 0]
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        TokenCounter(tokenizer_json=b"{}")
