import re
from pathlib import Path

import pytest
import yaml

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


def test_wrong_use(cfg: Path, bpe: Path) -> None:
    (cfg.parent / "bad.yaml").write_text("- {type: nemo, manifest_filepath: x}\n")
    for arguments, words in (
        ([cfg.parent / "bad.yaml", "-t", bpe], "prepcli reads txt"),
        ([cfg, "-t", cfg], "is not a SentencePiece model"),
        ([cfg, "-t", bpe, "--batch-tokens", "0"], "batch tokens must be above 0"),
        ([cfg.parent / "none.yaml", "-t", bpe], "input_cfg not found"),
    ):
        done = prepcli("estimate-token-bins", *arguments)
        assert (done.code, done.out) == (2, "")
        assert words in done.error_line
