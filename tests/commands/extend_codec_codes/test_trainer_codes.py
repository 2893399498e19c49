"""extend-codec-codes for OmniVoice and Qwen3-TTS: read here as the trainers' data sets read them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from tests.conftest import MINI_CORPUS, Lines, make_set, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.lazy import lazy
from tests.support.running import Outcome, prepcli
from tests.support.shar_sets import make
from tests.support.toy_codec import ToyCodec, use_toy_codec

if TYPE_CHECKING:
    import torch
    import torchaudio  # type: ignore[import-untyped]
    import webdataset
else:
    torch = lazy("torch")
    torchaudio = lazy("torchaudio")
    webdataset = lazy("webdataset")

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.torch]
Extend = Callable[..., Outcome]


@pytest.fixture
def extend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Extend:
    """The command with a toy codec of as many codebooks as the form needs."""
    use_toy_codec(monkeypatch.setattr)

    def run(source: object, form: str, *options: object, out: Path = tmp_path / "out") -> Outcome:
        words = ("--codec-model", CODECS.get(form, "toy"), "--devices", "cpu", "--output-dir", out)
        return prepcli("extend-codec-codes", source, "--output-form", form, *words, *options)

    return run


CODECS = {"omnivoice": "toy8", "qwen3-tts": "toy16"}


def absolute(records: Lines) -> Lines:
    return [one | {"audio_filepath": str(MINI_CORPUS / one["audio_filepath"])} for one in records]


def corpus(folder: Path) -> Path:
    """A manifest of ten records, two of them segments of a file, with a null and a text of no letters."""
    records = absolute(read_lines(MINI_CORPUS / "manifest.json")[::6])
    records += absolute(read_lines(MINI_CORPUS / "segments.json")[:2])
    records[0] |= {"emotion": None, "language_id": None}
    records[1]["text"] = "..."
    return write_lines(folder / "m.json", records)


def read_omnivoice(out: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[list[str]]]:
    """The arrays by key, the labels by id, and the words of the list, as OmniVoice's classes read them."""
    lines = [line.split() for line in (out / "data.lst").read_text().splitlines()]
    samples = webdataset.WebDataset([line[0] for line in lines], shardshuffle=False).decode()
    arrays = {sample["__key__"]: sample["npy"] for sample in samples}
    labels: dict[str, dict[str, Any]] = {}
    for line in lines:
        labels |= {label["id"]: label for label in read_lines(Path(line[1]))}
    return arrays, labels, lines


def alone(record: dict[str, Any], codec: ToyCodec, peak: float) -> Any:
    """The codes of a record's segment alone, scaled to a peak if there is one."""
    samples, rate = soundfile.read(record["audio_filepath"], dtype="float32")
    start = round(record.get("offset", 0.0) * rate)
    mono = torch.from_numpy(samples[start : start + round(record["duration"] * rate)])
    if rate != codec.sampling_rate:
        length = round(len(mono) * codec.sampling_rate / rate)
        mono = torchaudio.transforms.Resample(rate, codec.sampling_rate)(mono)[:length]
    mono = torch.nn.functional.pad(mono, (0, -len(mono) % codec.samples_per_frame))
    if peak:
        mono = mono / (mono.abs().max() + 1e-7) * peak
    return codec.encode(mono[None], torch.tensor([len(mono)]), "fp32")[0][0].numpy()


@pytest.mark.parametrize("peak", [None, 0.0, 0.5])
def test_omnivoice(tmp_path: Path, extend: Extend, peak: float | None) -> None:
    manifest, out = corpus(tmp_path), tmp_path / "out"
    done = extend(manifest, "omnivoice", "--json", *(() if peak is None else ("--peak", peak)))
    assert (done.code, done.err) == (0, "")
    assert done.json["outputs"] == {"data_list": str(out / "data.lst")}
    arrays, labels, lines = read_omnivoice(out)
    records = read_lines(manifest)
    assert [int(line[2]) for line in lines] == [1] * len(records)  # so that there are as many tars as possible
    assert sum(float(line[3]) for line in lines) == pytest.approx(sum(one["duration"] for one in records))
    assert list(arrays) == list(labels)
    assert not any("." in key or "/" in key for key in arrays)
    codec = ToyCodec("toy8")
    for record, (key, codes) in zip(records, arrays.items(), strict=True):
        assert codes.dtype == np.int16
        np.testing.assert_array_equal(codes, alone(record, codec, 0.9 if peak is None else peak))
        kept = {name: value for name, value in record.items() if value is not None}
        more = {"id": key, "num_tokens": codes.shape[1], "language_id": record["lang"]}
        assert labels[key] == kept | more
    assert prepcli("verify", out).code == 0
    seen = prepcli("inspect", out, "--json").json
    assert (seen["kind"], seen["records"]) == ("omnivoice", len(records))
    assert extend(manifest, "omnivoice", *(() if peak is None else ("--peak", peak))).code == 0


def test_ids_and_rejects_of_omnivoice(tmp_path: Path, extend: Extend) -> None:
    """An id with a dot would be cut; a record without text or audio is a reject, and its tar is left out."""
    records = absolute(read_lines(MINI_CORPUS / "manifest.json")[:5])
    given = [one | {"id": f"u{number}"} for number, one in enumerate(records)]
    assert extend(write_lines(tmp_path / "m.json", given), "omnivoice").code == 0
    assert list(read_omnivoice(tmp_path / "out")[0]) == ["u0", "u1", "u2", "u3", "u4"]
    given[2] |= {"id": "u.2"}
    given[3] |= {"text": None}
    given[4] |= {"audio_filepath": "nowhere.wav"}
    out = tmp_path / "two"
    manifest = write_lines(tmp_path / "n.json", given)
    done = extend(manifest, "omnivoice", "--shard-size", 2, "--max-rejects", 2, "--json", out=out)
    assert (done.code, done.json["rejects"]) == (0, 2)
    arrays, labels, lines = read_omnivoice(out)
    assert list(arrays) == ["s01_u1", "s01_u2", "s01_u3"]
    assert [line[2] for line in lines] == ["2", "1"]
    reasons = {one["reject_reason"] for one in read_lines(tmp_path / "two.prepcli/codes_toy8/rejects.jsonl")}
    assert reasons == {"missing_field", "missing_audio"}
    assert labels["s01_u3"]["id"] == "s01_u3"
    assert prepcli("verify", out).code == 0


def test_qwen(tmp_path: Path, extend: Extend) -> None:
    reference, manifest, out = tmp_path / "voice.wav", corpus(tmp_path), tmp_path / "out"
    write_audio(reference, 1.0, 24000)
    done = extend(manifest, "qwen3-tts", "--ref-audio", reference, "--json")
    assert (done.code, done.err) == (0, "")
    path = out / "m_withAudioCodes_toy16.jsonl"
    assert done.json["outputs"] == {"manifest": str(path)}
    records, codec = read_lines(manifest), ToyCodec("toy16")
    for record, line in zip(records, read_lines(path), strict=True):
        codes = torch.tensor(line["audio_codes"], dtype=torch.long)
        assert codes.shape[1] == 16
        np.testing.assert_array_equal(codes.T.numpy(), alone(record, codec, 0.0))
        assert (line["audio"], line["text"]) == (record["audio_filepath"], record["text"])
        assert (line["ref_audio"], soundfile.info(line["ref_audio"]).samplerate) == (str(reference), 24000)
    assert prepcli("verify", out).code == 0
    seen = prepcli("inspect", out, "--json").json
    assert (seen["kind"], seen["records"]) == ("qwen3-tts", len(records))


def test_references_of_qwen(tmp_path: Path, extend: Extend) -> None:
    """Each record may have its own, at the rate that the trainer asserts."""
    write_audio(tmp_path / "voice.wav", 1.0, 24000)
    write_audio(tmp_path / "low.wav", 1.0, 16000)
    records = absolute(read_lines(MINI_CORPUS / "manifest.json")[:3])
    records[0]["ref_audio"], records[1]["ref_audio"] = "voice.wav", "low.wav"
    manifest = write_lines(tmp_path / "m.json", records)
    done = extend(manifest, "qwen3-tts", "--max-rejects", 2, "--json")
    assert (done.code, done.json["rejects"]) == (0, 2)
    (line,) = read_lines(tmp_path / "out/m_withAudioCodes_toy16.jsonl")
    assert line["ref_audio"] == str(tmp_path / "voice.wav")
    rejects = {one["reject_detail"] for one in read_lines(tmp_path / "out.prepcli/codes_toy16/rejects.jsonl")}
    assert {text.partition(";")[0].partition(",")[0] for text in rejects} == {
        f"the reference {tmp_path}/low.wav has 16000 Hz",
        "there is no ref_audio",
    }
    refused = extend(manifest, "qwen3-tts", "--ref-audio", tmp_path / "low.wav", out=tmp_path / "no")
    assert refused.code == 2
    assert "has 16000 Hz, and Qwen3-TTS takes 24000 Hz: convert it with" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize("form", ["omnivoice", "qwen3-tts"])
def test_any_input_and_any_number_of_ranks(tmp_path: Path, extend: Extend, form: str) -> None:
    """A Shar set, and a tarred set in one pass of its tars, give the codes of the manifest."""
    manifest, out = corpus(tmp_path), tmp_path / "out"
    write_audio(tmp_path / "voice.wav", 1.0, 24000)
    more: list[object] = ["--ref-audio", tmp_path / "voice.wav"] if form == "qwen3-tts" else ["--shard-size", 3]
    more += ["--pool-duration", 6]
    assert extend(manifest, form, *more).code == 0
    expected, codes = tree(out), codes_in(out)
    shutil.move(out, tmp_path / "first")
    shutil.rmtree(f"{out}.prepcli")
    for rank in (2, 0, 1):
        assert extend(manifest, form, *more, "--rank", rank, "--world-size", 3).code == 0
    assert tree(out) == expected
    make(manifest, tmp_path / "shar", "--shard-size", 4)
    make_set("manifest-to-tarred", manifest, tmp_path / "tarred", "--num-shards", 3, "--slice-with-offset")
    for source in ("shar", "tarred"):
        made = tmp_path / f"of_{source}"
        done = extend(tmp_path / source, form, *more, out=made)
        assert done.code == 0, done.err
        assert sorted(codes_in(made)) == sorted(codes)
        assert prepcli("verify", made).code == 0


def codes_in(out: Path) -> list[bytes]:
    if (out / "data.lst").exists():
        return [array.tobytes() for array in read_omnivoice(out)[0].values()]
    return [json.dumps(line["audio_codes"]).encode() for path in out.glob("*.jsonl") for line in read_lines(path)]


def test_files_of_a_shar_set_and_the_default_by_its_name(tmp_path: Path, extend: Extend) -> None:
    manifest, out = corpus(tmp_path), tmp_path / "out"
    words = ("--codec-model", "toy", "--devices", "cpu", "--output-dir", out)
    assert prepcli("extend-codec-codes", manifest, *words).code == 0
    assert extend(manifest, "files", "--json").json["status"] == "nothing_to_do"
    make(manifest, tmp_path / "shar")
    done = extend(tmp_path / "shar", "files", "--json", out=tmp_path / "of_shar")
    assert (done.code, done.json["records_out"]) == (0, len(read_lines(manifest)))
    assert len(list((tmp_path / "of_shar").rglob("*.pt"))) == len(list(out.rglob("*.pt")))
    assert extend(tmp_path / "shar", "shar", out=tmp_path / "shar").code == 0
    assert (tmp_path / "shar/codes_toy/target_codes/codes.000000.tar").exists()


def test_what_does_not_fit_a_trainer(tmp_path: Path, extend: Extend, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = corpus(tmp_path)
    monkeypatch.setitem(CODECS, "omnivoice", "toy4")
    done = extend(manifest, "omnivoice")
    assert done.code == 2
    assert "OmniVoice reads codes of 8 codebooks, and --codec-model toy4 gives 4" in done.err
    done = extend(manifest, "omnivoice", out=tmp_path / "a folder")
    assert (done.code, "has some: rename it" in done.err) == (2, True)
    assert not (tmp_path / "a folder").exists()


def test_audio_that_the_codec_was_not_made_for(tmp_path: Path, extend: Extend) -> None:
    soundfile.write(tmp_path / "two.wav", np.zeros((16000 * 31, 2)), 16000)
    write_audio(tmp_path / "low.wav", 1.0, 8000)
    records = [{"audio_filepath": "two.wav", "duration": 31.0, "text": ""}]
    records.append({"audio_filepath": "low.wav", "duration": 1.0, "text": ""})
    done = extend(write_lines(tmp_path / "m.json", records), "omnivoice", "--json")
    details = done.json["details"]
    assert details["channels"].startswith("1 segment is of audio with several channels, of which one is encoded")
    assert details["long_segments"].startswith("1 segment is longer than 30 s")
    assert details["low_rates"].startswith("1 of 2 segments (50%)")
