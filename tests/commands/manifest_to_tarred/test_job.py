"""manifest-to-tarred: what goes in, what comes out, to the byte and to the sample."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import make_set, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli


def tar_members(path: Path) -> dict[str, bytes]:
    """Members by name, read by Python's own reader; a name that is there twice fails."""
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert len({member.name for member in members}) == len(members)
        return {member.name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def make(manifest: Path, out: Path, *options: object) -> Outcome:
    return make_set("manifest-to-tarred", manifest, out, *options)


def shard(out: Path, number: int) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    return read_lines(out / f"sharded_manifests/manifest_{number}.json"), tar_members(out / f"audio_{number}.tar")


@pytest.fixture
def segments(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """Ten segments of one WAV file of 20 s, two of them 4 ms apart, one exactly repeated."""
    audio = write_audio(tmp_path / "long/talk.wav", 20.0)
    offsets = [0.0, 1.5, 1.504, 3.25, 7.125, 8.0, 10.3331, 12.7, 12.7, 17.1]
    durations = [1.5, 2.0, 2.0, 0.7231, 0.5, 2.3339, 2.0, 3.1, 3.1, 2.9]
    records = [
        {"audio_filepath": "long/talk.wav", "offset": offset, "duration": duration, "text": f"segment {number}"}
        for number, (offset, duration) in enumerate(zip(offsets, durations, strict=True))
    ]
    return write_lines(tmp_path / "segments.json", records), audio


def test_files_are_copied_byte_for_byte(short_corpus: Path, tmp_path: Path) -> None:
    report = make(short_corpus / "manifest.json", tmp_path / "out", "--num-shards", 5).json
    assert (report["records_in"], report["records_out"], report["rejects"]) == (48, 48, 0)
    source = read_lines(short_corpus / "manifest.json")
    found = []
    for number in range(5):
        lines, members = shard(tmp_path / "out", number)
        assert len(lines) in (9, 10)
        assert [line["shard_id"] for line in lines] == [number] * len(lines)
        assert list(members) == [line["audio_filepath"] for line in lines]
        found += [(line, members[line["audio_filepath"]]) for line in lines]
    for before, (after, data) in zip(source, found, strict=True):
        assert data == (short_corpus / before["audio_filepath"]).read_bytes()
        added = {"audio_filepath": 0, "shard_id": 0, "sampling_rate": soundfile.info(io.BytesIO(data)).samplerate}
        assert {**before, **added} == {**after, "audio_filepath": 0, "shard_id": 0}


def test_unknown_fields_and_the_text_of_numbers_survive(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.5)
    line = '{"x": 1.500, "audio_filepath": "a.wav", "duration": 1.50, "text": "naïve", "nested": {"k": [1, 2.0]}}\n'
    (tmp_path / "m.json").write_text(line, encoding="utf-8")
    make(tmp_path / "m.json", tmp_path / "out", "--num-shards", 1)
    written = (tmp_path / "out/sharded_manifests/manifest_0.json").read_text(encoding="utf-8")
    assert '"x": 1.500' in written
    assert '"duration": 1.50,' in written
    assert '"text": "naïve"' in written
    assert '"nested": {"k": [1, 2.0]}' in written


def test_segments_share_one_member(segments: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    manifest, _ = segments
    report = make(manifest, tmp_path / "out", "--num-shards", 1).json
    lines, members = shard(tmp_path / "out", 0)
    assert list(members) == ["long_talk.wav"]
    assert members["long_talk.wav"] == (tmp_path / "long/talk.wav").read_bytes()
    assert [line["offset"] for line in lines] == [line["offset"] for line in read_lines(manifest)]
    assert {line["audio_filepath"] for line in lines} == {"long_talk.wav"}
    assert any("1 record names the same segment" in note for note in report["notes"])
    assert not any("several shards" in note for note in report["notes"])


def test_a_file_in_two_shards_has_two_names(segments: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    """NeMo's classic loader looks a member's lines up over the whole manifest, whatever their shard."""
    manifest, _ = segments
    report = make(manifest, tmp_path / "out", "--num-shards", 2).json
    assert any("10 records are segments of files that go into several shards" in note for note in report["notes"])
    names = [list(shard(tmp_path / "out", number)[1]) for number in range(2)]
    assert names == [["long_talk-shard0.wav"], ["long_talk-shard1.wav"]]


def test_keep_files_together(segments: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    manifest, _ = segments
    write_audio(tmp_path / "other.wav", 3.0, seed=5)
    records = read_lines(manifest)
    records.insert(4, {"audio_filepath": "other.wav", "duration": 3.0, "text": "another"})
    write_lines(manifest, records)
    make(manifest, tmp_path / "out", "--num-shards", 2, "--keep-files-together", "--shuffle")
    files = [set(shard(tmp_path / "out", number)[1]) for number in range(2)]
    assert sorted(map(sorted, files)) == [["long_talk.wav"], ["other.wav"]]


@pytest.mark.parametrize("codec", [None, "flac", "wav"])
def test_slices_are_right_to_the_sample(segments: tuple[Path, np.ndarray], tmp_path: Path, codec: str | None) -> None:
    manifest, audio = segments
    options = ["--force-codec", codec] if codec else []
    make(manifest, tmp_path / "out", "--num-shards", 2, "--slice-with-offset", *options)
    found = [(line, shard(tmp_path / "out", k)[1]) for k in range(2) for line in shard(tmp_path / "out", k)[0]]
    for before, (after, members) in zip(read_lines(manifest), found, strict=True):
        assert after["audio_filepath"].endswith(f".{codec or 'wav'}")
        assert "offset" not in after
        assert after["source_audio_offset"] == before["offset"]
        data, rate = soundfile.read(io.BytesIO(members[after["audio_filepath"]]), dtype="int16")
        start = int(before["offset"] * 8000 + 0.5)
        assert rate == 8000
        assert np.array_equal(data, audio[start : start + int(before["duration"] * 8000 + 0.5)])
    names = {after["audio_filepath"] for after, _ in found}
    assert len(names) == 9  # ten segments, one of them repeated


def test_slices_of_24_bits_keep_them(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(-(2**23), 2**23, 16000, dtype=np.int32) << 8
    soundfile.write(tmp_path / "a.wav", data, 16000, subtype="PCM_24")
    record = {"audio_filepath": "a.wav", "offset": 0.25, "duration": 0.5, "text": ""}
    write_lines(tmp_path / "m.json", [record])
    make(tmp_path / "m.json", tmp_path / "o", "--num-shards", 1, "--slice-with-offset", "--force-codec", "flac")
    ((_, stored),) = tar_members(tmp_path / "o/audio_0.tar").items()
    assert np.array_equal(soundfile.read(io.BytesIO(stored), dtype="int32")[0], data[4000:12000])


def test_transcoding_keeps_the_samples_and_leaves_the_right_format_alone(tmp_path: Path) -> None:
    wav = write_audio(tmp_path / "a.wav", 2.0, seed=1)
    write_audio(tmp_path / "b.flac", 2.0, seed=2)
    records = [{"audio_filepath": name, "duration": 2.0, "text": name} for name in ("a.wav", "b.flac")]
    write_lines(tmp_path / "m.json", records)
    make(tmp_path / "m.json", tmp_path / "out", "--num-shards", 1, "--force-codec", "flac")
    lines, members = shard(tmp_path / "out", 0)
    assert [line["audio_filepath"] for line in lines] == list(members) == ["a.flac", "b.flac"]
    assert np.array_equal(soundfile.read(io.BytesIO(members["a.flac"]), dtype="int16")[0], wav)
    assert members["b.flac"] == (tmp_path / "b.flac").read_bytes()


@pytest.mark.parametrize(("codec", "rate"), [("opus", 24000), ("mp3", 22050)])
def test_lossy_codecs(tmp_path: Path, codec: str, rate: int) -> None:
    """Opus has no 22.05 kHz: it becomes the next rate it has. The audio stays recognisable, and as long as it was."""
    time = np.arange(22050 * 2) / 22050
    tone = (8000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16)
    soundfile.write(tmp_path / "tone.wav", tone, 22050)
    record = {"audio_filepath": "tone.wav", "duration": 2.0, "text": "", "sampling_rate": 22050}
    write_lines(tmp_path / "m.json", [record])
    make(tmp_path / "m.json", tmp_path / "out", "--num-shards", 1, "--force-codec", codec)
    (line,), members = shard(tmp_path / "out", 0)
    data, found_rate = soundfile.read(io.BytesIO(members[f"tone.{codec}"]))
    assert found_rate == rate == line["sampling_rate"]
    assert abs(len(data) / rate - 2.0) < 0.02
    assert abs(np.argmax(np.abs(np.fft.rfft(data[rate // 2 : rate * 3 // 2]))) - 440) <= 1


def test_resampling(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0, rate=44100)
    write_audio(tmp_path / "b.wav", 1.0, rate=16000)
    records = [{"audio_filepath": f"{name}.wav", "duration": 1.0, "text": ""} for name in "ab"]
    write_lines(tmp_path / "m.json", records)
    make(tmp_path / "m.json", tmp_path / "out", "--num-shards", 1, "--target-sample-rate", 16000)
    _, members = shard(tmp_path / "out", 0)
    assert [soundfile.info(io.BytesIO(data)).samplerate for data in members.values()] == [16000, 16000]
    assert members["b.wav"] == (tmp_path / "b.wav").read_bytes()


def test_the_extension_names_the_real_format(tmp_path: Path) -> None:
    write_audio(tmp_path / "really.flac", 1.0)
    (tmp_path / "really.flac").rename(tmp_path / "said_to_be.wav")
    write_lines(tmp_path / "m.json", [{"audio_filepath": "said_to_be.wav", "duration": 1.0, "text": ""}])
    make(tmp_path / "m.json", tmp_path / "out", "--num-shards", 1)
    lines, members = shard(tmp_path / "out", 0)
    assert list(members) == [lines[0]["audio_filepath"]] == ["said_to_be.flac"]


def test_names_never_collide(tmp_path: Path) -> None:
    """`a/b/c.wav` and `a_b/c.wav` have one stem; `-sub1` is taken off by NeMo's loader; dots confuse webdataset."""
    paths = ["a/b/c.wav", "a_b/c.wav", "a/b_c.flac", "x-sub1.wav", "x.wav", "v1.0/take.2.wav", "./x.wav", "ü b'\".wav"]
    records = []
    for number, path in enumerate(paths):
        write_audio(tmp_path / path, 1.0 + number * 0.1, seed=number)
        records.append({"audio_filepath": path, "duration": 1.0 + number * 0.1, "text": path})
    records[4]["duration"] = records[6]["duration"]  # `x.wav` and `./x.wav` are one file
    write_lines(tmp_path / "m.json", records)
    make(tmp_path / "m.json", tmp_path / "out", "--num-shards", 1)
    lines, members = shard(tmp_path / "out", 0)
    for path, line in zip(paths, lines, strict=True):
        assert members[line["audio_filepath"]] == (tmp_path / path).read_bytes()
        assert line["audio_filepath"].count(".") == 1
        assert "/" not in line["audio_filepath"]
        assert "-sub1." not in line["audio_filepath"]
    assert len(members) == len(paths) - 1
    assert len({name.rpartition(".")[0] for name in members}) == len(members)  # stems, as the classic loader wants


def test_same_relative_path_in_two_folders_is_two_files(tmp_path: Path) -> None:
    manifests = []
    for number, folder in enumerate(("one", "two")):
        write_audio(tmp_path / folder / "a.wav", 1.0, seed=number)
        record = {"audio_filepath": "a.wav", "duration": 1.0, "text": folder}
        manifests.append(write_lines(tmp_path / folder / "m.json", [record]))
    make(f"{manifests[0]},{manifests[1]}", tmp_path / "out", "--num-shards", 1)  # type: ignore[arg-type]
    lines, members = shard(tmp_path / "out", 0)
    for line in lines:
        assert members[line["audio_filepath"]] == (tmp_path / line["text"] / "a.wav").read_bytes()
    assert len(members) == 2


def test_base_directory_and_absolute_paths(tmp_path: Path) -> None:
    write_audio(tmp_path / "audio/a.wav", 1.0, seed=1)
    write_audio(tmp_path / "elsewhere/b.wav", 1.0, seed=2)
    records = [
        {"audio_filepath": "a.wav", "duration": 1.0, "text": ""},
        {"audio_filepath": str(tmp_path / "elsewhere/b.wav"), "duration": 1.0, "text": ""},
    ]
    write_lines(tmp_path / "m.json", records)
    make(tmp_path / "m.json", tmp_path / "out", "--num-shards", 1, "--audio-base-dir", tmp_path / "audio")
    _, members = shard(tmp_path / "out", 0)
    expected = [(tmp_path / "audio/a.wav").read_bytes(), (tmp_path / "elsewhere/b.wav").read_bytes()]
    assert list(members.values()) == expected


def test_shuffle_is_a_permutation_with_a_seed(short_corpus: Path, tmp_path: Path) -> None:
    def order(name: str, *options: object) -> list[str]:
        make(short_corpus / "manifest.json", tmp_path / name, "--num-shards", 4, *options)
        return [line["text"] for line in read_lines(tmp_path / name / "tarred_audio_manifest.json")]

    plain = order("plain")
    first, again, other = (
        order(name, "--shuffle", "--shuffle-seed", seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == again
    assert first != plain
    assert first != other
    assert sorted(first) == sorted(plain) == sorted(other)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_sorted_within_shards(short_corpus: Path, tmp_path: Path) -> None:
    make(short_corpus / "manifest.json", tmp_path / "out", "--num-shards", 3, "--sort-in-shards")
    for number in range(3):
        durations = [line["duration"] for line in shard(tmp_path / "out", number)[0]]
        assert durations == sorted(durations)


def test_ways_to_say_how_many_shards(mini_corpus: Path, tmp_path: Path) -> None:
    manifest = mini_corpus / "manifest.json"
    make(manifest, tmp_path / "size", "--shard-size", 10)
    sizes = [len(shard(tmp_path / "size", number)[0]) for number in range(5)]
    assert sorted(sizes) == [9, 9, 10, 10, 10]
    make(manifest, tmp_path / "hours", "--shard-hours", 0.01)
    report = make(manifest, tmp_path / "dropped", "--shard-size", 10, "--remainder", "drop").json
    assert [len(shard(tmp_path / "dropped", number)[0]) for number in range(4)] == [10] * 4
    assert report["rejects_by_reason"] == {"remainder_dropped": 8}
    assert [line["manifest_line"] for line in read_lines(tmp_path / "dropped.prepcli/rejects.jsonl")] == [
        *range(41, 49)
    ]
    seconds = [sum(line["duration"] for line in shard(tmp_path / "hours", number)[0]) for number in range(4)]
    assert max(seconds) - min(seconds) < 7.0  # one utterance


def test_duration_limits_list_what_they_leave_out(short_corpus: Path, tmp_path: Path) -> None:
    """As in NeMo's script: min <= duration < max."""
    durations = sorted(line["duration"] for line in read_lines(short_corpus / "manifest.json"))
    low, high = durations[10], durations[-10]
    report = make(
        short_corpus / "manifest.json",
        tmp_path / "out",
        "--num-shards",
        2,
        "--min-duration",
        low,
        "--max-duration",
        high,
    ).json
    kept = sorted(line["duration"] for line in read_lines(tmp_path / "out/tarred_audio_manifest.json"))
    assert kept == [duration for duration in durations if low <= duration < high]
    assert report["records_in"] == 48 == report["records_out"] + report["rejects"]
    assert len(read_lines(tmp_path / "out.prepcli/rejects.jsonl")) == report["rejects"]


def test_compressed_and_several_manifests(short_corpus: Path, tmp_path: Path) -> None:
    import gzip

    records = read_lines(short_corpus / "manifest.json")
    for number in range(3):
        part = records[number * 16 : number * 16 + 16]
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in part)
        (tmp_path / f"part_{number}.json.gz").write_bytes(gzip.compress(text.encode()))
    pattern = tmp_path / "part__OP_0..2_CL_.json.gz"
    make(pattern, tmp_path / "packed", "--num-shards", 4, "--audio-base-dir", short_corpus, "--shuffle")
    make(short_corpus / "manifest.json", tmp_path / "plain", "--num-shards", 4, "--shuffle")
    packed, plain = tree(tmp_path / "packed"), tree(tmp_path / "plain")
    del packed["metadata.yaml"], plain["metadata.yaml"]  # they tell when the inputs changed
    assert packed == plain


def test_skipped_lines_are_passed_over_and_counted(short_corpus: Path, tmp_path: Path) -> None:
    records = read_lines(short_corpus / "manifest.json")
    records[3]["_skipme"] = True
    records[4]["_skipme"] = False
    manifest = write_lines(tmp_path / "m.json", records)
    report = make(manifest, tmp_path / "out", "--num-shards", 2, "--audio-base-dir", short_corpus).json
    assert (report["records_in"], report["records_out"], report["skipped"]) == (47, 47, 1)


def test_the_bytes_do_not_depend_on_workers_or_ranks(short_corpus: Path, tmp_path: Path) -> None:
    options = ["--num-shards", 6, "--shuffle", "--force-codec", "wav"]
    make(short_corpus / "manifest.json", tmp_path / "one", *options, "--num-workers", 1)
    make(short_corpus / "manifest.json", tmp_path / "four", *options, "--num-workers", 4)
    for rank in range(3):
        arguments = [short_corpus / "manifest.json", tmp_path / "three", *options, "--rank", rank, "--world-size", 3]
        assert prepcli("manifest-to-tarred", *arguments).code == 0
    assert tree(tmp_path / "one") == tree(tmp_path / "four") == tree(tmp_path / "three")


def test_rejects_can_be_tried_again(short_corpus: Path, tmp_path: Path) -> None:
    """What was missing is there later: the file of rejects is a manifest, and its records come out as they were."""
    write_audio(tmp_path / "a.wav", 1.0)
    records = [{"audio_filepath": name, "duration": 1.0, "text": name, "score": 0.5} for name in ("a.wav", "late.wav")]
    manifest = write_lines(tmp_path / "m.json", records)
    done = prepcli("manifest-to-tarred", manifest, tmp_path / "out", "--num-shards", 1, "--max-rejects", 1)
    assert done.code == 0
    write_audio(tmp_path / "late.wav", 1.0)
    rejects = tmp_path / "out.prepcli/rejects.jsonl"
    make(rejects, tmp_path / "retry", "--num-shards", 1, "--audio-base-dir", tmp_path)
    (line,) = read_lines(tmp_path / "retry/tarred_audio_manifest.json")
    rate = line.pop("sampling_rate")
    assert rate == soundfile.info(tmp_path / "late.wav").samplerate
    assert line == {"audio_filepath": "late.wav", "duration": 1.0, "text": "late.wav", "score": 0.5, "shard_id": 0}


def test_awkward_directories(awkward: Path) -> None:
    write_audio(awkward / "a b.wav", 1.0)
    manifest = write_lines(awkward / "m.json", [{"audio_filepath": "a b.wav", "duration": 1.0, "text": ""}])
    make(manifest, awkward / "o u t", "--num-shards", 1)


def test_json_summary_is_alone_on_stdout(short_corpus: Path, tmp_path: Path) -> None:
    done = make(short_corpus / "manifest.json", tmp_path / "out", "--num-shards", 2)
    assert done.json["status"] == "done"
    assert done.err == ""
    again = prepcli("manifest-to-tarred", short_corpus / "manifest.json", tmp_path / "out", "--num-shards", 2)
    assert (again.code, again.out.count("\n"), again.err) == (0, 1, "")


def test_dry_run_writes_nothing(short_corpus: Path, tmp_path: Path) -> None:
    arguments = ["manifest-to-tarred", short_corpus / "manifest.json", tmp_path / "out", "--num-shards", 8, "--dry-run"]
    plan = prepcli(*arguments, "--json", "--rank", 0, "--world-size", 3).json
    assert (plan["units"], plan["records_planned"], len(plan["seconds_per_rank"])) == (8, 48, 3)
    assert sum(plan["seconds_per_rank"]) == pytest.approx(plan["seconds"], abs=0.01)
    assert "spread" in prepcli(*arguments).out
    assert list(tmp_path.iterdir()) == []


def test_the_current_folder_as_output(short_corpus: Path, tmp_path: Path) -> None:
    here = tmp_path / "set"
    here.mkdir()
    done = prepcli("manifest-to-tarred", short_corpus / "manifest.json", ".", "--num-shards", 2, cwd=here)
    assert done.code == 0, done.err
    assert (tmp_path / "set.prepcli/report.json").exists()
    assert prepcli("verify", ".", cwd=here).code == 0
    assert prepcli("manifest-to-tarred", short_corpus / "manifest.json", "/", "--num-shards", 2).code == 2


def test_a_set_with_added_shards_is_not_overwritten(mini_corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(mini_corpus / "manifest.json", out, "--num-shards", 2)
    added = prepcli("manifest-to-tarred", mini_corpus / "segments.json", "--concat-to", out, "--num-shards", 1)
    assert added.code == 0, added.err
    before = tree(out)
    done = prepcli("manifest-to-tarred", mini_corpus / "manifest.json", out, "--num-shards", 2, "--overwrite")
    assert done.code == 2
    assert "--overwrite would remove them" in done.error_line
    assert tree(out) == before


@pytest.mark.parametrize("option", ["--overwrite", "--retry-rejects"])
def test_shards_below_added_ones_are_not_changed(option: str, mini_corpus: Path, tmp_path: Path) -> None:
    """The manifest of the later version names them: neither those of the set, nor those of an earlier addition."""
    out = tmp_path / "out"
    missing = write_lines(tmp_path / "m.json", [{"audio_filepath": "away.wav", "duration": 1.0, "text": "x"}])
    options = ["--num-shards", 1, "--audio-base-dir", mini_corpus, "--max-rejects", 99]
    commands = [
        ["manifest-to-tarred", f"{mini_corpus / 'manifest.json'},{missing}", out],
        ["manifest-to-tarred", f"{mini_corpus / 'segments.json'},{missing}", "--concat-to", out],
        ["manifest-to-tarred", mini_corpus / "segments.json", "--concat-to", out, "--allow-duplicates"],
    ]
    for command in commands:
        assert prepcli(*command, *options).code == 0
    before = tree(tmp_path)
    for command in commands[:2]:
        done = prepcli(*command, *options, option)
        assert done.code == 2
        assert f"{option} would" in done.error_line
    after = tree(tmp_path)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == set()
    assert prepcli(*commands[2], *options, option).code == 0
    assert prepcli("verify", out).code == 0


def test_fields_that_follow_from_the_stored_audio(tmp_path: Path) -> None:
    """An offset where a reader would take the whole file, none where there is none, and the rate of what is stored."""
    write_audio(tmp_path / "a.wav", 2.0, 16000)
    records = [{"audio_filepath": "a.wav", "duration": d, "offset": None, "sample_rate": 16000} for d in (0.5, 2.0)]
    manifest = write_lines(tmp_path / "m.json", records)
    make(manifest, tmp_path / "out", "--num-shards", 1, "--target-sample-rate", 8000)
    first, second = read_lines(tmp_path / "out/tarred_audio_manifest.json")
    assert (first["offset"], first["sample_rate"]) == (0.0, 8000)
    assert "offset" not in second
