import math
import re
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import yaml

from prepcli.planning.cut_points import duration_bins
from tests.conftest import write_lines
from tests.support.running import prepcli
from tests.support.tokenizer_models import corpus_texts, train_sentencepiece


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("bpe") / "tokenizer.model")


@pytest.fixture
def cfg(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in corpus_texts()))
    (tmp_path / "b.txt").write_text("".join(f"{text}\n" for text in reversed(corpus_texts())))
    (tmp_path / "cfg.yaml").write_text(
        f"- {{type: txt_pair, source_paths: {tmp_path}/a.txt, target_paths: {tmp_path}/b.txt}}\n"
    )
    return tmp_path / "cfg.yaml"


def test_the_lines_to_paste(cfg: Path, bpe: Path) -> None:
    done = prepcli("estimate-token-bins", cfg, "-t", bpe, "-b", 4)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        "Used 48 examples for the estimation.\nUse the following options in your config:\n\tnum_buckets=4\n"
    )
    assert re.search(r"^\tbucket_duration_bins=\[\d+,\d+,\d+\]\n\tmax_tokens=\d+\n\tmax_tpt=[\d.]+$", done.out, re.M)
    assert re.search(r"^Suggestion for one limit: max_tpt=[\d.]+, which leaves out 0 of 48", done.out, re.M)
    assert re.search(r"^output tokens per input token at percentiles: p0 ", done.out, re.M)
    two = prepcli("estimate-token-bins", cfg, "-t", bpe, "-b", 4, "-s", 2)
    assert re.search(r"^\tbucket_duration_bins=\[(\[\d+,\d+\],?)+\]\n\tmax_tokens=\d+\n\tmax_tpt=\[", two.out, re.M)


def test_quiet_and_json_and_config(cfg: Path, bpe: Path) -> None:
    document = prepcli("estimate-token-bins", cfg, "-t", bpe, "-b", 4, "-s", 2, "-u", 30, "--json").json
    config = cfg.parent / "train.yaml"
    done = prepcli("estimate-token-bins", cfg, "-t", bpe, "-b", 4, "-s", 2, "-u", 30, "-q", "--write-config", config)
    assert done.out.replace(" ", "").strip() == str(document["bucket_duration_bins"]).replace(" ", "")
    found = yaml.safe_load(config.read_text())
    for name in ("num_buckets", "bucket_duration_bins", "max_tokens", "max_tpt", "measure_total_length"):
        assert found[name] == document[name]
    assert (found["use_multimodal_sampling"], found["token_equivalent_duration"]) == (True, 0.08)
    assert not {"inputs", "outputs"} & set(document)
    assert 0 < document["num_discarded"] < 48


@pytest.mark.parametrize("sub", [[], ["-s", "2"]])
def test_the_plot(cfg: Path, bpe: Path, sub: list[str]) -> None:
    pytest.importorskip("matplotlib")
    picture = cfg.parent / "bins.png"
    assert prepcli("estimate-token-bins", cfg, "-t", bpe, "-b", 4, *sub, "--plot", picture).code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A manifest, conversations with 22.1 seconds of audio each, and lines of text."""
    records = [{"audio_filepath": "a.wav", "duration": 1.0 + n, "text": "a text"} for n in range(9)]
    write_lines(tmp_path / "m.json", [*records, {"audio_filepath": "b.wav", "duration": 10.0}])
    spoken = {"from": "User", "type": "audio", "value": "a.wav", "duration": 22.1}
    said = {"from": "Assistant", "type": "text", "value": ""}
    write_lines(tmp_path / "c.jsonl", [{"id": str(n), "conversations": [spoken, said]} for n in range(3)])
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in corpus_texts()))
    return tmp_path


def found(bpe: Path, folder: Path, cfg: str, *options: object) -> dict[str, Any]:
    (folder / "cfg.yaml").write_text(cfg.replace("@", f"{folder}/"))
    done = prepcli("estimate-token-bins", folder / "cfg.yaml", "-t", bpe, "-b", 2, *options, "--json")
    assert done.code == 0, done.err
    return done.json


TALKS = "{type: multimodal_conversation, manifest_filepath: @c.jsonl}"
AUDIO = "{type: nemo, manifest_filepath: @m.json}"


def test_keys_of_the_training_config(folder: Path, bpe: Path) -> None:
    """Beside `input_cfg`, as in NeMo's own example, and in the section of a whole config."""
    assert found(bpe, folder, f"- {TALKS}\n")["max_tokens"] == 277
    cfg = f"token_equivalent_duration: 0.8\nmax_tps: 25\nshuffle: true\ninput_cfg: [{TALKS}]\n"
    document = found(bpe, folder, cfg)
    assert (document["max_tokens"], document["token_equivalent_duration"]) == (28, 0.8)
    assert document["notes"][0] == f"{folder}/cfg.yaml has keys that are not used here: max_tps"
    assert found(bpe, folder, cfg, "--token-equivalent-duration", 0.4)["max_tokens"] == 56
    of_entry = cfg.replace(".jsonl}", ".jsonl, token_equivalent_duration: 0.2}")
    assert found(bpe, folder, of_entry, "--token-equivalent-duration", 0.4)["max_tokens"] == 111
    whole = f"model:\n  train_ds:\n    token_equivalent_duration: 8e-1\n    max_duration: 5\n    input_cfg: [{AUDIO}]\n"
    for more, tokens in ((), 7), (("--token-equivalent-duration", 0.4), 13):
        document = found(bpe, folder, whole, "--no-measure-total-length", *more)
        assert (document["num_examples"], document["num_discarded"], document["max_tokens"]) == (5, 5, tokens)
    record: dict[str, Any] = {"audio_filepath": "a.wav", "duration": 8.0, "text": "x", "said": "a longer text"}
    write_lines(folder / "m.json", [record, record])
    encode = sentencepiece.SentencePieceProcessor(model_file=str(bpe)).encode
    document = found(bpe, folder, f"text_field: said\ninput_cfg: [{AUDIO}]\n")
    assert document["num_output_tokens"] == 2 * len(encode(record["said"]))
    for field in ("said", "text"):
        tokens = len(encode(record[field]))
        arguments = ["-t", bpe, "-b", 1, "-s", 1, "--text-field", field, "--json"]
        assert prepcli("estimate-bins-2d", folder / "cfg.yaml", *arguments).json["num_tokens"] == 2 * tokens
    limits = "min_tokens: 8\nmeasure_total_length: false\nmax_tpt: [1.0, 2.0]\n"
    document = found(
        bpe, folder, f"{limits}input_cfg: [{{type: txt_pair, source_paths: @a.txt, target_paths: @a.txt}}]"
    )
    assert document["num_discarded"] > 0
    assert (document["measure_total_length"], document["input_percentiles"]["p0"]) == (False, 9)
    assert not [note for note in document["notes"] if "not used" in note]


def test_audio_among_texts_counts_as_tokens(folder: Path, bpe: Path) -> None:
    """The length is that of the audio in tokens and, in total, of its text; a record without a text has its audio."""
    text = len(sentencepiece.SentencePieceProcessor(model_file=str(bpe)).encode("a text"))
    mix = f"- {AUDIO}\n- {{type: txt, paths: @a.txt}}\n"
    document = found(bpe, folder, mix, "--no-measure-total-length", "--token-equivalent-duration", 0.5)
    assert (document["num_examples"], document["num_input_tokens"]) == (10 + 48, 2 * sum(range(1, 11)))
    assert document["num_output_tokens"] - 9 * text == sum(counts(bpe, folder / "a.txt"))
    alone = found(bpe, folder, f"- {AUDIO}\n", "-u", 5)  # as NeMo: limits of tokens are for texts
    assert alone["num_examples"] == 10
    assert alone["max_tokens"] == max(math.ceil(9 / 0.08) + text, math.ceil(10 / 0.08))
    both = found(bpe, folder, f"- {AUDIO}\n", "-s", 2, "--max-rejects", 1)
    assert (both["num_examples"], both["num_rejected"]) == (9, 1)
    done = prepcli("estimate-bins", folder / "cfg.yaml", "-b", 2, "--json")
    assert done.json["num_examples"] == 10
    (folder / "cfg.yaml").write_text(
        mix.replace("@", f"{folder}/") + "- {type: share_gpt, manifest_filepath: no.json}\n"
    )
    done = prepcli("estimate-bins", folder / "cfg.yaml", "-b", 2, "--json")
    assert (done.json["num_examples"], done.json["max_duration"]) == (10, 10.0)
    assert done.json["notes"][0] == "entries without audio are left out: 1 txt, 1 share_gpt"
    two = prepcli("estimate-bins-2d", folder / "cfg.yaml", "-t", bpe, "-b", 2, "--json", "--max-rejects", 1)
    assert (two.json["num_examples"], two.json["notes"][0]) == (9, done.json["notes"][0])
    (folder / "cfg.yaml").write_text("- {type: txt, paths: no.txt}\n")
    done = prepcli("estimate-bins", folder / "cfg.yaml")
    assert "has no entry with audio, only txt; prepcli estimate-token-bins reads texts" in done.error_line


def counts(bpe: Path, texts: Path) -> list[int]:
    encode = sentencepiece.SentencePieceProcessor(model_file=str(bpe)).encode
    return [len(encode(line)) for line in texts.read_text().splitlines(keepends=True)]


def test_plain_texts_are_measured_whole(folder: Path, bpe: Path) -> None:
    document = found(bpe, folder, "- {type: txt, paths: @a.txt, language: en}\n")
    assert document["bucket_duration_bins"] == duration_bins(counts(bpe, folder / "a.txt"), 2)
    assert (document["measure_total_length"], document["max_tokens"]) == (True, max(counts(bpe, folder / "a.txt")))


def test_pairs_by_the_names_of_nemos_documentation(folder: Path, bpe: Path) -> None:
    plural = found(bpe, folder, "- {type: txt_pair, source_paths: @a.txt, target_paths: @a.txt}\n")
    singular = found(bpe, folder, "- {type: txt_pair, source_path: @a.txt, target_path: @a.txt}\n")
    assert [name for name in plural if plural[name] != singular[name]] == ["notes"]
    assert "has source_path, which is read as source_paths; NeMo 3.0 reads only source_paths" in singular["notes"][0]


def test_wrong_use(cfg: Path, bpe: Path) -> None:
    (cfg.parent / "bad.yaml").write_text("- {type: txt_jsonl, manifest_filepath: x}\n")
    for arguments, words in (
        ([cfg.parent / "bad.yaml", "-t", bpe], "prepcli reads nemo"),
        ([cfg, "-t", cfg], "is not a SentencePiece model"),
        ([cfg, "-t", bpe, "--batch-tokens", "0"], "--batch-tokens must be above 0, not 0.0"),
        ([cfg.parent / "none.yaml", "-t", bpe], "input_cfg not found"),
    ):
        done = prepcli("estimate-token-bins", *arguments)
        assert (done.code, done.out) == (2, "")
        assert words in done.error_line
