"""VCTK: what is written for each microphone, compared with lhotse's recipe, from an archive and from copies."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import vctk, write_files
from tests.conftest import read_lines, tree
from tests.support.running import prepcli

TOP = "VCTK-Corpus-0.92"


def download(data: Path, *more: object) -> Any:
    done = prepcli("download", "vctk", "--data-root", data, "--max-rejects", 20, "--json", *more)
    assert done.code == 0, done.err
    return done.json


@pytest.mark.torch  # lhotse imports it
@pytest.mark.parametrize(("mic", "rejects"), [("mic1", 1 + 4), ("mic2", 1 + 4 + 4)])
def test_records_are_those_of_lhotse(mic: str, rejects: int, serve: Serve, checksums: Path, tmp_path: Path) -> None:
    from lhotse.recipes.vctk import prepare_vctk

    data = tmp_path / "data"
    report = download(data, "--mic", mic, "--base-url", serve().url, "--checksums", checksums)
    assert (report["records_in"], report["records_out"]) == (20, 20 - rejects)
    assert report["rejects_by_reason"] == {"missing_audio": rejects - 4, "missing_transcript": 4}
    made = prepare_vctk(data / TOP, use_edinburgh_vctk_url=True, mic_id=mic)
    theirs = []
    for one in made["supervisions"]:
        about = {"age": one.custom["age"], "gender": one.gender, "accent": one.custom["accent"]}
        about["region"] = one.custom["region"].partition("(")[0].strip()
        source = Path(made["recordings"][one.recording_id].sources[0].source)
        theirs.append(
            {"audio_filepath": str(source.relative_to(data / TOP)), "duration": one.duration, "text": one.text}
            | {"speaker": f"| Language:en Dataset:VCTK Speaker:{one.speaker} |"}
            | {name: value for name, value in about.items() if value != ""}
        )
    assert read_lines(data / TOP / f"{mic}.json") == sorted(theirs, key=lambda record: record["audio_filepath"])


def test_copies(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    """With the folder of the archive's name, and in a folder of another name, also in place."""
    report = download(tmp_path / "a", "--mic", "both", "--base-url", serve().url, "--checksums", checksums)
    fetched = {mic: read_lines(tmp_path / "a" / TOP / f"{mic}.json") for mic in ("mic1", "mic2")}
    assert {Path(path).name for path in report["outputs"].values()} == {"mic1.json", "mic2.json"}
    assert {name.split("/")[1] for name in tree(tmp_path / "a")} == {
        *("mic1.json", "mic2.json", "txt", "wav48_silence_trimmed", "speaker-info.txt", "README.txt")
    }
    for copy in (tmp_path / "copy" / TOP, tmp_path / "mine"):
        write_files(vctk(), copy)
        for named in {copy, copy / "wav48_silence_trimmed", tmp_path / "copy"} if copy.name == TOP else {copy}:
            download(tmp_path / f"of {named.name}", "--mic", "both", "--extracted", named)
            for mic, records in fetched.items():
                expected = [record | {"audio_filepath": str(copy / record["audio_filepath"])} for record in records]
                assert read_lines(tmp_path / f"of {named.name}" / TOP / f"{mic}.json") == expected
    download(tmp_path / "copy", "--mic", "both", "--extracted", tmp_path / "copy" / TOP)
    for mic, records in fetched.items():
        assert read_lines(tmp_path / "copy" / TOP / f"{mic}.json") == records


def test_another_folder_is_refused(tmp_path: Path) -> None:
    done = prepcli("download", "vctk", "--data-root", tmp_path / "data", "--extracted", tmp_path)
    assert done.code == 2
    assert f"--extracted {tmp_path} holds no wav48_silence_trimmed: give the folder in which" in done.error_line
