"""Parquet files as inputs: the durations of their column, or of the audio in them."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml

from tests.conftest import SHORT_CORPUS, read_lines, tree
from tests.support.running import prepcli
from tests.support.tokenizer_models import train_sentencepiece

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

MANIFEST = SHORT_CORPUS / "manifest.json"


def wav(num_samples: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(num_samples, np.int16), 8000, format="WAV")
    return file.getvalue()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What manifest-to-parquet writes."""
    out = tmp_path_factory.mktemp("sets") / "parquet"
    assert prepcli("manifest-to-parquet", MANIFEST, out, "--shard-size", 20).code == 0
    return out


def write_table(path: Path, **columns: list[Any]) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


def estimated(*arguments: object) -> dict[str, Any]:
    done = prepcli("estimate-bins", *arguments, "-b", 2, "--json")
    assert done.code == 0, done.err
    return done.json


def test_a_set_of_ours(ours: Path, tmp_path: Path) -> None:
    """As a folder, as files, and in an `input_cfg`: the same bins as from the manifest."""
    files = sorted(map(str, ours.iterdir()))
    cfg = tmp_path / "cfg.yaml"
    cfg.write_text(yaml.safe_dump([{"type": "parquet", "manifest_filepath": files}]))
    expected = estimated(MANIFEST)
    for spec in (ours, ",".join(files), f"{ours}/data-{{000000..000002}}.parquet", cfg):
        assert estimated(spec) == expected
    model = train_sentencepiece(tmp_path / "bpe.model")
    two = [prepcli("estimate-bins-2d", spec, "-t", model, "-b", 3, "--json").json for spec in (MANIFEST, cfg)]
    assert two[0] == two[1]
    assert two[0]["num_tokens"] > 0
    tokens = [prepcli("estimate-token-bins", spec, "-t", model, "-b", 3, "--json").json for spec in (MANIFEST, cfg)]
    assert tokens[0] == tokens[1]
    done = prepcli("inspect", cfg)
    assert "names Parquet files; inspect them one by one: prepcli inspect " in done.error_line


@pytest.mark.parametrize("is_struct", [True, False])
def test_audio_without_durations_is_measured(is_struct: bool, tmp_path: Path) -> None:
    """As NeMo measures it, by the header; what cannot be read is a reject, with its row."""
    lengths = [8001, 12345, 4000, 777, 16000]
    audio: list[Any] = [*map(wav, lengths), b"no audio", None]
    values = [{"bytes": one, "path": "x.wav"} for one in audio] if is_struct else audio
    path = write_table(tmp_path / "train-00000-of-00001.parquet", sound=values, sentence=["a"] * 7, offset=["?"] * 7)
    entry = {"type": "parquet", "manifest_filepath": str(path), "audio_field": "sound", "text_field": "sentence"}
    (tmp_path / "cfg.yaml").write_text(yaml.safe_dump([entry]))
    document = estimated(tmp_path / "cfg.yaml", "--max-rejects", 2)
    assert document["hours"] == pytest.approx(sum(lengths) / 8000 / 3600)
    assert document["max_duration"] == 2.0
    assert (document["num_rejected"], document["first_rejected"]) == (2, f"{path}:6: there is no duration")


def test_bad_durations_are_rejects(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet", duration=[1.0, 2.0, -3.0, None], _skipme=[True] * 4)
    document = estimated(path, "--max-rejects", 2)
    assert (document["num_examples"], document["num_rejected"], document["num_skipped"]) == (2, 2, 0)
    assert document["first_rejected"] == f"{path}:3: duration is -3.0; it must be a number of seconds above 0"


def test_what_is_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no table")
    (tmp_path / "cut.parquet").write_bytes(write_table(tmp_path / "a.parquet", duration=[1.0]).read_bytes()[:-9])
    write_table(tmp_path / "b.parquet", length=[1.0])
    for value, words in (
        ("text.parquet", "text.parquet is not a Parquet file"),
        ("cut.parquet", "cut.parquet cannot be read as Parquet: "),
        (
            "b.parquet",
            "no column duration with durations, and no column audio with audio to measure (its columns are length)",
        ),
        ("none.parquet", "Parquet file not found: none.parquet"),
        ("data-{0..1}.parquet", "NeMo expands no patterns of an entry of type parquet: list the files"),
        ("[3]", "must be a file or a list of files, not [3]"),
    ):
        (tmp_path / "cfg.yaml").write_text(
            f"- {{type: parquet, manifest_filepath: {value if value[0] == '[' else repr(value)}}}"
        )
        done = prepcli("estimate-bins", "cfg.yaml", "-b", 2, cwd=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert words in done.error_line


@pytest.mark.slow
def test_blend(ours: Path, tmp_path: Path) -> None:
    """A folder, a file, and an entry of an `input_cfg`."""
    files = sorted(map(str, ours.iterdir()))
    table = write_table(tmp_path / "hf.parquet", audio=[wav(8000 * 360)] * 10)
    (tmp_path / "cfg.yaml").write_text(yaml.safe_dump([{"type": "parquet", "manifest_filepath": files[:2]}]))
    before = tree(tmp_path)
    done = prepcli("blend", f"a={ours}", "b=hf.parquet", "c=cfg.yaml", "mix.yaml", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert [(one["records"], one["type"]) for one in done.json["sets"]] == [
        (48, "parquet"),
        (10, "parquet"),
        (32, "parquet"),
    ]
    assert done.json["sets"][1]["hours"] == 1
    a, b, c = yaml.safe_load((tmp_path / "mix.yaml").read_text())
    assert a["manifest_filepath"] == files
    assert b == {"type": "parquet", "manifest_filepath": str(table), "weight": b["weight"]}
    assert c["input_cfg"][0]["manifest_filepath"] == files[:2]
    assert set(tree(tmp_path)) - set(before) == {"mix.yaml"}
    assert done.json["records"] == 90
    assert prepcli("estimate-bins", tmp_path / "mix.yaml", "-b", 3, "--json").json["num_examples"] == 90


@pytest.mark.slow
@pytest.mark.nemo
def test_the_durations_of_nemo(tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.asr")
    from nemo.collections.common.data.lhotse.cutset import read_cutset_from_config
    from omegaconf import OmegaConf

    audio = [{"bytes": (SHORT_CORPUS / one["audio_filepath"]).read_bytes(), "path": ""} for one in read_lines(MANIFEST)]
    path = write_table(tmp_path / "hf.parquet", audio=audio)
    entry = {"type": "parquet", "manifest_filepath": str(path)}
    (tmp_path / "cfg.yaml").write_text(yaml.safe_dump([entry]))
    config = {"input_cfg": [entry], "force_finite": True, "shuffle": False, "shard_seed": 0, "seed": 0}
    durations = [cut.duration for cut in read_cutset_from_config(OmegaConf.create(config))[0]]
    from prepcli.commands.estimate_bins.command import estimate_bins

    assert estimate_bins(tmp_path / "cfg.yaml", num_buckets=5).durations.tolist() == sorted(durations)
