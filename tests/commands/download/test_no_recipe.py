"""The lines of docs/corpora.md for corpora without a recipe, on files with the columns that the Hub has."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.commands.download.miniatures import mp3, utterances
from tests.conftest import read_lines
from tests.support.running import prepcli
from tests.support.tars import write_tar
from tests.support.tools import need_package

DOCS = Path(__file__).parents[3] / "docs/corpora.md"
LINES = dict(re.findall(r"^\| ([^|]+?) \| [^|]+ \| `prepcli (manifest-to-[^`]+)` \|$", DOCS.read_text(), re.MULTILINE))
OWN = utterances("s01")


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    """A Parquet file in which the column `audio` has bytes and a path."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True)
    audio = [{"bytes": path.read_bytes(), "path": path.name} for path, _ in OWN]
    table = pyarrow.Table.from_pylist([row | {"audio": one} for row, one in zip(rows, audio, strict=True)])
    parquet.write_table(table, folder / "train-00000-of-00001.parquet")


def write_corpora(folder: Path) -> None:
    members: dict[str, bytes] = {}
    for number, (path, text) in enumerate(OWN):
        id = f"EN_B00000_S{number:05d}_W000000"
        about = {"id": id, "wav": f"EN_B00000/{id}.mp3", "text": f" {text}", "duration": soundfile.info(path).duration}
        about |= {"speaker": f"EN_B00000_S{number:05d}", "language": "en", "dnsmos": 3.4}
        members |= {f"{id}.mp3": mp3(path), f"{id}.json": json.dumps(about).encode()}
    (folder / "emilia").mkdir()
    write_tar(folder / "emilia/EN-B000000.tar", members)
    texts = [text for _, text in OWN]
    ids = [str(number) for number in range(len(OWN))]
    rows: dict[str, list[dict[str, Any]]] = {
        "gigaspeech": [
            {"segment_id": id, "speaker": "N/A", "text": text, "audio_id": "POD1", "begin_time": 0.0, "end_time": 1.0}
            for id, text in zip(ids, texts, strict=True)
        ],
        "peoples_speech": [
            {"id": f"a/{id}.flac", "duration_ms": 9, "text": text} for id, text in zip(ids, texts, strict=True)
        ],
        "fleurs": [
            {"id": number, "transcription": text.lower(), "raw_transcription": text, "gender": 1, "language": "English"}
            for number, text in enumerate(texts)
        ],
        "voxpopuli": [
            {"audio_id": id, "language": 0, "raw_text": "", "normalized_text": text, "speaker_id": "1234"}
            for id, text in zip(ids, texts, strict=True)
        ],
        "yodas": [{"id": id, "utt_id": f"v-{id}", "text": text} for id, text in zip(ids, texts, strict=True)],
    }
    for name, of_corpus in rows.items():
        write_rows(folder / name / "data", of_corpus)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_package("pyarrow")
    folder = tmp_path_factory.mktemp("corpora")
    write_corpora(folder)
    return folder


def test_the_page_has_the_lines() -> None:
    assert list(LINES) == ["Emilia", "GigaSpeech", "People's Speech", "FLEURS", "VoxPopuli", "YODAS"]


@pytest.mark.parametrize("corpus", LINES)
def test_a_line(corpus: str, corpora: Path, tmp_path: Path) -> None:
    """Every record arrives with its text; the audio is that of the corpus."""
    command, source, out, *options = shlex.split(LINES[corpus])
    done = prepcli(command, corpora / source, tmp_path / out, *options, "--json")
    assert done.code == 0, done.err
    assert (done.json["records_in"], done.json["records_out"]) == (len(OWN), len(OWN))
    assert prepcli("verify", tmp_path / out).code == 0
    if command == "manifest-to-tarred":
        records = read_lines(tmp_path / out / "tarred_audio_manifest.json")
        assert [record["text"].strip() for record in records] == [text for _, text in OWN]
        expected = [soundfile.info(path).duration for path, _ in OWN]
        assert [record["duration"] for record in records] == pytest.approx(expected, abs=0.1)
