"""The report on two-dimensional bins: every number of it, from all kinds of inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece

from prepcli.commands.estimate_bins.nested import nested_bins, place
from prepcli.errors import UsageError
from prepcli.tokenizers.counting import WORDS_DIFFER, TokenizerSpec
from tests.commands.estimate_bins.asking import bins_2d
from tests.conftest import write_lines
from tests.support.tokenizer_models import awkward_texts, corpus_texts, train_sentencepiece


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("bpe") / "bpe.model")


def records(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    texts = [*awkward_texts(count // 2, seed), *corpus_texts() * count][:count]
    durations = rng.lognormal(1.2, 0.6, count).round(3)
    return [
        {"audio_filepath": f"{i}.wav", "duration": float(duration), "text": text, "lang": "en"}
        for i, (duration, text) in enumerate(zip(durations, texts, strict=True))
    ]


def num_tokens(model: Path, texts: list[str]) -> list[int]:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return [len(processor.encode(text)) for text in texts]


def spec(*models: Path, **more: Any) -> TokenizerSpec:
    return TokenizerSpec(tuple(map(str, models)), **more)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_report(tmp_path: Path, bpe: Path, num_workers: int) -> None:
    lines = records(4000)
    lines[7]["text"] += " " + "x " * 300  # an outlier
    path = write_lines(tmp_path / "m.json", [line | {"filler": "x" * 4000} for line in lines])
    with path.open("a") as file:
        file.write('{"_skipme": true}\n{"audio_filepath": "x", "duration": 3}\nbroken\n')
    options = {"num_buckets": 8, "sub_buckets": 3, "min_duration": 1, "num_workers": num_workers}
    report = bins_2d(path, spec(bpe), **options)
    used = [line for line in lines if line["duration"] >= 1]
    durations = np.array([line["duration"] for line in used])
    tokens = np.array(num_tokens(bpe, [line["text"] for line in used]), np.int32)
    expected = nested_bins(durations.astype(np.float32), tokens, 8, 3, 4.0, decimals=3)
    assert report.bucket_duration_bins == expected.pairs
    assert report.max_tps == [round(ratio, 2) for ratio in expected.max_ratio]
    assert (report.num_examples, report.num_discarded) == (len(used), 4000 - len(used))
    assert (report.num_skipped, report.num_rejected) == (1, 2)
    assert report.first_rejected == f"{path}:4002: there is no text, so its tokens cannot be counted"
    assert report.hours == pytest.approx(durations.sum() / 3600)
    assert report.num_tokens == tokens.sum()
    assert report.token_percentiles["p100"] == tokens.max()
    numbers = place(durations, tokens, expected.pairs)
    assert report.num_outliers == expected.num_outliers >= 1
    assert report.num_unplaced == (numbers < 0).sum() >= 1
    limits = np.array(report.max_tps)[numbers]
    assert report.num_above_max_tps == (((tokens / durations) > limits) & (numbers >= 0)).sum() >= 1
    assert [bucket.num_examples for bucket in report.buckets] == np.bincount(
        numbers[numbers >= 0], minlength=len(expected.pairs)
    ).tolist()
    assert sum(bucket.tokens for bucket in report.buckets) == tokens[numbers >= 0].sum()
    assert report.max_duration == report.bucket_duration_bins[-1][0] == round(durations.max(), 3)
    paddings = report.padding, report.padding_with_durations_alone, report.padding_without_buckets
    assert 0 < paddings[0].tokens < min(paddings[1].tokens, paddings[2].tokens) < 1
    assert 0 < paddings[1].seconds < paddings[2].seconds
    assert report.notes == []


def test_a_model_that_joins_words_is_counted_whole_with_a_note(
    tmp_path: Path, bpe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = train_sentencepiece(tmp_path / "m.model", split_by_whitespace=False)
    texts = [" ".join(corpus_texts()[i : i + 2]) for i in range(40)] * 30
    path = write_lines(
        tmp_path / "m.json", [{"audio_filepath": "x", "duration": 1 + i, "text": text} for i, text in enumerate(texts)]
    )
    # Taken for a model of another kind, as one with a property that nobody has thought of would be.
    monkeypatch.setattr("prepcli.tokenizers.counting.splits_at_spaces", lambda _: True)
    report = bins_2d(path, spec(model), num_buckets=3)
    assert WORDS_DIFFER in report.notes
    assert report.num_tokens == sum(num_tokens(model, texts))


def test_one_bucket_and_more_buckets_than_durations(tmp_path: Path, bpe: Path) -> None:
    lines = [line | {"duration": 30.0 if i % 5 else 12.5} for i, line in enumerate(records(300))]
    path = write_lines(tmp_path / "m.json", lines)
    tokens = num_tokens(bpe, [line["text"] for line in lines])
    one = bins_2d(path, spec(bpe), num_buckets=1, sub_buckets=1, token_outlier_threshold=99)
    assert one.bucket_duration_bins == [(30.0, max(tokens))]
    many = bins_2d(path, spec(bpe), num_buckets=100, token_outlier_threshold=99)
    assert {size for size, _ in many.bucket_duration_bins} == {12.5, 30.0}
    assert sum(bucket.num_examples for bucket in many.buckets) + many.num_unplaced == 300
    assert (one.num_buckets, one.notes) == (1, [])
    assert many.num_buckets == 2
    num_pairs, num_empty = len(many.buckets), sum(not bucket.num_examples for bucket in many.buckets)
    assert many.notes[0].startswith("100 buckets were asked for, the bins make 2: ")
    assert many.notes[1].startswith(f"{num_pairs} bins of 100 x 2, {num_empty} of them without an example (")


def test_texts_without_tokens(tmp_path: Path, bpe: Path) -> None:
    lines = [line | {"text": ""} for line in records(100)]
    report = bins_2d(write_lines(tmp_path / "m.json", lines), spec(bpe), num_buckets=4)
    assert {limit for _, limit in report.bucket_duration_bins} == {0}
    assert (report.num_examples, report.num_tokens, report.padding.tokens) == (100, 0, 0)


def test_languages_fields_and_tags(tmp_path: Path, bpe: Path) -> None:
    char = train_sentencepiece(tmp_path / "char.model", model_type="char")
    texts = corpus_texts()
    for name, lang in (("a", "en"), ("b", None), ("c", "fr")):
        more = {} if lang is None else {"l": lang}
        lines = [{"audio_filepath": "x", "duration": 1 + i, "answer": text, **more} for i, text in enumerate(texts)]
        write_lines(tmp_path / f"{name}.json", lines)
    entry = f"- {{type: nemo, manifest_filepath: {tmp_path}/"
    (tmp_path / "cfg.yaml").write_text(
        f"{entry}a.json, tags: {{l: de}}, lang_field: l, text_field: answer}}\n"  # the record's own language counts
        f"- type: group\n  tags: {{l: de}}\n  text_field: answer\n  lang_field: l\n"
        f"  input_cfg:\n  {entry}b.json}}\n  {entry}c.json}}\n"
    )
    both = spec(bpe, char, langs=("en", "de"))
    report = bins_2d(tmp_path / "cfg.yaml", both, num_buckets=3)
    assert report.num_tokens == sum(num_tokens(bpe, texts)) + sum(num_tokens(char, texts))
    assert (report.num_examples, report.num_rejected) == (2 * len(texts), len(texts))
    assert "c.json:1: there is no tokenizer for the language 'fr', only for en, de" in str(report.first_rejected)


def test_weights_and_endless_data(tmp_path: Path, bpe: Path) -> None:
    for name, text, count in (("a", "Added.", 10), ("b", "", 400)):
        lines = [{"audio_filepath": "x", "duration": 1 + i % 7, "text": text} for i in range(count)]
        write_lines(tmp_path / f"{name}.json", lines)
    a, b = (f"{{type: nemo, manifest_filepath: {tmp_path}/{name}.json, weight: 0.5" for name in "ab")
    (tmp_path / "finite.yaml").write_text(f"- {a}}}\n- {b}}}\n")
    (tmp_path / "endless.yaml").write_text(f"- {a}, force_finite: false}}\n- {b}, force_finite: false}}\n")
    each = num_tokens(bpe, ["Added."])[0]

    def tokens(name: str, num_examples: int) -> int:
        options = {"num_buckets": 2, "num_examples": num_examples}
        return bins_2d(tmp_path / name, spec(bpe), **options).num_tokens

    assert tokens("finite.yaml", 100) == 10 * each  # used up
    assert tokens("endless.yaml", 100) == 50 * each  # read again and again
    with pytest.raises(UsageError, match=r"force_finite: false.*say how many .*num_examples \(-n\)"):
        tokens("endless.yaml", -1)


def test_cuts(tmp_path: Path, bpe: Path) -> None:
    texts = corpus_texts()
    (tmp_path / "cuts").mkdir()
    write_lines(
        tmp_path / "cuts" / "cuts.000000.jsonl",
        [
            {"id": str(i), "type": "MonoCut", "duration": 1 + i, "supervisions": [{"text": text, "language": "en"}]}
            for i, text in enumerate(texts)
        ],
    )
    report = bins_2d(tmp_path, spec(bpe), num_buckets=3)
    assert (report.num_examples, report.num_tokens) == (len(texts), sum(num_tokens(bpe, texts)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lang_field": "text"}, "cannot both be in the field 'text'"),
        ({"min_duration": 1e6}, r"no example that can be used \(9 outside"),
        ({"text_field": "nothing"}, "no example .* there is no nothing, so its tokens"),
    ],
)
def test_wrong_use(tmp_path: Path, bpe: Path, options: dict[str, Any], words: str) -> None:
    path = write_lines(tmp_path / "m.json", records(9))
    with pytest.raises(UsageError, match=words):
        bins_2d(path, spec(bpe), **options)


def test_a_prompt_without_nemo_names_the_extra(tmp_path: Path, bpe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "nemo.collections.common.data", None)
    path = write_lines(tmp_path / "m.json", records(9))
    with pytest.raises(UsageError, match=r"prompt_format='canary' needs NeMo: pip install 'prepcli\[nemo\]'"):
        bins_2d(path, spec(bpe, prompt_format="canary"))
    with pytest.raises(UsageError, match="prompt must be a list of turns"):
        bins_2d(path, spec(bpe, prompt_format="canary", prompt="nonsense"))
