"""extend-codec-codes of plain manifests: a file for each segment, and lines that name them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
import soundfile

from prepcli.commands.extend_codec_codes import manifest_codes, uses
from prepcli.commands.verify.plain_codes import CodesFiles
from prepcli.formats.plain_codes import codes_stem
from prepcli.manifest.record import Record
from tests.conftest import MINI_CORPUS, Lines, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.lazy import lazy
from tests.support.running import Outcome, prepcli
from tests.support.shar_sets import make
from tests.support.toy_codec import ToyCodec, use_toy_codec

if TYPE_CHECKING:
    import torch
    import torchaudio  # type: ignore[import-untyped]
else:
    torch = lazy("torch")
    torchaudio = lazy("torchaudio")

pytestmark = pytest.mark.usefixtures("one_thread")
TARGET, CONTEXT = "target_audio_codes_path", "context_audio_codes_path"
NAME = "m_withAudioCodes_toy.json"
HALF = 24
"""Records of half of the mini corpus."""
Extend = Callable[..., Outcome]


@pytest.fixture
def codec() -> ToyCodec:
    return ToyCodec()


@pytest.fixture
def extend(monkeypatch: pytest.MonkeyPatch, codec: ToyCodec) -> Extend:
    """The command with the toy codec."""
    use_toy_codec(monkeypatch.setattr, lambda _: codec)

    def run(manifest: object, out: Path, *options: object) -> Outcome:
        words = ("--codec-model", "toy", "--devices", "cpu", "--output-dir", out)
        return prepcli("extend-codec-codes", manifest, *words, *options)

    return run


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The mini corpus in a folder that can be written to."""
    return Path(shutil.copytree(MINI_CORPUS, tmp_path / "corpus"))


def mini() -> Lines:
    return read_lines(MINI_CORPUS / "manifest_with_context.json")


def awkward_records(corpus: Path) -> Lines:
    """Every kind of record: see the comments."""
    records = mini()[:HALF]
    # Segments of one file, one of them twice, and one that is the context of another.
    records += read_lines(MINI_CORPUS / "segments.json")
    records.append(dict(records[-1], text="again"))
    part = records[-2]
    context = {f"context_audio_{name}": part[name] for name in ("offset", "duration")}
    records.append(records[0] | context | {"context_audio_filepath": part["audio_filepath"]})
    # Another rate, a name that another file has as well, and a path outside of the folder.
    outside = corpus.parent / "outside.wav"
    for path, rate in ((corpus / "twin.wav", 8000), (corpus / "twin.flac", 16000), (outside, 44100)):
        write_audio(path, 1.5, rate)
        records.append({"audio_filepath": str(path), "duration": 1.5, "text": path.name})
    # Two channels.
    soundfile.write(corpus / "two@.wav", np.random.default_rng(1).standard_normal((16000, 2)) / 10, 16000)
    for channel in (0, 1, None):
        records.append({"audio_filepath": "two@.wav", "duration": 1.0, "text": str(channel), "channel": channel})
    # The context's own channel, or in another file the first.
    write_audio(corpus / "solo.wav", 1.5, 16000)
    for more in ({}, {"context_audio_channel": 1}):
        context = {"context_audio_filepath": "two@.wav", "context_audio_offset": 0.5, "context_audio_duration": 0.5}
        records.append({"audio_filepath": "solo.wav", "duration": 1.5, "text": "c", "channel": 1} | context | more)
    twin = {"filepath": "twin.wav", "duration": 1.5, "offset": 0.0}
    records[-3] |= {f"context_audio_{name}": value for name, value in twin.items()}
    return records


def alone(codec: ToyCodec, path: Path, offset: float, duration: float, channel: int | None) -> Any:
    """The codes of a segment by soundfile and torchaudio, with nothing else in the batch."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    start = round(offset * rate)
    mono = torch.from_numpy(
        samples[start : start + round(duration * rate), min(channel or 0, samples.shape[1] - 1)].copy()
    )
    if rate != codec.sampling_rate:
        length = round(len(mono) * codec.sampling_rate / rate)
        mono = torchaudio.transforms.Resample(rate, codec.sampling_rate)(mono)[:length]
    padded = torch.nn.functional.pad(mono, (0, -len(mono) % codec.samples_per_frame))
    return codec.encode(padded[None], torch.tensor([len(mono)]), "fp32")[0][0].numpy()


def test_each_segment_once_with_the_codes_of_it_alone(corpus: Path, extend: Extend, codec: ToyCodec) -> None:
    records = awkward_records(corpus)
    out = corpus.parent / "out"
    done = extend(write_lines(corpus / "m.json", records), out, "--pool-duration", 5, "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["records_out"], done.json["rejects"]) == (len(records), 0)
    words = " segments (3%) have a much lower sampling rate than the codec's 16000 Hz (8000 Hz: 2): resampling does not"
    assert done.json["details"]["low_rates"].startswith(f"2 of {len(records) + HALF + 4}{words}")  # once a context
    assert done.json["units"] > 10
    assert done.json["outputs"] == {"manifest": str(out / NAME)}
    lines = read_lines(out / NAME)
    named = {line[field] for line in lines for field in (TARGET, CONTEXT) if field in line}
    assert named == {str(path) for path in out.rglob("*.pt")}
    assert codec.num_encoded == len(named) < 0.7 * sum((TARGET in line) + (CONTEXT in line) for line in lines)
    for record, line in zip(records, lines, strict=True):
        assert line | record == line
        assert (CONTEXT in line) == ("context_audio_filepath" in record)
        uses = [
            (TARGET, record["audio_filepath"], record.get("offset", 0.0), record["duration"], record.get("channel"))
        ]
        if CONTEXT in line:
            context = (record[f"context_audio_{name}"] for name in ("filepath", "offset", "duration"))
            uses.append((CONTEXT, *context, record.get("context_audio_channel")))
        for field, path, offset, duration, channel in uses:
            found = torch.load(line[field])
            assert found.dtype == torch.int16
            np.testing.assert_array_equal(found, alone(codec, corpus / path, offset, duration, channel))
    check_names(lines, out)
    checked = prepcli("verify", out)
    assert checked.code == 0, checked.out
    assert extend(corpus / "m.json", out, "--pool-duration", 5, "--json").json["status"] == "nothing_to_do"


def test_units_have_a_maximum_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short:
        index = SimpleNamespace(duration=np.array([0.1] * 7 + [9.0]))

        def __len__(self) -> int:
            return len(self.index.duration)

    no_contexts = SimpleNamespace(owners=np.full((2, 8), -1), seconds=np.zeros(8))
    monkeypatch.setattr(uses, "MAX_RECORDS", 3)
    groups = list(uses.group_records(cast(Any, Short()), cast(Any, no_contexts), 5.0))
    assert [(group.lo, group.hi, group.num_records) for group in groups] == [(0, 3, 3), (3, 6, 3), (6, 8, 2)]


def check_names(lines: Lines, out: Path) -> None:
    names = [line[TARGET].removeprefix(f"{out}/codes_toy/") for line in lines]
    assert names[0] == "s01/s01_u1.pt"
    segments = names[HALF : HALF + 7]
    assert len(set(segments)) == 6
    assert all(name.count("@") == 1 for name in segments)
    twins = [name for name in names if name.startswith("twin")]
    assert len(set(twins)) == 2
    assert all(name.startswith("twin@") for name in twins)
    assert str(out.parent / "outside.pt").lstrip("/") in names
    assert [name.rpartition("@")[2] for name in names[-5:-2]] == ["c0.pt", "c1.pt", "0_0_1_0.pt"]
    assert all(name.startswith("two_@") for name in names[-5:-2])


def test_names_stay_below_the_folder_and_fit_into_a_file_system() -> None:
    assert codes_stem("/data/a/b.c.wav", "/data") == "a/b.c"
    assert codes_stem("/data/a/b.wav", "/data/a/") == "b"
    assert codes_stem("/dataset/b.wav", "/data") == "dataset/b"
    assert codes_stem("/data/../x@y.wav", "/data") == "_../x_y"
    assert codes_stem("/b.wav", "/") == "b"
    long = [codes_stem(f"/data/{end}{'é' * 120}.wav", "/data") for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(name.encode()) < 200 for name in long)


def test_bytes_do_not_depend_on_ranks_and_pools(corpus: Path, extend: Extend) -> None:
    manifest = write_lines(corpus / "m.json", awkward_records(corpus))
    out = corpus.parent / "out"
    assert extend(manifest, out, "--pool-duration", 5).code == 0
    expected = tree(out)
    shutil.move(out, corpus.parent / "first")
    shutil.move(f"{out}.prepcli", corpus.parent / "first.prepcli")
    for rank in (2, 0, 1):
        done = extend(manifest, out, "--pool-duration", 5, "--rank", rank, "--world-size", 3)
        assert done.code == 0, done.err
        assert (out / NAME).exists() == (rank == 1)
    assert tree(out) == expected
    shutil.rmtree(out)
    shutil.rmtree(f"{out}.prepcli")
    assert extend(manifest, out, "--batch-duration", 7).code == 0
    assert tree(out) == expected


@pytest.mark.slow
def test_codes_are_those_of_a_shar(corpus: Path, extend: Extend, tmp_path: Path) -> None:
    from tests.support.codes_sets import read_codes

    shar = tmp_path / "shar"
    make(corpus / "manifest_with_context.json", shar, "--shard-size", 48)
    words = ("--codec-model", "toy", "--devices", "cpu")
    assert prepcli("extend-codec-codes", shar, *words).code == 0
    assert extend(corpus / "manifest_with_context.json", tmp_path / "out").code == 0
    lines = read_lines(tmp_path / "out/manifest_with_context_withAudioCodes_toy.json")
    for field, name in ((TARGET, "target_codes"), (CONTEXT, "context_codes")):
        stored = read_codes(shar / f"codes_toy/{name}/codes.000000.tar")
        for line, one in zip(lines, stored, strict=True):
            np.testing.assert_array_equal(torch.load(line[field]), one.codes)


def spoil(path: Path) -> None:
    """Keep the header, so that only decoding finds it."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def test_records_whose_target_or_context_cannot_be_used(corpus: Path, extend: Extend, codec: ToyCodec) -> None:
    records = mini()[:HALF]
    out = corpus.parent / "out"
    expected = extend(write_lines(corpus / "m.json", records), out, "--pool-duration", 5)
    assert expected.code == 0
    whole = tree(out)
    shutil.rmtree(out)
    shutil.rmtree(f"{out}.prepcli")
    contexts = Counter(record["context_audio_filepath"] for record in records)
    (spoiled, _), (gone, _) = contexts.most_common(2)
    keep = {name: (corpus / name).read_bytes() for name in (spoiled, gone)}
    spoil(corpus / spoiled)
    (corpus / gone).unlink()
    done = extend(corpus / "m.json", out, "--pool-duration", 5, "--json")
    assert done.code == 3
    bad = {
        number
        for number, record in enumerate(records, start=1)
        if {record["audio_filepath"], record["context_audio_filepath"]} & {spoiled, gone}
    }
    rejects = read_lines(out.with_name("out.prepcli") / "codes_toy/rejects.jsonl")
    assert {reject["manifest_line"] for reject in rejects} == bad
    assert len(rejects) == done.json["rejects"] == len(records) - done.json["records_out"] > 4
    assert set(done.json["rejects_by_reason"]) == {"unreadable_audio", "missing_audio"}
    assert any(reject["reject_detail"].startswith("context") for reject in rejects)
    lines = read_lines(out / "m_withAudioCodes_toy.json")
    named = {line[field] for line in lines for field in (TARGET, CONTEXT)}
    assert named <= {str(path) for path in out.rglob("*.pt")}
    for name, data in keep.items():
        (corpus / name).write_bytes(data)
    again = extend(corpus / "m.json", out, "--pool-duration", 5, "--retry-rejects")
    assert again.code == 0, again.err
    assert tree(out) == whole


def test_records_that_make_no_sense(corpus: Path, extend: Extend) -> None:
    records = mini()[:12]
    del records[1]["context_audio_duration"]
    records[2]["context_audio_offset"] = -1
    records[3]["audio_filepath"] = 5
    records[4]["context_audio_duration"] = 99.0
    records[5]["duration"] = 0.004  # less than a frame, and than the codec takes
    records[6] |= {"_skipme": True}
    done = extend(write_lines(corpus / "m.json", records), corpus.parent / "out", "--json", "--max-rejects", 9)
    assert done.code == 0, done.err
    reasons = {"missing_field": 1, "bad_offset": 1, "bad_field": 1, "beyond_audio": 1}
    assert done.json["rejects_by_reason"] == reasons
    assert (done.json["records_out"], done.json["skipped"]) == (7, 1)


def test_stale_fields_are_replaced(corpus: Path, extend: Extend, tmp_path: Path) -> None:
    """The manifest of another codec is extended for this one."""
    records = [record | {TARGET: "/other/a.pt", CONTEXT: "/other/b.pt"} for record in mini()[:3]]
    for name in [name for name in records[1] if name.startswith("context_audio_") and name != CONTEXT]:
        del records[1][name]
    del records[2]["context_audio_offset"]  # 0, as NeMo has it
    assert extend(write_lines(corpus / "m.json", records), tmp_path / "out").code == 0
    lines = read_lines(tmp_path / "out" / NAME)
    assert [CONTEXT in line for line in lines] == [True, False, True]
    assert not any("/other/" in json.dumps(line) for line in lines)


def test_options_for_the_other_kind_of_input(corpus: Path, extend: Extend, tmp_path: Path) -> None:
    manifest = corpus / "manifest.json"
    words = ("extend-codec-codes", manifest, "--codec-model", "toy")
    assert "give --output-dir OUT" in prepcli(*words).err
    assert "--partial is for a Shar set" in extend(manifest, tmp_path / "out", "--partial").err
    (tmp_path / "shar/cuts").mkdir(parents=True)
    (tmp_path / "shar/cuts/cuts.000000.jsonl.gz").touch()
    shar = extend(tmp_path / "shar", tmp_path / "out", "--audio-base-dir", corpus)
    assert (shar.code, "--audio-base-dir is for a manifest" in shar.err) == (2, True)
    folder = extend(corpus, tmp_path / "out")
    assert (folder.code, "is not a data set" in folder.err) == (2, True)
    missing = extend(tmp_path / "gone.json", tmp_path / "out")
    assert (missing.code, "gone.json" in missing.err) == (2, True)


def test_a_moved_output_is_not_continued_with_other_paths(corpus: Path, extend: Extend, tmp_path: Path) -> None:
    assert extend(corpus / "manifest.json", tmp_path / "out").code == 0
    shutil.move(tmp_path / "out", tmp_path / "moved")
    shutil.move(tmp_path / "out.prepcli", tmp_path / "moved.prepcli")
    done = extend(corpus / "manifest.json", tmp_path / "moved")
    assert done.code == 2
    assert f"folder of codes: {tmp_path}/out, now {tmp_path}/moved" in done.err


def test_a_note_about_many_files(corpus: Path, extend: Extend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_codes, "MANY_FILES", 47)
    done = extend(corpus / "manifest_with_context.json", tmp_path / "out", "--dry-run")
    assert "48 files of codes: many file systems are slow with so many. Make a Shar" in done.out
    monkeypatch.setattr(manifest_codes, "MANY_FILES", 48)
    assert "make a Shar" not in extend(corpus / "manifest_with_context.json", tmp_path / "out", "--dry-run").out


def test_a_context_that_does_not_fit_into_memory(
    corpus: Path, extend: Extend, codec: ToyCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the unit that encodes it can know; records of other units name it, so the run must not end well."""
    records = mini()
    encode = codec.encode

    def encode_short(audio: Any, lengths: Any, precision: Any) -> Any:
        if audio.shape[1] > 6 * 16000:
            raise MemoryError
        return encode(audio, lengths, precision)

    monkeypatch.setattr(codec, "encode", encode_short)
    out = corpus.parent / "out"
    long = max(records, key=lambda record: record["duration"])
    rest = [record for record in records if record is not long]
    context = {"context_audio_filepath": long["audio_filepath"], "context_audio_duration": long["duration"]}
    context["context_audio_offset"] = 0.0
    together = [long, dict(rest[0], **context)]
    done = extend(write_lines(corpus / "a.json", together), out, "--max-rejects", 9, "--json")
    assert done.json["rejects_by_reason"] == {"out_of_memory": 2}
    apart = [long, *rest[1:20], dict(rest[0], **context)]
    done = extend(write_lines(corpus / "b.json", apart), corpus.parent / "b", "--pool-duration", 5)
    assert done.code == 1
    assert "1 segment that other records use too, mostly as their context, could not be encoded" in done.err
    assert not (corpus.parent / "b/b_withAudioCodes_toy.json").exists()


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def save(value: Any) -> Callable[[Path], None]:
    return lambda path: torch.save(value(torch.load(path)), path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (Path.unlink, "there is no file"),
        (cut_off, "cannot be read"),
        (save(lambda codes: codes.float()), "is not a tensor of integers"),
        (save(lambda codes: codes[0]), "is not a tensor of integers"),
        (save(lambda codes: codes - 2000), "has codes below 0"),
        (save(lambda codes: codes[:, :-9]), "frames of 0.01 s, but the audio lasts"),
        (save(lambda codes: codes[:2]), "its codes have 2 and 4 codebooks"),
    ],
)
def test_verify_finds_damaged_codes(
    damage: Callable[[Path], None], words: str, corpus: Path, extend: Extend, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert extend(write_lines(corpus / "m.json", mini()[:6]), out).code == 0
    damage(Path(read_lines(out / NAME)[0][TARGET]))
    checked = prepcli("verify", out, "--json")
    assert checked.code == 1
    problems = [problem for problem in checked.json["problems"] if problem.startswith(f"{NAME}:1:")]
    assert words in problems[0]
    assert any("its hash differs" in problem or "missing" in problem for problem in checked.json["problems"])


def encoded(corpus: Path, extend: Extend, *options: object) -> Path:
    """The OUT of a few records of one file each, and of three segments of another."""
    records = [*mini()[:3], *read_lines(MINI_CORPUS / "segments.json")[:3]]
    out = corpus.parent / "out"
    assert extend(write_lines(corpus / "m.json", records), out, "--pool-duration", 5, *options).code == 0
    return out


@pytest.mark.parametrize("field", ["audio_filepath", "context_audio_filepath"])
def test_audio_that_was_replaced(corpus: Path, extend: Extend, field: str) -> None:
    """By other audio of the same length; a copy, or another date, changes nothing."""
    out = encoded(corpus, extend)
    audio = corpus / mini()[1][field]
    shutil.copyfile(audio, corpus / "copy")
    (corpus / "copy").rename(audio)
    assert extend(corpus / "m.json", out, "--pool-duration", 5, "--json").json["status"] == "nothing_to_do"
    assert prepcli("verify", out).code == 0
    samples, rate = soundfile.read(audio, dtype="int16")
    soundfile.write(audio, samples[::-1], rate)
    done = extend(corpus / "m.json", out, "--pool-duration", 5)
    assert (done.code, f"{audio} holds other audio than the codes" in done.error_line) == (2, True)
    for named in (out, out / NAME):
        problems = prepcli("verify", named, "--json").json["problems"]
        assert problems == [
            f"codes_toy: made of other audio than {audio} holds now; run extend-codec-codes again with --overwrite"
        ]
    audio.unlink()
    assert extend(corpus / "m.json", out, "--pool-duration", 5, "--json").json["status"] == "nothing_to_do"
    assert any("1 audio files are not where" in note for note in prepcli("verify", out, "--json").json["notes"])


def test_verify_of_the_manifest_compares_the_codes_that_it_names(corpus: Path, extend: Extend) -> None:
    out = encoded(corpus, extend)
    first, second = (Path(line[TARGET]) for line in read_lines(out / NAME)[:2])
    shutil.copyfile(first, second)
    expected = f"{second.relative_to(out)}: not the bytes that were published (its hash differs)"
    for named in (out, out / NAME):
        assert expected in prepcli("verify", named, "--json").json["problems"]


@pytest.mark.parametrize("path", ["codes_toy/s01/s01_u1.pt", 7])
def test_verify_wants_whole_paths_of_codes(path: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As training reads them from another folder; here a relative path would be found."""
    monkeypatch.chdir(tmp_path)
    Path("codes_toy/s01").mkdir(parents=True)
    torch.save(torch.zeros((4, 100), dtype=torch.int16), "codes_toy/s01/s01_u1.pt")
    record = Record.parse(json.dumps({"audio_filepath": "a.wav", "duration": 1.0, TARGET: path}).encode())
    assert list(CodesFiles(0.01).check(record)) == [f"{TARGET} is {path!r}, not an absolute path"]


def test_status_and_inspect_know_the_run(corpus: Path, extend: Extend, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert extend(corpus / "manifest_with_context.json", out).code == 0
    shown = prepcli("status", out, "--json").json
    assert (shown["command"], shown["records_out"]) == ("extend-codec-codes", 48)
    inspected = prepcli("inspect", out).out
    assert "48 checked, all readable" in inspected  # relative paths start where the run has found them
    assert TARGET in inspected
