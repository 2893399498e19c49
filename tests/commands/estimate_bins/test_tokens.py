"""Bins from texts, pairs and conversations."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece

from prepcli.commands.estimate_bins.nested import nested_bins
from prepcli.commands.estimate_bins.tokens import TokenBinsReport
from prepcli.errors import UsageError
from prepcli.planning.cut_points import duration_bins
from prepcli.tokenizers.counting import TokenizerSpec
from tests.commands.estimate_bins.asking import token_bins
from tests.conftest import write_lines
from tests.support.tokenizer_models import corpus_texts, train_sentencepiece

TEXTS = corpus_texts()


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("bpe") / "bpe.model")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sources and targets, line by line, and a file of questions."""
    (tmp_path / "source.txt").write_text("".join(f"  {text}\n" for text in TEXTS), encoding="utf-8")
    (tmp_path / "target.txt").write_text("".join(f"{text}\r\n" for text in reversed(TEXTS)), encoding="utf-8")
    (tmp_path / "questions.txt").write_text("What is it?\nSay it again, please:\n")
    return tmp_path


def count(model: Path, text: str) -> int:
    return len(sentencepiece.SentencePieceProcessor(model_file=str(model)).encode(text))


def estimate(folder: Path, bpe: Path, cfg: str, **options: Any) -> TokenBinsReport:
    path = folder / "cfg.yaml"
    path.write_text(cfg.replace("@", f"{folder}/"))
    return token_bins(path, TokenizerSpec((str(bpe),)), **{"num_buckets": 5, **options})


PAIR = "{type: txt_pair, source_paths: '@source.txt', target_paths: '@target.txt'"


def test_pairs_by_input_by_total_and_by_both(folder: Path, bpe: Path) -> None:
    inputs = np.array([count(bpe, text) for text in TEXTS])
    outputs = inputs[::-1]
    report = estimate(folder, bpe, f"- {PAIR}}}\n", measure_total_length=False)
    assert report.bucket_duration_bins == duration_bins(inputs, 5)
    assert (report.max_tokens, report.num_examples) == (inputs.max(), len(TEXTS))
    assert (report.num_input_tokens, report.num_output_tokens) == (inputs.sum(), outputs.sum())
    tpt = outputs / inputs
    assert report.tpt_percentiles["p100"] == tpt.max()
    assert tpt.max() <= report.suggested_max_tpt < tpt.max() + 0.0011  # six standard deviations cut nothing here
    assert report.max_tpt == report.suggested_max_tpt

    total = estimate(folder, bpe, f"- {PAIR}}}\n")
    assert total.bucket_duration_bins == duration_bins(inputs + outputs, 5)
    assert total.max_tokens == (inputs + outputs).max()
    assert (total.num_input_tokens, total.num_output_tokens) == (inputs.sum(), outputs.sum())
    assert total.tpt_percentiles == report.tpt_percentiles

    both = estimate(folder, bpe, f"- {PAIR}}}\n", sub_buckets=3)
    expected = nested_bins(inputs, outputs, 5, 3, 6.0)
    assert both.bucket_duration_bins == expected.pairs
    assert isinstance(both.max_tpt, list)
    assert both.max_tpt == pytest.approx(expected.max_ratio, abs=0.001)
    assert all(limit >= ratio for limit, ratio in zip(both.max_tpt, expected.max_ratio, strict=True))
    assert len(both.padding) == 2
    assert both.padding[1] < both.padding_without_buckets[1]


def test_questions_take_turns(folder: Path, bpe: Path) -> None:
    report = estimate(folder, bpe, f"- {PAIR}, questions_path: '@questions.txt'}}\n")
    asked = ["What is it?", "Say it again, please:"] * len(TEXTS)
    expected = [count(bpe, f"{question} {text}") for question, text in zip(asked, TEXTS, strict=False)]
    assert report.num_input_tokens == sum(expected)


def test_limits(folder: Path, bpe: Path) -> None:
    inputs = np.array([count(bpe, text) for text in TEXTS])
    outputs = inputs[::-1]
    used = (inputs >= 10) & (inputs <= 30) & (outputs / inputs <= 1.5)
    limits = {"min_tokens": 10, "max_tokens": 30, "max_tpt": 1.5}
    report = estimate(folder, bpe, f"- {PAIR}}}\n", **limits, measure_total_length=False)
    assert (report.num_examples, report.num_discarded) == (used.sum(), (~used).sum())
    assert report.num_input_tokens == inputs[used].sum()
    total = inputs + outputs
    report = estimate(folder, bpe, f"- {PAIR}}}\n", min_tokens=40, max_tokens=60)
    assert report.num_examples == ((total >= 40) & (total <= 60)).sum()


def test_plain_texts_are_all_output(folder: Path, bpe: Path) -> None:
    with (folder / "source.txt").open("ab") as file:
        file.write("\nétrange \xff\n".encode("latin-1"))
    (folder / "zipped.txt.gz").write_bytes(gzip.compress(b"Added.\n\n"))
    cfg = "- {type: txt, paths: ['@source.txt', '@zipped.txt.gz']}\n"
    expected = [*(count(bpe, text) for text in TEXTS), 0, count(bpe, "Added."), 0]
    report = estimate(folder, bpe, cfg)
    assert (report.num_examples, report.num_output_tokens) == (len(expected), sum(expected))
    assert report.bucket_duration_bins == duration_bins(expected, 5)
    assert report.num_rejected == 1
    assert f"source.txt:{len(TEXTS) + 2}: the text has a lone surrogate" in str(report.first_rejected)
    for options in ({"measure_total_length": False}, {"sub_buckets": 2}):
        with pytest.raises(UsageError, match=r"plain texts .* are all output; estimate without sub_buckets and"):
            estimate(folder, bpe, cfg, **options)


def conversation(*turns: tuple[str, str | float]) -> dict[str, Any]:
    made: list[dict[str, Any]] = []
    for role, value in turns:
        if isinstance(value, str):
            made.append({"from": role, "type": "text", "value": value})
        else:
            made.append({"from": role, "type": "audio", "value": "a.wav", "duration": value})
    return {"id": "x", "conversations": made}


def test_conversations(folder: Path, bpe: Path) -> None:
    lines = [
        conversation(("User", "Added."), ("User", 1.0), ("Assistant", "Good morning.")),
        conversation(("User", 0.801), ("Assistant", 0.4)),
        conversation(
            ("User", "Added."), ("User", "Nobody."), ("Assistant", "Not today."), ("User", "Ten."), ("Assistant", "")
        ),
        conversation(("User", "Added."), ("Assistant", "x")) | {"custom": {"_skipme": True}},
        {"id": "x", "conversations": []},
        {"id": "x", "conversations": [{"from": "User", "type": "audio", "value": "a.wav"}]},
        {"id": "x", "conversations": [{"from": "User", "value": 3}]},
    ]
    write_lines(folder / "c.jsonl", lines)
    cfg = (
        "- type: group\n  token_equivalent_duration: 0.1\n  input_cfg:\n"
        "    - {type: multimodal_conversation, manifest_filepath: '@c.jsonl'}\n"
    )
    options = {"num_buckets": 2, "measure_total_length": False}
    report = estimate(folder, bpe, cfg, **options)
    inputs = [
        count(bpe, "Added.") + 10,
        9,
        count(bpe, "Added. Nobody.") + count(bpe, "Not today.") + count(bpe, "Ten."),
    ]
    assert sorted(report.inputs.tolist()) == sorted(inputs)
    assert sorted(report.outputs.tolist()) == sorted([count(bpe, "Good morning."), 4, 0])
    assert (report.num_skipped, report.num_rejected) == (1, 3)
    assert "c.jsonl:5: the field conversations is missing" in str(report.first_rejected)
    tags = cfg.replace("'@c.jsonl'", "'@c.jsonl', tags: {context: 'Listen.', system_prompt: 'You are kind.'}")
    more = estimate(folder, bpe, tags, **options)
    system, context = count(bpe, "You are kind."), count(bpe, "Listen.")
    assert sorted(more.inputs.tolist()) == sorted(
        [inputs[0] + system, inputs[1] + system + context, inputs[2] + system]
    )


def test_weights_languages_and_endless_data(folder: Path, bpe: Path) -> None:
    char = train_sentencepiece(folder / "char.model", model_type="char")
    (folder / "one.txt").write_text("Added.\n" * 5)
    (folder / "two.txt").write_text("Nobody.\n" * 400)
    cfg = (
        "- {type: txt_pair, source_paths: '@one.txt', target_paths: '@one.txt', "
        "source_language: en, target_language: de, weight: 1, force_finite: false}\n"
        "- {type: txt_pair, source_paths: '@two.txt', target_paths: '@two.txt', weight: 1, tags: {lang: de}}\n"
    ).replace("@", f"{folder}/")
    (folder / "cfg.yaml").write_text(cfg)
    spec = TokenizerSpec((str(bpe), str(char)), ("en", "de"))
    with pytest.raises(UsageError, match=r"force_finite: false.*num_examples"):
        token_bins(folder / "cfg.yaml", spec)
    report = token_bins(folder / "cfg.yaml", spec, num_examples=60, num_buckets=2)
    assert report.num_input_tokens == 30 * count(bpe, "Added.") + 30 * count(char, "Nobody.")
    assert report.num_output_tokens == 30 * count(char, "Added.") + 30 * count(char, "Nobody.")
    (folder / "cfg.yaml").write_text(cfg.replace("source_language: en", "source_language: fr"))
    report = token_bins(folder / "cfg.yaml", spec, num_examples=60, num_buckets=2)
    assert report.num_rejected == 5
    assert "one.txt:1: there is no tokenizer for the language 'fr'" in str(report.first_rejected)


def test_many_files_by_several_workers(folder: Path, bpe: Path) -> None:
    for number in range(4):
        lines = [conversation(("User", text), ("Assistant", text)) | {"pad": "x" * 1000} for text in TEXTS * 8]
        write_lines(folder / f"c_{number}.jsonl", lines)
    cfg = "- {type: multimodal_conversation, manifest_filepath: '@c__OP_0..3_CL_.jsonl'}\n"
    one, two = (estimate(folder, bpe, cfg, num_workers=n, sub_buckets=2) for n in (1, 2))
    assert one.bucket_duration_bins == two.bucket_duration_bins
    assert one.inputs.tolist() == two.inputs.tolist()
    assert one.num_examples == 4 * 8 * len(TEXTS)


@pytest.mark.parametrize(
    ("cfg", "words"),
    [
        ("- {type: txt_jsonl, manifest_filepath: x}", "has the type 'txt_jsonl'; prepcli reads nemo, "),
        ("- {type: txt}", "of type txt has no paths"),
        ("- {type: txt, paths: '@nothing.txt'}", "not found"),
        (f"- {PAIR.replace('@target', '@nothing')}}}", "not found"),
        (
            "- {type: txt_pair, source_paths: ['@source.txt', '@source.txt'], target_paths: '@target.txt'}",
            "2 source_paths and 1",
        ),
        ("- {type: txt_pair, source_paths: '@source.txt', target_paths: '@questions.txt'}", "has more lines"),
        (
            "- {type: multimodal_conversation, manifest_filepath: '@source.txt', token_equivalent_duration: 0}",
            "above 0, not 0",
        ),
        (
            "- {type: multimodal_conversation, manifest_filepath: '@source.txt'}",
            "no example that can be used .*48 unusable lines",
        ),
        ("- {type: txt, paths: '@source.txt', tags: 3}", "must be a mapping"),
    ],
)
def test_wrong_inputs(folder: Path, bpe: Path, cfg: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        estimate(folder, bpe, cfg)
    assert "\n" not in str(caught.value)


def test_more_buckets_than_examples(folder: Path, bpe: Path) -> None:
    with pytest.raises(UsageError, match="100 buckets need at least as many examples"):
        estimate(folder, bpe, f"- {PAIR}}}\n", num_buckets=100)
    assert json.dumps(estimate(folder, bpe, f"- {PAIR}}}\n", num_buckets=100, sub_buckets=1).bucket_duration_bins)
