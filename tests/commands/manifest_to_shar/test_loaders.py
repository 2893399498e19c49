"""The judges of our Shar: lhotse's reader, NeMo's data loader, and MagpieTTS's dataset."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml
from numpy.typing import NDArray

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.lazy import lazy
from tests.support.nemo_loaders import asr_batches, magpie_batches
from tests.support.running import prepcli
from tests.support.shar_sets import make, shar_fields, with_contexts

lhotse = lazy("lhotse")
Expected = dict[str, tuple[NDArray[np.int16], NDArray[np.int16]]]


def source_samples(record: dict[str, Any], folder: Path, prefix: str = "") -> NDArray[np.int16]:
    """Samples that a record names as its target, or with `context_audio_` as its context."""
    path = record["audio_filepath" if not prefix else "context_audio_filepath"]
    audio, rate = soundfile.read(folder / path, dtype="int16")
    start = round(record.get(f"{prefix}offset", 0.0) * rate)
    samples: NDArray[np.int16] = audio[start : start + round(record[f"{prefix}duration"] * rate)]
    return samples


def make_shar(folder: Path, audio_format: str) -> None:
    options = ["--audio-base-dir", MINI_CORPUS, "--shard-size", 16, "--shuffle"]
    make(folder / "manifest.json", folder / audio_format, *options, "--audio-format", audio_format)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the mini corpus's records with contexts, its segments, and Shar of both."""
    folder = tmp_path_factory.mktemp("corpus")
    records = with_contexts(read_lines(MINI_CORPUS / "manifest.json"))
    write_lines(folder / "manifest.json", records + with_contexts(read_lines(MINI_CORPUS / "segments.json")))
    for audio_format in ("flac", "wav"):
        make_shar(folder, audio_format)
    return folder


def expected(corpus: Path) -> dict[str, dict[str, Any]]:
    records = {f"{r['audio_filepath']} {r['text']}": r for r in read_lines(corpus / "manifest.json")}
    assert len(records) == 54
    return records


def key(cut: Any) -> str:
    path = cut.recording_id.removeprefix("rec-").replace("-", "/")
    return f"{path}.flac {cut.supervisions[0].text}"


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("audio_format", ["flac", "wav"])
def test_lhotse_reads_every_sample(corpus: Path, audio_format: str) -> None:
    records = expected(corpus)
    cuts = list(lhotse.CutSet.from_shar(fields=shar_fields(corpus / audio_format)))
    assert Counter(map(key, cuts)) == Counter(dict.fromkeys(records, 1))
    assert len({cut.id for cut in cuts}) == len(cuts)
    for cut in cuts:
        record = records[key(cut)]
        target, context = source_samples(record, MINI_CORPUS), source_samples(record, MINI_CORPUS, "context_audio_")
        for audio, samples in (
            (cut.target_audio.load_audio(), target),
            (cut.load_target_audio(), target),
            (cut.context_audio.load_audio(), context),
            (cut.load_context_audio(), context),
        ):
            assert np.array_equal(np.round(audio[0] * 32768).astype(np.int16), samples)
        assert cut.num_samples == len(target)
        assert cut.target_audio.id == cut.id
        (supervision,) = cut.supervisions
        assert (supervision.start, supervision.duration) == (0.0, cut.duration)
        assert supervision.context_speaker_similarity == 0.75
        assert supervision.language == cut.lang == record["lang"]


@pytest.mark.torch
@pytest.mark.slow
def test_lhotse_reads_opus(corpus: Path, tmp_path: Path) -> None:
    """All of it at 48 kHz, and recognisably what it was."""
    write_lines(tmp_path / "manifest.json", read_lines(corpus / "manifest.json")[::6])
    make_shar(tmp_path, "opus")
    records = expected(corpus)
    cuts = list(lhotse.CutSet.from_shar(fields=shar_fields(tmp_path / "opus")))
    assert len(cuts) == 9
    for cut in cuts:
        for recording, prefix in ((cut.target_audio, ""), (cut.context_audio, "context_audio_")):
            audio = recording.load_audio()[0]
            assert (recording.sampling_rate, len(audio)) == (48000, recording.num_samples)
            source = source_samples(records[key(cut)], MINI_CORPUS, prefix) / 32768
            assert abs(len(audio) / 48000 - len(source) / 22050) < 0.001
            again = np.interp(np.arange(len(source)) / 22050, np.arange(len(audio)) / 48000, audio)
            assert np.corrcoef(again, source)[0, 1] > 0.95


@pytest.mark.torch
def test_lhotse_reads_what_passes_through(tmp_path: Path) -> None:
    """Whole files in formats of any kind, and segments of them, which stay in the format."""
    names = ["a.wav", "b.flac", "c.ogg", "d.mp3", "e.opus", "f.aiff", "g.au", "h.w64"]
    records = []
    for name in names:
        options: dict[str, Any] = {"format": "OGG", "subtype": "OPUS"} if name == "e.opus" else {}
        write_audio(tmp_path / name, 2.0, rate=16000, **options)
        duration = soundfile.info(tmp_path / name).duration
        whole = {"audio_filepath": name, "duration": duration, "text": name}
        records += [whole, whole | {"offset": 0.5, "duration": 1.0}]
    write_lines(tmp_path / "m.json", records)
    make(tmp_path / "m.json", tmp_path / "out", "--audio-format", "original")
    cuts = list(lhotse.CutSet.from_shar(fields=shar_fields(tmp_path / "out")))
    for record, cut in zip(records, cuts, strict=True):
        audio = cut.load_audio()[0]
        assert len(audio) == cut.recording.num_samples == cut.num_samples
        assert abs(cut.duration - float(record["duration"])) < 0.08  # MP3 has frames of 36 ms and an encoder's delay
        if record["text"][0] in "abfgh":
            source, rate = soundfile.read(tmp_path / str(record["text"]), dtype="float32")
            start = round(float(record.get("offset", 0.0)) * rate)
            assert np.array_equal(audio, source[start : start + len(audio)])


@pytest.mark.torch
def test_a_shard_of_rejects_alone_does_no_harm(tmp_path: Path) -> None:
    """It is there, empty, so that the numbers have no gap; readers walk past it."""
    write_audio(tmp_path / "a.wav", 1.0)
    good = {"audio_filepath": "a.wav", "duration": 1.0, "text": "x"}
    write_lines(tmp_path / "m.json", [good, good | {"audio_filepath": "nowhere.wav"}, good])
    make(tmp_path / "m.json", tmp_path / "out", "--shard-size", 1, "--max-rejects", 1)
    fields = shar_fields(tmp_path / "out")
    assert len(fields["cuts"]) == 3
    assert [cut.id for cut in lhotse.CutSet.from_shar(fields=fields)] == [
        "cut-rec-a-0.00-1.00",
        "cut-rec-a-0.00-1.00-2",
    ]


@pytest.mark.torch
def test_lhotse_reads_what_is_not_strict_json(tmp_path: Path) -> None:
    """Python writes NaN into manifests. As a field it is missing; within one it stays, and lhotse reads it."""
    write_audio(tmp_path / "a.wav", 1.0)
    write_lines(
        tmp_path / "m.json",
        [{"audio_filepath": "a.wav", "duration": 1.0, "text": "x", "cer": float("nan"), "cers": [float("nan")]}],
    )
    make(tmp_path / "m.json", tmp_path / "out")
    (cut,) = lhotse.CutSet.from_shar(fields=shar_fields(tmp_path / "out"))
    assert cut.supervisions[0].custom.get("cer") is None
    assert np.isnan(cut.supervisions[0].cers[0])


@pytest.mark.nemo
def test_magpie_trains_on_every_sample(corpus: Path) -> None:
    records = expected(corpus)
    by_text: dict[str, list[NDArray[np.int16]]] = {}
    languages = {}
    for record in records.values():
        by_text.setdefault(record["text"], []).append(source_samples(record, MINI_CORPUS))
        languages[record["text"]] = record["lang"]
    seen = 0
    for batch in magpie_batches(corpus / "flac", 22050):
        assert len(batch["context_audio"]) == len(batch["audio"])
        for text, language, audio, length, name in zip(
            batch["raw_texts"], batch["languages"], batch["audio"], batch["audio_lens"], batch["dataset_names"],
            strict=True,
        ):  # fmt: skip
            samples = np.round(audio[: length - 1].numpy() * 32768).astype(np.int16)  # the dataset pads with one frame
            assert any(np.array_equal(samples, one) for one in by_text[text])
            assert language == languages[text]
            assert name == "mini"
            seen += 1
    assert seen == len(records)


@pytest.mark.nemo
def test_nemos_asr_reads_a_set_without_contexts_and_with_an_empty_shard(tmp_path: Path) -> None:
    """With the section that the command has written: it has the field `recording`."""
    samples = {text: write_audio(tmp_path / f"{text}.wav", 1.0, seed=number) for number, text in enumerate("abc")}
    good = [{"audio_filepath": f"{text}.wav", "duration": 1.0, "text": text} for text in samples]
    bad = {"audio_filepath": "nowhere.wav", "duration": 1.0, "text": "none"}
    write_lines(tmp_path / "m.json", [bad, *good])
    options = ["--shard-size", 1, "--max-rejects", 1]
    assert prepcli("manifest-to-shar", tmp_path / "m.json", tmp_path / "out", *options).code == 0
    section = yaml.safe_load((tmp_path / "out.prepcli/train_ds.yaml").read_text())["train_ds"]
    found = [one for batch in asr_batches({"shar_path": section["shar_path"], "shuffle": False}, 8000) for one in batch]
    assert sorted(text for text, _ in found) == list(samples)
    for text, audio in found:
        assert np.array_equal(np.round(np.asarray(audio) * 32768).astype(np.int16), samples[text])


@pytest.mark.nemo
def test_magpie_takes_a_set_without_contexts_and_with_an_empty_shard(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    good = {"audio_filepath": "a.wav", "duration": 1.0, "text": "so", "speaker": "| Language:de Dataset:D Speaker:S |"}
    bad = good | {"audio_filepath": "nowhere.wav"}
    write_lines(tmp_path / "m.json", [bad, good | {"normalized_text": ""}, bad, good | {"lang": "it"}])
    options = ["--shard-size", 1, "--max-rejects", 2, "--audio-field", "target_audio"]
    assert prepcli("manifest-to-shar", tmp_path / "m.json", tmp_path / "out", *options).code == 0
    batches = magpie_batches(tmp_path / "out", 8000)
    assert sorted(language for batch in batches for language in batch["languages"]) == ["de", "it"]
    assert {text for batch in batches for text in batch["raw_texts"]} == {"so"}
