import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from prepcli.tokenizers.counting import TokenizerSpec
from tests.commands.estimate_bins.asking import bins_2d
from tests.conftest import write_lines
from tests.support.running import prepcli, prepcli_without
from tests.support.tokenizer_models import corpus_texts, train_hf, train_sentencepiece


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("bpe") / "tokenizer.model")


@pytest.fixture
def manifest(awkward: Path) -> Path:
    durations = np.random.default_rng(0).lognormal(1.3, 0.5, 480).round(3)
    lines: list[dict[str, Any]] = [
        {"audio_filepath": f"{i}.wav", "duration": float(duration), "text": text, "lang": "en"}
        for i, (duration, text) in enumerate(zip(durations, corpus_texts() * 10, strict=True))
    ]
    return write_lines(awkward / "m.json", lines)


def pasted(manifest: Path, bpe: Path, **options: Any) -> tuple[str, str]:
    report = bins_2d(manifest, TokenizerSpec((str(bpe),)), **options)
    pairs = ",".join(f"[{size:.3f},{limit}]" for size, limit in report.bucket_duration_bins)
    return f"[{pairs}]", ",".join(f"{ratio:.2f}" for ratio in report.max_tps)


def test_the_lines_to_paste(manifest: Path, bpe: Path) -> None:
    done = prepcli("estimate-bins-2d", manifest, "-t", bpe, "-b", 6, "-s", 3)
    assert (done.code, done.err) == (0, "")
    bins, max_tps = pasted(manifest, bpe, num_buckets=6, sub_buckets=3)
    lines = done.out.splitlines()
    assert lines[:4] == [
        "Used 480 examples for the estimation.",
        "Use the following options in your config:",
        "\tnum_buckets=6",
        f"\tbucket_duration_bins={bins}",
    ]
    assert re.fullmatch(r"\tmax_duration=[\d.]+", lines[4])
    assert lines[5] == f"\tmax_tps=[{max_tps}]"
    assert re.search(r"^Padding in batches of 360 s: \d+\.\d% of seconds and \d+\.\d% of tokens with", done.out, re.M)
    table = [line.split() for line in lines if re.match(r" +\d+ ", line)]
    assert [int(row[0]) for row in table] == list(range(len(table)))
    assert len(table) == bins.count("],[") + 1


def test_quiet_is_the_bins_and_nothing_else(manifest: Path, bpe: Path) -> None:
    done = prepcli("estimate-bins-2d", "-t", bpe, manifest, "--quiet", "--num-workers", 2)
    assert (done.code, done.out, done.err) == (0, pasted(manifest, bpe)[0] + "\n", "")


def test_json_is_one_object_with_the_same_numbers(manifest: Path, bpe: Path) -> None:
    document = prepcli("estimate-bins-2d", manifest, "-t", bpe, "-b", 6, "--json").json
    report = bins_2d(manifest, TokenizerSpec((str(bpe),)), num_buckets=6)
    assert document["bucket_duration_bins"] == [list(pair) for pair in report.bucket_duration_bins]
    assert document["max_tps"] == report.max_tps
    assert document["padding"] == {"seconds": report.padding.seconds, "tokens": report.padding.tokens}
    assert (document["num_examples"], document["num_tokens"]) == (480, report.num_tokens)
    assert not {"durations", "tokens"} & set(document)


def test_several_tokenizers_in_a_row_and_unknown_languages(manifest: Path, bpe: Path) -> None:
    hf = train_hf(manifest.parent / "tokenizer.json")
    with manifest.open("a") as file:
        file.write('{"audio_filepath": "x", "duration": 2, "text": "x", "lang": "fr"}\n')
    done = prepcli("estimate-bins-2d", manifest, "-t", bpe, hf, "-a", "en", "de", "-b", 6)
    assert done.code == 0
    assert "Note: 1 line cannot be used; the first is" in done.out
    assert "m.json:481: there is no tokenizer for the language 'fr', only for en, de" in done.out
    done = prepcli("estimate-bins-2d", manifest, "-t", bpe, hf, "-a", "en", "de", "-q", "--max-rejects", 0)
    assert done.code == 3
    assert done.out.startswith("[[")


def test_the_config(manifest: Path, bpe: Path) -> None:
    config = manifest.parent / "config.yaml"
    config.write_text("model:\n  train_ds: {batch_duration: 360, bucket_batch_size: [1]}\n")
    done = prepcli("estimate-bins-2d", manifest, "-t", bpe, "-b", 4, "-l", 1, "-q", "--write-config", config)
    assert done.code == 0
    assert "took bucket_batch_size out of model.train_ds" in done.err
    found = yaml.safe_load(config.read_text())["model"]["train_ds"]
    report = prepcli("estimate-bins-2d", manifest, "-t", bpe, "-b", 4, "-l", 1, "--json").json
    for name in ("num_buckets", "bucket_duration_bins", "max_duration", "max_tps"):
        assert found[name] == report[name]
    assert (found["use_bucketing"], found["batch_duration"], found["min_duration"]) == (True, 360, 1.0)
    assert prepcli("estimate-bins", manifest, "-b", 4, "-q", "--write-config", config).code == 0
    found = yaml.safe_load(config.read_text())["model"]["train_ds"]
    report = prepcli("estimate-bins", manifest, "-b", 4, "-l", 1, "--json").json  # the limit that the file has
    assert found["bucket_duration_bins"] == report["bucket_duration_bins"]
    assert "max_tps" not in found  # it was for the bins that are no longer there


@pytest.mark.slow
def test_the_plot(manifest: Path, bpe: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = manifest.parent / "bins.png"
    done = prepcli("estimate-bins-2d", manifest, "-t", bpe, "-b", 5, "-s", 2, "--plot", picture, "-q")
    assert (done.code, done.err) == (0, "")
    import matplotlib.image

    pixels = matplotlib.image.imread(picture)[..., :3]
    red = (pixels[..., 0] > 0.7) & (pixels[..., 1] < 0.5) & (pixels[..., 2] < 0.5)
    # Each bucket is a box from the bottom on: the sides of five, and their lids.
    sides = red.sum(axis=0) > pixels.shape[0] // 8
    assert np.count_nonzero(sides[1:] & ~sides[:-1]) >= 5
    assert np.count_nonzero(red) > 1000
    yellow_to_violet = (pixels.max(axis=2) - pixels.min(axis=2) > 0.15) & ~red
    assert np.count_nonzero(yellow_to_violet) > 1000  # the heat map


def test_the_plot_ends_before_what_lies_far_out() -> None:
    pytest.importorskip("matplotlib")
    from prepcli.commands.estimate_bins.plots import draw_nested
    from prepcli.interface.plotting import new_figure

    sizes, tokens = np.linspace(1, 10, 1000), np.linspace(0, 50, 1000)
    for far, right, words in ((10.5, 10.5, ""), (100.0, 11.9, "1 examples outside the plot")):
        figure = new_figure()
        axes = figure.add_subplot()
        draw_nested(figure, axes, np.append(sizes, far), np.append(tokens, 50), [(5.0, 30), (far, 50)])
        assert axes.get_xlim()[1] == pytest.approx(right * 1.01, rel=0.01)
        assert axes.get_legend().get_title().get_text() == words


def test_neither_torch_nor_lhotse_nor_nemo_is_imported(manifest: Path, bpe: Path) -> None:
    heavy = ("torch", "lhotse", "nemo", "matplotlib", "soundfile", "yaml", "tokenizers")
    done = prepcli_without(heavy, "estimate-bins-2d", manifest, "-t", bpe, "-q")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("[[")
