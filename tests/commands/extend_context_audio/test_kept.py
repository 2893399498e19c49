"""Another threshold embeds nothing again; what the summary and the picture say about thresholds."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli.commands.extend_context_audio.kept import FOLDER
from tests.commands.extend_context_audio.toy_speakers import ToyEncoder, use_toy_encoder
from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.running import Outcome, prepcli
from tests.support.tools import without

PACKAGE = "prepcli.commands.extend_context_audio"
pytestmark = [without("torch"), pytest.mark.usefixtures("one_thread")]

COUNT = 24
AUDIO = ("--audio-base-dir", MINI_CORPUS)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> ToyEncoder:
    return use_toy_encoder(monkeypatch)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "m.json", read_lines(MINI_CORPUS / "manifest.json")[:COUNT])


def extend(manifest: Path, out: Path, *options: object) -> Outcome:
    done = prepcli("extend-context-audio", manifest, out, "--max-rejects", 1000, "--devices", "cpu", *options)
    assert done.code == 0, done.err
    return done


def lines(out: Path) -> list[dict[str, Any]]:
    return read_lines(next(out.glob("*.json")))


def middle(out: Path) -> float:
    """A threshold that half of the records do not reach."""
    found: list[float] = sorted(line["context_speaker_similarity"] for line in lines(out))
    return round((found[len(found) // 2 - 1] + found[len(found) // 2]) / 2, 6)


@pytest.mark.slow
def test_another_threshold_embeds_nothing_again(tmp_path: Path, manifest: Path, encoder: ToyEncoder) -> None:
    out, plain = tmp_path / "out", tmp_path / "plain"
    extend(manifest, out, *AUDIO, "--context-min-ssim", -1)
    assert encoder.num_embedded == COUNT
    every, threshold = lines(out), middle(out)
    refused = prepcli("extend-context-audio", manifest, out, *AUDIO, "--context-min-ssim", threshold)
    assert refused.code == 2
    assert f"--context-min-ssim was -1.0, now {threshold}" in refused.error_line
    assert "give --overwrite to start again (embeddings of the same model and audio are used again" in refused.err
    done = extend(manifest, out, *AUDIO, "--context-min-ssim", threshold, "--overwrite", "--json")
    assert encoder.num_embedded == COUNT
    assert done.json["details"]["embeddings_reused"] == f"{COUNT} of {COUNT}"
    assert lines(out) == [line for line in every if line["context_speaker_similarity"] >= threshold]
    extend(manifest, plain, *AUDIO, "--context-min-ssim", threshold)
    assert tree(plain) == tree(out)
    assert encoder.num_embedded == 2 * COUNT


@pytest.mark.slow
def test_the_embeddings_of_another_run_are_used(tmp_path: Path, manifest: Path, encoder: ToyEncoder) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    extend(manifest, first, *AUDIO, "--context-min-ssim", -1)
    extend(manifest, second, *AUDIO, "--context-min-ssim", 0.1, "--reuse-embeddings", first, "--save-embeddings")
    assert encoder.num_embedded == COUNT
    shutil.rmtree(tmp_path / "first.prepcli")  # the second run has its own copy
    extend(manifest, third, *AUDIO, "--context-min-ssim", 0.1, "--reuse-embeddings", second, "--save-embeddings")
    assert encoder.num_embedded == COUNT
    assert tree(third) == tree(second)


def test_no_model_is_loaded_if_there_is_nothing_to_embed(
    tmp_path: Path, manifest: Path, encoder: ToyEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for another threshold nor for another output; loading NeMo's takes ten seconds."""
    out = tmp_path / "out"
    extend(manifest, out, *AUDIO, "--context-min-ssim", 0.1)
    before = tree(out)
    monkeypatch.setattr("prepcli.jobs.embedding.load_speaker_encoder", lambda name: pytest.fail("it was loaded"))
    done = extend(manifest, out, *AUDIO, "--context-min-ssim", -1, "--overwrite", "--json")
    assert done.json["details"]["embeddings_reused"] == f"{COUNT} of {COUNT}"
    extend(manifest, tmp_path / "other", *AUDIO, "--context-min-ssim", 0.1, "--reuse-embeddings", out)
    assert tree(tmp_path / "other") == before


@pytest.mark.slow
def test_only_what_is_not_there_or_was_changed_is_embedded(tmp_path: Path, manifest: Path, encoder: ToyEncoder) -> None:
    records = read_lines(manifest)
    for record in records:
        target = tmp_path / "audio" / record["audio_filepath"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(MINI_CORPUS / record["audio_filepath"], target)
    names = [tmp_path / "audio" / record["audio_filepath"] for record in records]
    names[3].unlink()
    options = ("--audio-base-dir", tmp_path / "audio", "--context-min-ssim", -1)
    out = tmp_path / "out"
    extend(manifest, out, *options)
    assert encoder.num_embedded == COUNT
    shutil.copy(names[4], names[3])  # mended
    shutil.copy(names[6], names[0])  # replaced
    extend(manifest, out, *options, "--overwrite")
    assert encoder.num_embedded == COUNT + 2
    extend(manifest, tmp_path / "plain", *options)
    assert tree(out) == tree(tmp_path / "plain")
    os.utime(names[7])  # written to, for all that is known
    extend(manifest, out, *options, "--overwrite")
    assert encoder.num_embedded == 2 * COUNT + 3


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "gone"])
def test_damaged_embeddings_are_computed_again(
    tmp_path: Path, manifest: Path, encoder: ToyEncoder, damage: str
) -> None:
    out = tmp_path / "out"
    extend(manifest, out, *AUDIO)
    before = tree(out)
    kept = sorted((tmp_path / "out.prepcli" / FOLDER).glob("*/*.npy"))
    data = kept[0].read_bytes()
    num_rows = len(np.load(kept[0]))
    if damage == "gone":
        kept[0].unlink()
    else:
        kept[0].write_bytes({"cut": data[:-9], "empty": b"", "noise": b"x" * len(data)}[damage])
    extend(manifest, out, *AUDIO, "--overwrite")
    assert encoder.num_embedded == COUNT + num_rows
    assert tree(out) == before


@pytest.mark.slow
def test_embeddings_of_something_else_are_not_used(
    tmp_path: Path, manifest: Path, encoder: ToyEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    extend(manifest, out, *AUDIO)
    options = [manifest, tmp_path / "new", *AUDIO, "--reuse-embeddings"]
    nothing = prepcli("extend-context-audio", *options, tmp_path / "none")
    assert nothing.code == 2
    assert f"there are no embeddings in {tmp_path}/none.prepcli/embeddings" in nothing.error_line
    other = use_toy_encoder(monkeypatch, "another toy")
    refused = prepcli("extend-context-audio", *options, out)
    assert refused.code == 2
    assert "its embeddings are of another --speaker-model, another --audio-base-dir" in refused.error_line
    assert not (tmp_path / "new.prepcli").exists()
    extend(manifest, out, *AUDIO, "--overwrite")
    assert other.num_embedded == COUNT


@pytest.mark.slow
def test_the_summary_says_what_other_thresholds_keep(tmp_path: Path, manifest: Path, encoder: ToyEncoder) -> None:
    extend(manifest, tmp_path / "all", *AUDIO, "--context-min-ssim", -1)
    found = np.array([line["context_speaker_similarity"] for line in lines(tmp_path / "all")])
    threshold = middle(tmp_path / "all")
    report = extend(manifest, tmp_path / "out", *AUDIO, "--context-min-ssim", threshold, "--json").json
    expected = [f"{(found >= limit).sum()} at {limit:g}" for limit in sorted([0.5, 0.6, 0.7, 0.8, threshold])]
    assert report["details"]["kept_by_min_ssim"] == ", ".join(expected)
    assert report["records_out"] == (found >= threshold).sum() == COUNT // 2
    every = report["details"]["similarity_histogram_of_all"]
    assert every["counts"] == np.histogram(found, every["edges"])[0].tolist()
    assert sum(every["counts"]) == COUNT
    assert sum(report["details"]["similarity_histogram"]["counts"]) == COUNT // 2


@pytest.mark.slow
def test_the_picture_shows_the_threshold_and_what_it_leaves_out(
    tmp_path: Path, manifest: Path, encoder: ToyEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    drawn: list[Any] = []
    monkeypatch.setattr(f"{PACKAGE}.job.save_figure", lambda figure, path: drawn.append(figure))
    extend(manifest, tmp_path / "all", *AUDIO, "--context-min-ssim", -1)
    threshold = middle(tmp_path / "all")
    options = ("--context-min-ssim", threshold, "--plot", "picture.png")
    done = extend(manifest, tmp_path / "out", *AUDIO, *options)
    assert re.search(rf"^  plot +{re.escape(os.path.abspath('picture.png'))}$", done.out, re.MULTILINE)
    (figure,) = drawn
    similarity, duration = figure.axes
    left_out, kept = (patch.get_data() for patch in similarity.patches)
    assert (sum(left_out.values), sum(kept.values)) == (COUNT, COUNT // 2)  # the kept ones are drawn over all
    (line,) = similarity.lines
    assert set(line.get_xdata()) == {threshold}
    assert [text.get_text() for text in similarity.get_legend().texts] == [
        "left out",
        "kept",
        f"--context-min-ssim {threshold:g}",
    ]
    assert set(duration.lines[0].get_xdata()) == {3.0}
