"""LibriTTS and LibriTTS-R: what is written, compared with lhotse's recipe; the same data root as LibriSpeech."""

from pathlib import Path

import pytest

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import checksum_list, librispeech, libritts, tar_gz, write_files
from tests.conftest import Lines, read_lines, tree
from tests.support.running import prepcli

TREES = {"libritts": "LibriTTS", "libritts-r": "LibriTTS_R"}


def records_of_lhotse(corpus: Path, part: str) -> Lines:
    """What lhotse makes of a part, in our words."""
    from lhotse.recipes import prepare_libritts

    made = prepare_libritts(corpus, part)[part]
    recordings = made["recordings"]
    return [
        {
            "audio_filepath": str(Path(recordings[one.recording_id].sources[0].source).relative_to(corpus)),
            "duration": one.duration,
            "text": one.custom["orig_text"],
            "normalized_text": one.text,
            "speaker": one.speaker,
            "gender": one.gender,
            "snr": one.custom["snr"],
        }
        for one in made["supervisions"]
    ]


@pytest.mark.slow
@pytest.mark.torch  # lhotse imports it
@pytest.mark.parametrize("corpus", TREES)
def test_records_are_those_of_lhotse(corpus: str, serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data, name = tmp_path / "data", TREES[corpus]
    words = ["download", corpus, "--data-root", data, "--base-url", serve().url, "--checksums", checksums, "--json"]
    done = prepcli(*words, "--max-rejects", 9)
    assert done.code == 0, done.err
    damaged = [] if corpus == "libritts" else ["unreadable_audio"]
    assert done.json["rejects_by_reason"] == {"missing_audio": 4} | dict.fromkeys(damaged, 1)
    assert (done.json["records_in"], done.json["records_out"]) == (16, 12 - len(damaged))
    records = read_lines(data / name / "dev_clean.json")
    wavs = {path.relative_to(data / name).as_posix(): path for path in (data / name).rglob("[!.]*.wav")}
    for rejected in set(wavs) - {record["audio_filepath"] for record in records}:
        wavs[rejected].unlink()  # lhotse takes the torn file for a shorter one
    ours = [record | {"speaker": record["speaker"].split("Speaker:")[1].split()[0]} for record in records]
    theirs = records_of_lhotse(data / name, "dev-clean")
    for record in theirs:
        for field in ("gender", "snr"):
            if record[field] is None:
                del record[field]
    assert sorted(ours, key=str) == sorted(theirs, key=str)
    assert {record["speaker"].partition(" Speaker")[0] for record in records} == {
        f"| Language:en Dataset:{'LibriTTS' if corpus == 'libritts' else 'LibriTTS-R'}"
    }
    assert records[0]["audio_filepath"].startswith("dev-clean/101/1011/101_1011_00000")


def test_the_preset_of_group_by_fits(tmp_path: Path) -> None:
    """Also for a copy, if the manifests lie in it."""
    copy = write_files(libritts("dev-clean", ["s01", "s02"]), tmp_path / "copy")
    for data, rejects in ((copy, {}), (tmp_path / "data", {"bad_field": 12})):
        words = ("--data-root", data, "--extracted", copy / "LibriTTS", "--max-rejects", 4)
        assert prepcli("download", "libritts", *words).code == 0
        manifest = data / "LibriTTS/dev_clean.json"
        done = prepcli(
            "extend-context-audio", manifest, tmp_path / "out", "--group-by", "libritts", "--dry-run", "--json"
        )
        assert done.json["rejects_by_reason"] == rejects


def test_next_to_librispeech(serve: Serve, tmp_path: Path) -> None:
    """Whose archives and data sets have the same names."""
    data = tmp_path / "data"
    speech = tar_gz(librispeech("dev-clean", ["s03"]))
    for corpus, archive in (("librispeech", speech), ("libritts", tar_gz(libritts("dev-clean", ["s01"])))):
        site = serve({"dev-clean.tar.gz": archive})
        (tmp_path / "sums").write_text(checksum_list(site.files))
        words = ("--data-root", data, "--base-url", site.url, "--checksums", tmp_path / "sums", "--keep-archives")
        assert prepcli("download", corpus, *words, "--max-rejects", 2).code == 0
    assert (data / "archives/dev-clean.tar.gz").read_bytes() == speech
    assert len(read_lines(data / "dev_clean.json")) == len(read_lines(data / "LibriTTS/dev_clean.json")) == 6
    assert {path.name for path in (tmp_path / "data.prepcli/sets").iterdir()} == {"dev_clean", "libritts_dev_clean"}


def test_an_id_that_leaves_the_copy_is_a_reject(tmp_path: Path) -> None:
    """Whether or not something is there; an absolute path too."""
    files = libritts("dev-clean", ["s01"])
    name = "LibriTTS/dev-clean/101/1011/101_1011.trans.tsv"
    outside = tmp_path / "outside/x.wav"
    files[name] += f"../../../../../outside/x\tA\tA\n{outside.with_suffix('')}\tA\tA\n".encode()
    copy = write_files(files, tmp_path / "copy")
    write_files({"x.wav": files["LibriTTS/dev-clean/101/1011/101_1011_000000_000000.wav"]}, outside.parent)
    words = ("--data-root", tmp_path / "data", "--extracted", copy, "--max-rejects", 9)
    assert prepcli("download", "libritts", *words).code == 0
    rejects = read_lines(tmp_path / "data.prepcli/sets/libritts_dev_clean/rejects.jsonl")
    assert [one["reject_reason"] for one in rejects] == ["missing_audio", "bad_field", "missing_audio", "missing_audio"]
    assert rejects[1]["reject_detail"].startswith(f"{name}:6: ")
    assert "may lie outside of the corpus" in rejects[1]["reject_detail"]
    assert "outside" not in str(read_lines(tmp_path / "data/LibriTTS/dev_clean.json"))
    assert list(tree(tmp_path / "data")) == ["LibriTTS/dev_clean.json"]
