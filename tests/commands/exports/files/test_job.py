"""convert-audio: plain files that are cut, resampled, downmixed or copied, and their manifest."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import MINI_CORPUS, Lines, make_set, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli
from tests.support.tools import need_package


def record(path: str, duration: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"audio_filepath": path, "duration": duration, "text": ""} | more


def convert(folder: Path, records: Lines, *options: object, out: str = "out") -> Lines:
    """The manifest that convert-audio makes of records; `verify` judges the output."""
    make_set("convert-audio", write_lines(folder / "m.json", records), folder / out, *options)
    lines = read_lines(folder / out / "manifest.json")
    files = {name for name in tree(folder / out) if name != "manifest.json"}
    assert files == {line["audio_filepath"] for line in lines}
    return lines


def read(folder: Path, line: dict[str, Any]) -> np.ndarray:
    samples: np.ndarray = soundfile.read(folder / line["audio_filepath"], dtype="int16")[0]
    return samples


def test_without_options_the_bytes_are_copied(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make_set("convert-audio", MINI_CORPUS / "manifest.json", out)
    records = read_lines(MINI_CORPUS / "manifest.json")
    assert read_lines(out / "manifest.json") == records
    for one in records:
        assert (out / one["audio_filepath"]).read_bytes() == (MINI_CORPUS / one["audio_filepath"]).read_bytes()
    again = prepcli("convert-audio", MINI_CORPUS / "manifest.json", out, "--json")
    assert (again.code, again.json["status"]) == (0, "nothing_to_do")
    found = prepcli("inspect", out, "--json").json
    assert (found["kind"], found["records"], found["audio"][0]["looked_at"]) == ("manifest", 48, 48)
    assert prepcli("status", out, "--json").json["records_out"] == 48
    assert prepcli("convert-audio", MINI_CORPUS / "manifest.json", tmp_path / "dry", "--dry-run").code == 0
    assert not (tmp_path / "dry").exists()


def test_segments_are_cut_and_fields_are_kept(tmp_path: Path) -> None:
    talk = write_audio(tmp_path / "a/talk.wav", 4.0)
    samples = write_audio(tmp_path / "b.flac", 1.2345)
    context = {"context_audio_filepath": "a/talk.wav", "context_audio_offset": 0.5, "context_audio_duration": 3.0}
    records = [
        record("a/talk.wav", 1.0, offset=1.5, speaker="me", **context),
        record("b.flac", 1.23, sampling_rate=8000, more={"x": [1]}),
        record("a/talk.wav", 0.5),
        record("b.flac", 1.23, text="again"),
        record("a/talk.wav", 1.0, offset=1.5, text="again"),
    ]
    lines = convert(tmp_path, records)
    assert [line["audio_filepath"] for line in lines] == [
        "a/talk@1_5_1_0.wav",
        "b.flac",
        "a/talk@0_0_0_5.wav",
        "b.flac",
        "a/talk@1_5_1_0.wav",
    ]
    assert (tmp_path / "out/b.flac").read_bytes() == (tmp_path / "b.flac").read_bytes()
    assert np.array_equal(read(tmp_path / "out", lines[0]), talk[12000:20000])
    assert np.array_equal(read(tmp_path / "out", lines[2]), talk[:4000])
    expected = [one | {"audio_filepath": line["audio_filepath"]} for one, line in zip(records, lines, strict=True)]
    for one in expected:
        if (offset := one.pop("offset", None)) is not None:
            one["source_audio_offset"] = offset
    expected[0]["context_audio_filepath"] = str(tmp_path / "a/talk.wav")
    assert lines == expected
    assert [*lines[1]] == [*records[1]], "fields stay in their places"
    lines = convert(tmp_path, records, "--target-sample-rate", 16000, "--force-codec", "wav", out="wav")
    assert (lines[1]["audio_filepath"], lines[1]["sampling_rate"]) == ("b.wav", 16000)
    info = soundfile.info(tmp_path / "wav/b.wav")
    assert (info.samplerate, info.frames, info.subtype) == (16000, 2 * len(samples), "PCM_16")


def test_names_stay_apart_and_below_the_output(tmp_path: Path) -> None:
    """Paths out of the folder, absolute ones, equal stems, and names that look like names that were made."""
    folder = tmp_path / "in"
    paths = {
        "x.wav": "x@",
        "x.flac": "x@",
        "../in/y.wav": "in/y.wav",
        "../x.wav": "x@",
        f"{tmp_path}/in/z.wav": f"{str(tmp_path)[1:]}/in/z.wav",
        "talk.wav": "talk@",
        "talk@0_0_0_5.wav": "talk_0_0_0_5.wav",
        "f.flac/manifest.json/a.wav": "f_flac/manifest_json/a.wav",
        "f.wav": "f.wav",
        "naïve spk/Ü 1.2.wav": "naïve spk/Ü 1.2.wav",
        f"{'ü' * 100}/{'l' * 230}.wav": "",
    }
    records = []
    for seed, path in enumerate(paths):
        write_audio(folder / path, 1.0, seed=seed)
        records.append(record(path))
    records.insert(6, record("talk.wav", 0.5))
    manifest = write_lines(folder / "m.json", records)
    out = tmp_path / "out"
    make_set("convert-audio", manifest, out)
    lines = read_lines(out / "manifest.json")
    names = [line["audio_filepath"] for line in lines]
    assert len(set(names)) == len(names) == len(records)
    assert set(tree(out)) == {"manifest.json", *names}
    for one, name in zip(records, names, strict=True):
        made = paths[one["audio_filepath"]]
        assert name.startswith(made) if made.endswith("@") else name == (made or name)
        assert not name.startswith("/") and ".." not in name.split("/")
        whole = soundfile.read(folder / one["audio_filepath"], dtype="int16")[0]
        assert np.array_equal(read(out, {"audio_filepath": name}), whole[: round(8000 * one["duration"])])


def test_channels(tmp_path: Path) -> None:
    """Without the option a record's channel, else all; the same segment of two channels is two files."""
    both = write_audio(tmp_path / "call.flac", 2.0, channels=2)
    records = [record("call.flac", 2.0, **more) for more in ({}, {"channel": 0}, {"channel": 1}, {"channel": 1})]
    records += [record("call.flac", 2.0, channel=odd) for odd in (True, "1", [1], 2)]
    samples = {
        None: [both, both[:, 0], both[:, 1], both[:, 1]],
        0: [both[:, 0], both[:, 0], both[:, 1], both[:, 1]],
        "mix": [np.rint(both.mean(axis=1)).astype(np.int16)] * 8,
    }
    for channel, wanted in samples.items():
        options = ["--max-rejects", 4, *([] if channel is None else ["--channel", channel])]
        lines = convert(tmp_path, records, *options, out=f"out-{channel}")
        assert len(lines) == len(wanted)
        for line, one in zip(lines, wanted, strict=True):
            assert np.array_equal(read(tmp_path / f"out-{channel}", line), one)
        assert len({line["audio_filepath"] for line in lines}) == (1 if channel == "mix" else 3)
    assert (tmp_path / "out-None/call@0_0_2_0.flac").read_bytes() == (tmp_path / "call.flac").read_bytes()
    first = [record("call.flac", 2.0, channel=[1]), record("call.flac", 2.0)]
    (line,) = convert(tmp_path, first, "--max-rejects", 1, out="odd")
    assert np.array_equal(read(tmp_path / "odd", line), both)


def test_rejects_and_records_of_one_file_in_many_groups(tmp_path: Path) -> None:
    """Each file is written once, whichever group of records it is in; the manifest has the order of the input."""
    numbers = np.random.default_rng(0).integers(0, 40, 300).tolist()
    for number in range(40):
        write_audio(tmp_path / f"{number}.wav", 0.05, seed=number)
    (tmp_path / "7.wav").write_bytes(b"RIFF")
    records = [record(f"{number}.wav", 0.05, text=str(place)) for place, number in enumerate(numbers)]
    bad = numbers.count(7)
    lines = convert(tmp_path, records, "--max-rejects", bad, "--num-workers", 2)
    assert [line["text"] for line in lines] == [str(place) for place, number in enumerate(numbers) if number != 7]
    report = json.loads((tmp_path / "out.prepcli/report.json").read_text())
    assert (report["records_out"], report["rejects"], report["units"]) == (300 - bad, bad, 5)
    assert report["num_bytes"] == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    write_audio(tmp_path / "7.wav", 0.05, seed=7)
    retried = prepcli("convert-audio", tmp_path / "m.json", tmp_path / "out", "--retry-rejects", "--max-rejects", bad)
    assert retried.code == 0, retried.err
    assert [line["text"] for line in read_lines(tmp_path / "out/manifest.json")] == [one["text"] for one in records]
    assert prepcli("verify", tmp_path / "out").code == 0


def test_manifests_in_several_folders(tmp_path: Path) -> None:
    """The same path below two manifests is two files."""
    for seed, name in enumerate(("one", "two")):
        write_audio(tmp_path / name / "a.wav", 1.0, seed=seed)
        write_lines(tmp_path / name / "m.json", [record("a.wav", text=name)])
    make_set("convert-audio", f"{tmp_path}/one/m.json,{tmp_path}/two/m.json", tmp_path / "out")
    for line in read_lines(tmp_path / "out/manifest.json"):
        assert (tmp_path / "out" / line["audio_filepath"]).read_bytes() == (
            tmp_path / line["text"] / "a.wav"
        ).read_bytes()


def test_files_of_others_are_not_replaced(tmp_path: Path) -> None:
    """Neither the audio that is read, nor a file where a new one belongs."""
    shutil.copytree(MINI_CORPUS, tmp_path / "corpus")
    before = tree(tmp_path / "corpus")
    shutil.copy(MINI_CORPUS / "manifest.json", tmp_path / "other.json")

    def refused(*words: object) -> Outcome:
        done = prepcli("convert-audio", *words, "--audio-base-dir", tmp_path / "corpus")
        assert done.code == 2, done.err
        assert tree(tmp_path / "corpus") == before
        return done

    refused(tmp_path / "corpus/manifest.json", tmp_path / "corpus")
    (tmp_path / "corpus/manifest.json").unlink()
    before = tree(tmp_path / "corpus")
    done = refused(tmp_path / "other.json", tmp_path / "corpus", "--target-sample-rate", 8000)
    assert ".flac is there already, and no record in" in done.err


def test_all_records_are_rejects(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    manifest = write_lines(tmp_path / "m.json", [record("a.wav", -1.0)])
    assert prepcli("convert-audio", manifest, tmp_path / "out", "--max-rejects", 1).code in (0, 3)
    assert len(read_lines(tmp_path / "out.prepcli/rejects.jsonl")) == 1


@pytest.mark.parametrize("kind", ["tarred", "shar", "wenet", "parquet"])
def test_a_set_is_unpacked(kind: str, tmp_path: Path) -> None:
    """The bytes of the members, in the order of the set."""
    if kind == "parquet":
        need_package("pyarrow")
    options = ["--num-shards", 2] if kind == "tarred" else ["--shard-size", 24]
    make_set(f"manifest-to-{kind}", MINI_CORPUS / "manifest.json", tmp_path / kind, *options)
    out = tmp_path / "out"
    make_set("convert-audio", tmp_path / kind, out)
    lines, records = read_lines(out / "manifest.json"), read_lines(MINI_CORPUS / "manifest.json")
    assert [line["text"] for line in lines] == [record["text"] for record in records]
    assert len({line["audio_filepath"] for line in lines}) == 48
    for line, one in zip(lines, records, strict=True):
        assert (out / line["audio_filepath"]).read_bytes() == (MINI_CORPUS / one["audio_filepath"]).read_bytes()
        assert line["duration"] == one["duration"]


@pytest.mark.parametrize("format", ["opus", "mp3"])
def test_lossy_formats(format: str, tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    (line,) = convert(tmp_path, [record("a.wav")], "--force-codec", format)
    assert line["audio_filepath"] == f"a.{format}"
    assert soundfile.info(tmp_path / "out" / line["audio_filepath"]).samplerate == 8000


def test_a_rate_that_the_format_does_not_have_is_noted(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    manifest = write_lines(tmp_path / "m.json", [record("a.wav")])
    options = ("--force-codec", "opus", "--target-sample-rate")
    done = prepcli("convert-audio", manifest, tmp_path / "out", *options, 22050, "--json")
    assert done.json["notes"] == ["opus has no rate of 22050 Hz: the audio is stored at 24000 Hz"]
    assert soundfile.info(tmp_path / "out/a.opus").samplerate == 24000
    assert prepcli("convert-audio", manifest, tmp_path / "out2", *options, 24000, "--json").json["notes"] == []
