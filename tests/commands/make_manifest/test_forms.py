"""Every form of a corpus gives the same records."""

from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.commands.make_manifest.forms import FORMS, write_form
from tests.conftest import MINI_CORPUS, Lines, read_lines, real_speech
from tests.support.running import prepcli


def wanted(audio: Path) -> Lines:
    """The records of a corpus as they should come out; its speakers as names that Kaldi can hold."""
    records = []
    for record in read_lines(audio / "manifest.json"):
        speaker = record["speaker"].split("Speaker:")[-1].strip("| ")
        found = soundfile.info(audio / record["audio_filepath"])
        text = " ".join(record["text"].split("|"))
        records.append(record | {"duration": found.frames / found.samplerate, "speaker": speaker, "text": text.strip()})
    return records


def as_set(records: Lines, folder: Path) -> set[tuple[Any, ...]]:
    """The records without their order, which is that of each source; paths as the files they mean."""
    return {
        ((folder / r["audio_filepath"]).resolve(), r["duration"], r["text"], r["speaker"], r.get("lang"))
        for r in records
    }


@pytest.mark.parametrize("form", FORMS)
def test_the_mini_corpus(form: str, tmp_path: Path) -> None:
    records = [record | {"lang": "xx"} for record in wanted(MINI_CORPUS)]
    source = write_form(form, tmp_path / form, MINI_CORPUS, records)
    done = prepcli("make-manifest", *source, tmp_path / "out.json", "--lang", "xx", "--json")
    assert done.code == 0, done.err
    assert done.json["records_out"] == len(records) == 48
    assert f"is read as {form}: " in done.json["notes"][0]
    made = read_lines(tmp_path / "out.json")
    ids = ["id"] if form in ("kaldi", "lhotse") else []
    assert all([*record] == ["audio_filepath", "duration", "text", "speaker", "lang", *ids] for record in made)
    assert as_set(made, tmp_path) == as_set(records, MINI_CORPUS)


@pytest.mark.slow
@pytest.mark.skipif(real_speech() is None, reason="the recordings of real voices are not here")
def test_five_forms_of_real_speech(tmp_path: Path) -> None:
    audio = real_speech()
    assert audio is not None
    # Two voices say the same prompts: with the folder before it, a stem is of one file.
    records = wanted(audio)
    expected = as_set([record | {"lang": None} for record in records], audio)
    assert len(expected) == 480
    for form in ("kaldi", "csv", "filelist", "audiofolder", "lhotse"):
        source = write_form(form, tmp_path / form, audio, records)
        done = prepcli("make-manifest", *source, tmp_path / f"{form}.json")
        assert done.code == 0, done.err
        assert as_set(read_lines(tmp_path / f"{form}.json"), tmp_path) == expected


@pytest.mark.skipif(real_speech() is None, reason="the recordings of real voices are not here")
def test_real_speech_as_a_folder_with_transcripts_beside_the_audio(tmp_path: Path) -> None:
    audio = real_speech()
    assert audio is not None
    records = wanted(audio)
    for record in records:
        link = tmp_path / "links" / record["audio_filepath"]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(audio / record["audio_filepath"])
        link.with_suffix(".txt").write_text(record["text"])
    options = ("--text-suffix", ".txt", "--speaker-pattern", "^([^/]+)/")
    done = prepcli("make-manifest", tmp_path / "links", tmp_path / "folder.json", *options)
    assert done.code == 0, done.err
    made = read_lines(tmp_path / "folder.json")
    assert [record["audio_filepath"] for record in made] == sorted(record["audio_filepath"] for record in made)
    assert as_set(made, tmp_path) == as_set([record | {"lang": None} for record in records], audio)
