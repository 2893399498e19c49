"""Configs and input specifications that are almost right."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conftest import write_lines
from tests.fuzz.calls import check_call, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import mutated
from tests.support.tokenizer_models import train_sentencepiece

RECORDS = [{"audio_filepath": f"{i}.wav", "duration": 1.0 + i, "text": "some words"} for i in range(5)]
PAIRS = {"source.txt": "a few words\nand more\n", "target.txt": "others here\nand there\n"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("bpe") / "tokenizer.model")


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=True),
    st.sampled_from(
        ["m.json", "m_{0..2}.json", "_OP_0..99999999999_CL_", "", ".", "cfg.yaml", "nemo", "group", "\0", "\ud800"]
    ),
    st.text(max_size=10),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
KEYS = ["type", "manifest_filepath", "shar_path", "cuts_path", "input_cfg", "weight", "tags", "paths", "source_paths"]
KEYS += ["target_paths", "text_field", "lang_field", "force_finite", "language", "tarred_audio_filepaths"]
ENTRY = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3)
GOOD = [
    {"type": "nemo", "manifest_filepath": "m.json", "weight": 0.5},
    {"type": "group", "weight": 0.5, "input_cfg": [{"type": "nemo", "manifest_filepath": "m.json"}]},
]
GOOD_TEXTS = [
    {"type": "txt", "paths": "source.txt", "weight": 1},
    {"type": "txt_pair", "source_path": "source.txt", "target_path": "target.txt", "weight": 1},
]


@st.composite
def configs(draw: st.DrawFn, good: list[dict[str, Any]]) -> bytes:
    """An `input_cfg`: entries with odd values in them, or the text of a good one with odd bytes in it."""
    entries = [{**draw(st.sampled_from(good)), **draw(ENTRY)} for _ in range(draw(st.integers(1, 3)))]
    entries += draw(st.lists(VALUES, max_size=1))
    whole: Any = draw(st.sampled_from([entries, entries, {"input_cfg": entries}, {"a": entries}]))
    text = yaml.safe_dump(whole, allow_unicode=True) if draw(st.booleans()) else json.dumps(whole)
    return draw(mutated(text.encode("utf-8", "surrogatepass"), most=2))


def check(data: bytes, *command: object) -> None:
    with scratch() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_lines(folder / "m.json", RECORDS)
        for name, text in PAIRS.items():
            (folder / name).write_text(text)
        (folder / "cfg.yaml").write_bytes(data)
        check_call(folder, folder / "none", *command)


@examples(150)
@given(configs(GOOD))
def test_input_cfg(data: bytes) -> None:
    check(data, "estimate-bins", "cfg.yaml", "-b", 2)


@examples(60)
@given(configs(GOOD))
@example(b'[{"type": "nemo", "manifest_filepath": "m.json", "text_field": ["a"]}]')
def test_input_cfg_2d(tokenizer: Path, data: bytes) -> None:
    check(data, "estimate-bins-2d", "cfg.yaml", "-t", tokenizer, "-s", 2, "-b", 2)


@examples(100)
@given(configs(GOOD_TEXTS))
def test_text_cfg(tokenizer: Path, data: bytes) -> None:
    check(data, "estimate-token-bins", "cfg.yaml", "-t", tokenizer, "-b", 2)


SPECS = [
    "m.json",
    "[[m.json,0.3],[m.json,0.7]]",
    "manifest_filepath=m.json",
    "m_{0..1}.json",
    "shar_path=.",
    "m.json,m.json",
]


@examples(200)
@given(st.sampled_from(SPECS).flatmap(lambda text: mutated(text.encode(), most=3, head=20)))
@example(b"\x1b[2J.json")
@example(b"\xff.json")
@example(b"")
def test_what_is_typed(spec: bytes) -> None:
    """A shell cannot pass a NUL, nor an empty argument that begins with a dash that is an option."""
    text = spec.decode("utf-8", "surrogateescape").replace("\0", "").lstrip("-")
    check(b"", "estimate-bins", "-b", 2, "--", text)
