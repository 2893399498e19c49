"""manifest-to-mels: tensors, file lists, and what cannot come out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from prepcli.audio.info import AudioInfo
from prepcli.audio.resample import resample
from prepcli.audio.segments import whole
from prepcli.commands.exports.mels.clips import resampled_length
from prepcli.commands.exports.mels.command import manifest_to_mels
from prepcli.commands.exports.mels.spectrogram import MelForm, MelSpectrogram
from prepcli.engine.run.run import run_job
from prepcli.jobs.model_job import ModelJob
from prepcli.models import ranks
from tests.conftest import SHORT_CORPUS, copy_set, make_set, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.lazy import lazy
from tests.support.running import prepcli
from tests.support.tars import write_tar

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from prepcli.engine.run.job import RunOptions
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.workspace import Workspace
else:
    torch = lazy("torch")

pytestmark = pytest.mark.usefixtures("one_thread")
MANIFEST = SHORT_CORPUS / "manifest.json"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`train` and `val`: 16-bit WAV at 22050 Hz, and one FLAC at 16 kHz."""
    folder = tmp_path_factory.mktemp("corpus")
    for stem, names in (("train", ("a.wav", "b.wav", "c.wav")), ("val", ("d.flac",))):
        records = []
        for number, name in enumerate(names):
            seconds = 0.5 + number / 4
            write_audio(folder / "wavs" / name, seconds, 22050 if name.endswith("wav") else 16000, seed=number)
            records.append({"audio_filepath": f"wavs/{name}", "duration": seconds, "text": f"Text of {name}, “said”."})
        write_lines(folder / f"{stem}.json", records)
    return folder


@pytest.fixture(scope="module")
def made(corpus: Path) -> Path:
    make_set("manifest-to-mels", f"{corpus}/train.json,{corpus}/val.json", corpus / "out", "--devices", "cpu")
    return corpus / "out"


def mel_of(path: Path) -> torch.Tensor:
    mel = torch.load(path, weights_only=True)
    assert isinstance(mel, torch.Tensor)
    return mel


def lines(path: Path) -> list[list[str]]:
    """As DeepLearningExamples' load_filepaths_and_text reads a list."""
    with path.open(encoding="utf-8") as file:
        return [line.strip().split("|") for line in file]


def test_lists_and_mels(corpus: Path, made: Path) -> None:
    names = sorted(path.name for path in (made / "filelists").iterdir())
    assert names == [f"{stem}_{kind}_text_filelist.txt" for stem in ("train", "val") for kind in ("audio", "mel")]
    mels = lines(made / "filelists/train_mel_text_filelist.txt")
    audio = lines(made / "filelists/train_audio_text_filelist.txt")
    assert [path for path, _ in mels] == ["mels/a.pt", "mels/b.pt", "mels/c.pt"]
    assert [path for path, _ in audio] == [str(corpus / "wavs" / name) for name in ("a.wav", "b.wav", "c.wav")]
    assert [text for _, text in mels] == [text for _, text in audio] == [f"Text of {n}.wav, “said”." for n in "abc"]
    compute = MelSpectrogram(MelForm())
    for (mel_path, _), (audio_path, _) in zip(mels, audio, strict=True):
        samples = soundfile.read(audio_path, dtype="float32")[0]
        mel = mel_of(made / mel_path)
        assert (mel.dtype, mel.shape) == (torch.float32, (80, 1 + len(samples) // 256))
        assert torch.equal(mel, compute(torch.from_numpy(samples)))


def test_other_rates_are_resampled_and_the_summary_says_what_waveglow_cannot_read(corpus: Path, made: Path) -> None:
    assert mel_of(made / "mels/d.pt").shape == (80, 1 + 11025 // 256)
    done = prepcli("manifest-to-mels", corpus / "val.json", corpus / "lists", "--lists-only", "--json")
    assert done.json["details"]["audio_list"].startswith(
        "in the list of audio, 1 file is not 16-bit mono WAV at 22050 Hz"
    )


def test_telephone_speech_is_noted_with_its_share(tmp_path: Path) -> None:
    records = [{"audio_filepath": f"{rate}.wav", "duration": 0.5, "text": "x"} for rate in (8000, 16000, 22050)]
    for record in records:
        write_audio(tmp_path / str(record["audio_filepath"]), 0.5, int(str(record["audio_filepath"])[:-4]))
    write_lines(tmp_path / "m.json", records)
    done = prepcli("manifest-to-mels", tmp_path / "m.json", tmp_path / "out", "--devices", "cpu", "--json")
    assert done.json["details"]["low_rates"] == (
        "1 of 3 mels (33%) have a much lower sampling rate than the 16000 Hz that --mel-fmax needs (8000 Hz: 1): "
        "resampling does not add the high frequencies that they lack"
    )
    options = ("--devices", "cpu", "--mel-fmax", 4000, "--json")
    assert "low_rates" not in prepcli("manifest-to-mels", tmp_path / "m.json", tmp_path / "o4", *options).out


def test_lists_only(corpus: Path, made: Path) -> None:
    out = corpus / "only"
    make_set("manifest-to-mels", f"{corpus}/train.json,{corpus}/val.json", out, "--lists-only")
    assert [path.name for path in out.iterdir()] == ["filelists"]
    assert tree(out / "filelists") == tree(made / "filelists")


def test_rejects_have_reasons(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0, 22050)
    write_audio(tmp_path / "bar|.wav", 1.0, 22050)
    soundfile.write(tmp_path / "short.wav", np.zeros(512, np.int16), 22050)
    soundfile.write(tmp_path / "enough.wav", np.zeros(513, np.int16), 22050)
    good = {"audio_filepath": "a.wav", "duration": 1.0, "text": "fine"}
    records = [
        good,
        good | {"text": "one|two"},
        good | {"text": "one\ntwo"},
        good | {"text": "one\rtwo"},
        good | {"text": " "},
        {"audio_filepath": "a.wav", "duration": 1.0},
        good | {"text": 7},
        good | {"audio_filepath": "bar|.wav"},
        good | {"audio_filepath": "no.wav"},
        {"audio_filepath": "short.wav", "duration": 512 / 22050, "text": "x"},
        {"audio_filepath": "enough.wav", "duration": 513 / 22050, "text": "x"},
    ]
    write_lines(tmp_path / "m.json", records)
    reasons = {"bad_field": 5, "missing_field": 2, "missing_audio": 1, "bad_duration": 1}
    for options in (("--devices", "cpu"), ("--lists-only",)):
        out = tmp_path / options[0]
        done = prepcli("manifest-to-mels", tmp_path / "m.json", out, "--max-rejects", 9, "--json", *options)
        assert done.code == 0, done.err
        assert done.json["rejects_by_reason"] == reasons
        assert prepcli("verify", out).code == 0
    rejects = read_lines(tmp_path / "--devices.prepcli/rejects.jsonl")
    assert rejects[0]["reject_detail"] == "text has '|', which a file list cannot hold"
    assert "512 samples at 22050 Hz are too short for a mel; 513 are needed" in [
        one["reject_detail"] for one in rejects
    ]
    assert mel_of(tmp_path / "--devices/mels/enough.pt").shape == (80, 3)


def test_the_lists_have_the_normalized_text(tmp_path: Path) -> None:
    """As the published lists of LJSpeech do; a record without it has its text in the list, and the summary says so."""
    write_audio(tmp_path / "a.wav", 1.0, 22050)
    spoken = "in fourteen fifty-five,"
    record = {"audio_filepath": "a.wav", "duration": 1.0, "text": "in 1455,", "normalized_text": spoken}
    write_lines(tmp_path / "m.json", [record, record | {"normalized_text": None, "id": "b"}])
    arguments = ("manifest-to-mels", tmp_path / "m.json", tmp_path / "out", "--lists-only")
    done = make_set(*arguments)
    assert done.json["details"]["text_field"] == "normalized_text; 1 record does not have it: text is listed"
    for kind in ("mel", "audio"):
        listed = lines(tmp_path / f"out/filelists/m_{kind}_text_filelist.txt")
        assert [text for _, text in listed] == [spoken, "in 1455,"]
    done = make_set(*arguments, "--text-field", "text", "--overwrite")
    assert "text_field" not in done.json["details"]
    assert [text for _, text in lines(tmp_path / "out/filelists/m_mel_text_filelist.txt")] == ["in 1455,"] * 2
    write_lines(tmp_path / "bar.json", [record | {"normalized_text": "a|b"}])
    prepcli("manifest-to-mels", tmp_path / "bar.json", tmp_path / "bar", "--lists-only")
    (reject,) = read_lines(tmp_path / "bar.prepcli/rejects.jsonl")
    assert reject["reject_detail"] == "normalized_text has '|', which a file list cannot hold"


def test_segments_channels_and_loud_audio(tmp_path: Path) -> None:
    stereo = write_audio(tmp_path / "talk.wav", 3.0, 22050, channels=2)
    soundfile.write(tmp_path / "loud.wav", np.full(22050, 1.5), 22050, subtype="FLOAT")
    records = [
        {"audio_filepath": "talk.wav", "offset": 1.0, "duration": 1.0, "text": "part", "channel": 1},
        {"audio_filepath": "talk.wav", "duration": 3.0, "text": "first channel"},
        {"audio_filepath": "loud.wav", "duration": 1.0, "text": "loud"},
        {"audio_filepath": "talk.wav", "duration": 1.0, "text": "beginning"},
    ]
    write_lines(tmp_path / "m.json", records)
    done = make_set("manifest-to-mels", tmp_path / "m.json", tmp_path / "out", "--devices", "cpu")
    assert done.json["details"]["segments"] == "2 records are parts of files and not in the list of audio"
    compute = MelSpectrogram(MelForm())

    def expected(samples: np.ndarray) -> torch.Tensor:
        return compute(torch.from_numpy((samples / 32768).astype(np.float32)))

    assert torch.equal(mel_of(tmp_path / "out/mels/talk@1_0_1_0.pt"), expected(stereo[22050:44100, 1]))
    assert torch.equal(mel_of(tmp_path / "out/mels/talk@0_0_3_0.pt"), expected(stereo[:, 0]))
    assert torch.equal(mel_of(tmp_path / "out/mels/loud.pt"), compute(torch.ones(22050)))
    assert len(lines(tmp_path / "out/filelists/m_audio_text_filelist.txt")) == 2
    make_set("manifest-to-mels", tmp_path / "m.json", tmp_path / "mix", "--devices", "cpu", "--channel", "mix")
    assert torch.equal(mel_of(tmp_path / "mix/mels/talk@1_0_1_0.pt"), expected(stereo[22050:44100].mean(axis=1)))


def test_clips_in_containers_are_not_in_the_list_of_audio(tmp_path: Path) -> None:
    """WaveGlow opens the names in this list; the mels are made."""
    for name in ("a", "b"):
        write_audio(tmp_path / f"{name}.wav", 1.0, 22050)
    files = {name: (tmp_path / name).read_bytes() for name in ("a.wav", "b.wav")}
    write_tar(tmp_path / "x.tar", files | {"a.txt": b"one", "b.txt": b"two"})
    done = make_set("manifest-to-mels", tmp_path / "x.tar", tmp_path / "out", "--devices", "cpu")
    assert done.json["details"]["members"].startswith("2 records are in containers and not in the list of audio")
    listed = [tmp_path / f"out/filelists/x_{kind}_text_filelist.txt" for kind in ("mel", "audio")]
    assert [len(path.read_text().splitlines()) for path in listed] == [2, 0]
    assert mel_of(tmp_path / "out/mels/a.pt").shape[0] == 80


@pytest.mark.parametrize("num_samples", [1000, 1001, 1002, 9999])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_the_length_of_a_clip_is_known_before_it_is_resampled(num_samples: int, rate: int) -> None:
    segment = whole("a.wav", AudioInfo("wav", "PCM_16", rate, num_samples, 1, 44))
    samples = resample(np.zeros(num_samples, np.float32), rate, 22050)
    assert resampled_length(segment, 22050) == len(samples)


def test_the_same_bytes_for_any_number_of_ranks(corpus: Path, made: Path, tmp_path: Path) -> None:
    manifests = f"{corpus}/train.json,{corpus}/val.json"
    for rank in range(2):
        options = ("--devices", "cpu", "--rank", rank, "--world-size", 2)
        assert prepcli("manifest-to-mels", manifests, tmp_path / "out", *options).code == 0
    assert tree(tmp_path / "out") == tree(made)


def test_the_job_for_devices_gives_the_same(
    corpus: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU here, as there may be no GPU: decoding ahead, batches, and writing behind are the same there."""
    missing = {"audio_filepath": "wavs/none.wav", "duration": 1.0, "text": "x"}
    records = read_lines(corpus / "train.json")
    manifest = write_lines(corpus / "with_reject.json", [records[0], missing, *records[1:]])

    def on_cpu(
        make_job: Callable[..., ModelJob[Any, Any]], devices: str, workspace: Workspace, engine: RunOptions
    ) -> Report:
        job: ModelJob[Any, Any] = make_job("cuda")
        job.on_device.device = "cpu"
        return run_job(job, workspace, engine)

    monkeypatch.setattr(ranks, "run_on_devices", on_cpu)
    report = manifest_to_mels(manifest, tmp_path / "out", max_rejects=1)
    assert (report.records_out, report.rejects_by_reason) == (3, {"missing_audio": 1})
    for name in "abc":
        found = mel_of(tmp_path / f"out/mels/{name}.pt")
        assert torch.allclose(found, mel_of(made / f"mels/{name}.pt"), atol=1e-5)
    expected = (made / "filelists/train_mel_text_filelist.txt").read_bytes()
    assert (tmp_path / "out/filelists/with_reject_mel_text_filelist.txt").read_bytes() == expected


def test_two_manifests_of_one_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_lines(tmp_path / name / "m.json", [{"audio_filepath": "a.wav", "duration": 1.0, "text": "x"}])
    done = prepcli("manifest-to-mels", f"{tmp_path}/one/m.json,{tmp_path}/two/m.json", tmp_path / "out")
    assert done.code == 2
    assert "two manifests have the name m" in done.error_line


def test_verify_names_what_is_wrong(made: Path, tmp_path: Path) -> None:
    out = copy_set(made, tmp_path)
    (out / "mels/a.pt").write_bytes(b"no tensor")
    torch.save(torch.zeros(80, 3, dtype=torch.float64), out / "mels/b.pt")
    torch.save(torch.full((80, 3), float("nan")), out / "mels/c.pt")
    torch.save(torch.zeros(80), out / "mels/d.pt")
    (out / "filelists/train_mel_text_filelist.txt").open("a").write("mels/e.pt|text\nmels/none.pt|text\n")
    torch.save(torch.zeros(80, 0), out / "mels/e.pt")
    listed = out / "filelists/val_audio_text_filelist.txt"
    listed.write_text("/nowhere.wav|text\nno separator\n")
    done = prepcli("verify", out, "--json")
    assert (done.code, done.json["kind"]) == (1, "mels")
    found = "\n".join(done.json["problems"])
    for expected in (
        "mels/a.pt: cannot be read",
        "mels/b.pt: not a float32 tensor",
        "mels/c.pt: has values that are not numbers",
        "mels/d.pt: not a float32 tensor",
        "mels/e.pt: not a float32 tensor",
        "mels/none.pt: cannot be read",
        "there is no file /nowhere.wav",
        "val_audio_text_filelist.txt:2: must be path|text",
    ):
        assert expected in found, expected


def test_verify_compares_with_what_was_published(made: Path, tmp_path: Path) -> None:
    out = copy_set(made, tmp_path, records=True)
    torch.save(mel_of(out / "mels/b.pt") + 1, out / "mels/b.pt")
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    assert any("mels/b.pt: not the bytes that were published" in one for one in done.json["problems"])


def test_the_output_tells_of_mels_and_not_of_hours(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert prepcli("manifest-to-mels", SHORT_CORPUS / "manifest.json", out, "--lists-only").code == 0
    lines = prepcli("verify", out).out.splitlines()
    assert lines[:2] == [f"verify: {out} is ok", "  records  48, without mels"]
    assert "hours" not in "".join(lines)
