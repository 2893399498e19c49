"""`inspect --record N`: the right line and its audio, with indexes by a seek, without them all the same."""

import os
from pathlib import Path
from typing import Any

import pytest
import soundfile
import yaml

from prepcli.formats import indexes
from tests.conftest import SHORT_CORPUS, copy_set, make_set, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli

PLAIN, CONTEXT = SHORT_CORPUS / "manifest.json", SHORT_CORPUS / "manifest_with_context.json"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    make_set("manifest-to-tarred", PLAIN, folder / "tarred", "--num-shards", 3)
    make_set("manifest-to-shar", CONTEXT, folder / "shar", "--shard-size", 20, "--indexed", "--audio-format", "wav")
    return folder


def record(path: object, number: int) -> dict[str, Any]:
    done = prepcli("inspect", path, "--record", number, "--json")
    assert done.code == 0, done.err
    return done.json


def without_indexes(folder: Path) -> None:
    for path in folder.rglob("*.idx"):
        path.unlink()


@pytest.mark.parametrize("number", [0, 15, 16, 47])
@pytest.mark.parametrize("indexed", [True, False])
def test_in_a_tarred_set(
    sets: Path, tmp_path: Path, number: int, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = copy_set(sets / "tarred", tmp_path)
    if indexed:
        monkeypatch.setattr(indexes, "line_offsets", None)  # whatever would read the data
        monkeypatch.setattr(indexes, "walk_tar", None)
    else:
        without_indexes(out)
    source = read_lines(PLAIN)[number]
    found = record(out, number)
    assert (found["number"], found["line"]) == (number, number % 16 + 1)
    assert found["file"].endswith(f"manifest_{number // 16}.json")
    assert found["fields"]["text"] == source["text"]
    (audio,) = found["audio"]
    assert audio["name"] == found["fields"]["audio_filepath"]
    info = soundfile.info(SHORT_CORPUS / source["audio_filepath"])
    assert f"flac PCM_16, {info.samplerate} Hz, {info.duration:.3f} s" in audio["description"]


@pytest.mark.parametrize("indexed", [True, False])
def test_in_a_shar_set(sets: Path, tmp_path: Path, indexed: bool) -> None:
    out = sets / "shar" if indexed else copy_set(sets / "shar", tmp_path)
    if not indexed:
        without_indexes(out)
    source = read_lines(CONTEXT)[30]
    found = record(out, 30)
    assert found["fields"]["supervisions"][0]["text"] == source["text"]
    by_field = {Path(audio["where"]).parent.name: audio for audio in found["audio"]}
    assert set(by_field) == {"target_audio", "context_audio"}
    for audio in by_field.values():
        assert audio["name"] == found["fields"]["id"] + ".wav"
    assert f"{source['context_audio_duration']:.3f} s" in by_field["context_audio"]["description"]


def test_in_a_manifest_and_a_mix(sets: Path, tmp_path: Path) -> None:
    source = read_lines(PLAIN)[7]
    found = record(PLAIN, 7)
    assert found["fields"] == source
    assert found["audio"][0]["where"] == str(SHORT_CORPUS / source["audio_filepath"])
    config = tmp_path / "mix.yaml"
    entries = [{"type": "nemo", "manifest_filepath": str(PLAIN), "weight": 1.0}]
    config.write_text(yaml.safe_dump([*entries, *entries]))
    assert record(config, 48 + 7)["fields"] == source
    shown = prepcli("inspect", PLAIN, "--record", 7).out
    assert shown.startswith(f"record 7: {PLAIN}:8\n")
    assert source["text"] in shown


def test_members_that_lines_share(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 8.0)
    write_audio(tmp_path / "b.wav", 2.0)
    records = [
        {"audio_filepath": name, "offset": offset, "duration": 1.0, "text": f"{name} {offset}"}
        for name, offset in (("a.wav", 0.0), ("a.wav", 1.0), ("b.wav", 0.5), ("a.wav", 3.0), ("b.wav", 1.0))
    ]
    make_set("manifest-to-tarred", write_lines(tmp_path / "m.json", records), tmp_path / "out", "--num-shards", 1)
    for number, source in enumerate(records):
        found = record(tmp_path / "out", number)
        assert found["fields"]["text"] == source["text"]
        length = {"a.wav": "8.000 s", "b.wav": "2.000 s"}[str(source["audio_filepath"])]
        assert length in found["audio"][0]["description"]


def test_with_one_manifest_for_all_shards(tmp_path: Path) -> None:
    make_set("manifest-to-tarred", PLAIN, tmp_path / "out", "--num-shards", 2, "--no-shard-manifests")
    found = record(tmp_path / "out", 40)
    assert found["fields"]["text"] == read_lines(PLAIN)[40]["text"]
    assert found["audio"][0]["where"].endswith("audio_1.tar")


def test_what_there_is_not(sets: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ((sets / "tarred", "--record", 48), "has 48 records, counted from 0: there is no record 48"),
        (
            (sets / "tarred/audio_0.tar", "--record", 0),
            "--record takes manifests, cuts, tarred sets, Shar sets and",
        ),
        ((PLAIN, "--record", 1, "--html", tmp_path / "x.html"), "--html has no effect with --record"),
    ):
        done = prepcli("inspect", *arguments)
        assert done.code == 2
        assert message in done.error_line
    out = copy_set(sets / "tarred", tmp_path)
    (out / "audio_2.tar").unlink()
    assert record(out, 47)["audio"][0]["problem"] == "it is missing"


def test_a_stale_index_is_said_to_be_one(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "tarred", tmp_path)
    lines = out / "sharded_manifests/manifest_0.json"
    text = lines.read_bytes()
    lines.write_bytes(text[9:] + text[:9])
    os.utime(lines, (0, 0))  # older than its index, and of the same size
    done = prepcli("inspect", out, "--record", 3)
    assert done.code == 2
    assert "its index is stale: prepcli index --check" in done.error_line


def test_a_copy_of_compressed_cuts_is_to_be_unpacked(shar: Path) -> None:
    """Unpacking in place takes them away from the set."""
    done = prepcli("inspect", shar, "--record", 3)
    assert (done.code, "cuts.000000.jsonl.gz is compressed" in done.error_line) == (2, True)
    assert done.error_line.endswith("unpack a copy of it (gunzip)")
