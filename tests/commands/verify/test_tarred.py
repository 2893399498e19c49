"""verify finds every way in which a set can be broken, with and without the records beside it."""

import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from tests.conftest import SHORT_CORPUS, Lines, copy_set, read_lines, write_lines
from tests.support.audio_files import samples, write_short_corpus
from tests.support.running import prepcli


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    manifest = write_short_corpus(folder, 24)
    assert prepcli("manifest-to-tarred", manifest, folder / "out", "--num-shards", 3).code == 0
    return folder / "out"


def rewrite_tar(path: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> None:
    with tarfile.open(path) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def rewrite_both(out: Path, change: Callable[[list[dict]], None]) -> None:
    """Change the lines of shard 1 in its own manifest and in the whole one."""
    shard = out / "sharded_manifests/manifest_1.json"
    lines = read_lines(shard)
    change(lines)
    write_lines(shard, lines)
    others = [read_lines(out / f"sharded_manifests/manifest_{number}.json") for number in (0, 2)]
    write_lines(out / "tarred_audio_manifest.json", others[0] + lines + others[1])


def cut_within_a_member(out: Path) -> None:
    os.truncate(out / "audio_1.tar", (out / "audio_1.tar").stat().st_size // 2 + 100)


def cut_between_members(out: Path) -> None:
    """GNU tar, tarfile, NeMo and webdataset all take this for a whole archive."""
    path = out / "audio_1.tar"
    with tarfile.open(path) as tar:
        third = tar.getmembers()[3]
    os.truncate(path, third.offset)


def cut_off_the_end_blocks(out: Path) -> None:
    path = out / "audio_1.tar"
    os.truncate(path, path.stat().st_size - 1024)


def damage_audio(out: Path) -> None:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info, data = members[2]
        members[2] = (info, data[:100] + bytes(1000) + data[1100:])

    rewrite_tar(out / "audio_1.tar", change)


def lose_a_member(out: Path) -> None:
    rewrite_tar(out / "audio_1.tar", lambda members: members.pop(4) and None)


def add_a_member(out: Path) -> None:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members.append((tarfile.TarInfo("extra.flac"), members[0][1]))

    rewrite_tar(out / "audio_1.tar", change)


def add_a_member_twice(out: Path) -> None:
    rewrite_tar(out / "audio_1.tar", lambda members: members.append(members[0]))


def bad_member_name(out: Path) -> None:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members[0][0].name = "./folder/a.b.flac"

    rewrite_tar(out / "audio_1.tar", change)


def other_codec_than_the_name_says(out: Path) -> None:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info, data = members[0]
        audio, rate = soundfile.read(io.BytesIO(data), dtype="int16")
        file = io.BytesIO()
        soundfile.write(file, audio, rate, format="WAV")
        members[0] = (info, file.getvalue())

    rewrite_tar(out / "audio_1.tar", change)


def longer_than_the_audio(out: Path) -> None:
    rewrite_both(out, lambda lines: lines[3].update(duration=lines[3]["duration"] + 0.03))


def shorter_than_the_audio(out: Path) -> None:
    rewrite_both(out, lambda lines: lines[3].update(duration=lines[3]["duration"] - 0.03))


def lose_a_line(out: Path) -> None:
    rewrite_both(out, lambda lines: lines.__delitem__(3))


def move_a_line_to_another_shard(out: Path) -> None:
    rewrite_both(out, lambda lines: lines[3].update(shard_id=2))


def lose_a_line_of_the_whole_manifest(out: Path) -> None:
    lines = read_lines(out / "tarred_audio_manifest.json")
    write_lines(out / "tarred_audio_manifest.json", lines[:-1])


def change_a_line_of_the_whole_manifest(out: Path) -> None:
    lines = read_lines(out / "tarred_audio_manifest.json")
    lines[0]["text"] = "another"
    write_lines(out / "tarred_audio_manifest.json", lines)


def add_a_line_of_no_shard(out: Path) -> None:
    lines = read_lines(out / "tarred_audio_manifest.json")
    write_lines(out / "tarred_audio_manifest.json", [*lines, lines[0] | {"shard_id": 3}])


def blank_line(out: Path) -> None:
    with (out / "sharded_manifests/manifest_1.json").open("a") as file:
        file.write("\n")


def broken_line(out: Path) -> None:
    path = out / "sharded_manifests/manifest_1.json"
    path.write_bytes(path.read_bytes()[:-20])


def lose_a_tar(out: Path) -> None:
    (out / "audio_1.tar").unlink()


def lose_a_shard(out: Path) -> None:
    (out / "audio_2.tar").unlink()
    (out / "sharded_manifests/manifest_2.json").unlink()


def lose_the_metadata(out: Path) -> None:
    (out / "metadata.yaml").unlink()


DAMAGE: dict[Callable[[Path], None], str] = {
    cut_within_a_member: "audio_1.tar: broken after",
    cut_between_members: "audio_1.tar: cut off",
    cut_off_the_end_blocks: "audio_1.tar: cut off",
    damage_audio: "audio_1.tar: ",
    lose_a_member: "is not in the tar",
    add_a_member: "member extra.flac has no line",
    add_a_member_twice: "occurs twice",
    bad_member_name: "one dot and no folder",
    other_codec_than_the_name_says: "holds wav",
    longer_than_the_audio: "manifest_1.json:4: ends at",
    shorter_than_the_audio: "manifest_1.json:4: duration is",
    lose_a_line: "has no line in manifest_1.json",
    move_a_line_to_another_shard: "shard_id is 2, not 1",
    lose_a_line_of_the_whole_manifest: "tarred_audio_manifest.json: its 7 lines of shard 2 are not the 8",
    change_a_line_of_the_whole_manifest: "tarred_audio_manifest.json: its 8 lines of shard 0 are not",
    add_a_line_of_no_shard: "tarred_audio_manifest.json: names shard 3, which does not exist",
    blank_line: "a blank line",
    broken_line: "manifest_1.json:8: ",
    lose_a_tar: "audio_1.tar: shards must be numbered",
    lose_a_shard: "audio_2.tar: shards must be numbered",
    lose_the_metadata: "metadata.yaml: ",
}


@pytest.mark.parametrize("records", ["with records", "without records"])
def test_what_is_whole(whole: Path, tmp_path: Path, records: str) -> None:
    """Or the next test would prove nothing."""
    assert prepcli("verify", copy_set(whole, tmp_path, records=records == "with records")).code == 0


@pytest.mark.parametrize("records", ["with records", "without records"])
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_is_found(whole: Path, tmp_path: Path, damage: Callable[[Path], None], records: str) -> None:
    out = copy_set(whole, tmp_path, records=records == "with records")
    damage(out)
    done = prepcli("verify", out, "--json")
    if damage is lose_the_metadata and records == "without records":  # a set of others may have none
        assert (done.code, done.json["problems"]) == (0, [])
        assert done.json["notes"] == ["metadata.yaml is missing: trainers do without it, --concat-to does not"]
        return
    assert done.code == 1, done.err
    assert any(DAMAGE[damage] in problem for problem in done.json["problems"]), done.json["problems"]
    assert done.json["status"] == "broken"
    assert done.err == ""


def test_bytes_that_still_make_sense_are_found_by_their_hash(whole: Path, tmp_path: Path) -> None:
    """Other audio of the same length under the same name: only the published hash can tell."""

    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info, data = members[0]
        audio, rate = soundfile.read(io.BytesIO(data), dtype="int16")
        file = io.BytesIO()
        soundfile.write(file, samples(len(audio) / rate, rate)[: len(audio)], rate, format="FLAC")
        members[0] = (info, file.getvalue())

    out = copy_set(whole, tmp_path, records=True)
    rewrite_tar(out / "audio_1.tar", change)
    assert "its hash differs" in prepcli("verify", out).out
    shutil.rmtree(tmp_path / "out.prepcli")
    done = prepcli("verify", out)
    assert (done.code, "audio_1.tar.idx: " in done.out) == (1, True)
    (out / "audio_1.tar.idx").unlink()
    done = prepcli("verify", out)
    assert done.code == 0
    assert "unknown (no OUT.prepcli)" in done.out


def test_how_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    """Its size is right, so the run is finished: `verify` says what to do."""
    out = tmp_path / "out"
    make = ("manifest-to-tarred", SHORT_CORPUS / "manifest.json", out, "--num-shards", 2)
    assert prepcli(*make).code == 0
    tar = out / "audio_1.tar"
    data = bytearray(tar.read_bytes())
    data[600] ^= 1
    tar.write_bytes(data)
    assert "to make a damaged file again, delete it and run the command again: cd /" in prepcli("verify", out).out
    assert prepcli(*make).code == 0
    tar.unlink()
    assert prepcli(*make).code == 0
    assert prepcli("verify", out).code == 0


def test_without_manifests_of_shards_the_problems_name_the_one_that_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("manifest-to-tarred", SHORT_CORPUS / "manifest.json", out, "--num-shards", 2, "--no-shard-manifests")
    assert prepcli(*command).code == 0
    whole = out / "tarred_audio_manifest.json"
    lines = whole.read_bytes().splitlines(keepends=True)
    whole.write_bytes(b"".join([*lines[:26], b"{}\n", *lines[27:]]))  # which is of no shard
    lose_a_member(out)
    problems = "\n".join(prepcli("verify", out, "--json").json["problems"])
    assert "tarred_audio_manifest.json:27: no usable line with a shard_id" in problems
    assert "has no line in tarred_audio_manifest.json" in problems
    assert re.search(r"tarred_audio_manifest\.json: line \d+ of shard 1: \S+ is not in the tar", problems)
    assert not re.search(r"manifest_\d", problems)


def test_a_shard_without_a_line_and_no_manifests_of_shards(tmp_path: Path) -> None:
    records = read_lines(SHORT_CORPUS / "manifest.json")[:4]
    for record in records[:2]:
        record["audio_filepath"] = "gone.wav"
    manifest, out = write_lines(tmp_path / "m.json", records), tmp_path / "out"
    options = ["--num-shards", 2, "--no-shard-manifests", "--audio-base-dir", SHORT_CORPUS, "--max-rejects", 2]
    assert prepcli("manifest-to-tarred", manifest, out, *options).code == 0
    done = prepcli("verify", out, "--json")
    assert (done.code, done.json["problems"], done.json["records"]) == (0, [], 2)


@pytest.mark.parametrize("name", ["audio_3.tar", "sharded_manifests/manifest_3.json"])
def test_a_pipe_or_a_broken_link_in_the_set(whole: Path, name: str, tmp_path: Path) -> None:
    """Loaders that list the folder would wait for the pipe, or fail."""
    out = copy_set(whole, tmp_path, records=True)
    os.mkfifo(out / name)
    checked = prepcli("verify", out, "--json")
    assert checked.code == 1
    assert checked.json["problems"] == [f"{name}: not a regular file but a pipe, a device or a broken link"]
    (out / name).unlink()
    (out / name).symlink_to("nowhere")
    assert prepcli("verify", out).code == 1


@pytest.mark.parametrize("options", [(), ("--no-shard-manifests",)])
def test_a_set_of_manifests_alone(options: tuple[str, ...], tmp_path: Path) -> None:
    """It is as it was asked for, and `ok` alone would say that its audio was checked."""
    out = tmp_path / "out"
    make = ("manifest-to-tarred", SHORT_CORPUS / "manifest.json", out, "--num-shards", 2, *options)
    assert prepcli(*make, "--only-manifests").code == 0
    done = prepcli("verify", out, "--json")
    assert (done.code, done.json["records"]) == (0, 48)
    assert done.json["notes"] == [f"{out} has no tars, as with --only-manifests: only its manifests were checked"]
    for command in (("blend", f"a={out}", tmp_path / "x.yaml"), ("index", out), ("convert-audio", out, tmp_path / "x")):
        refused = prepcli(*command)
        assert refused.code == 2
        assert "without its tars; bring them back, or make them: run its command with --over" in refused.error_line
    assert prepcli(*make, "--overwrite").code == 0
    assert prepcli("verify", out, "--json").json["notes"] == []


def set_of_others(folder: Path, lines: Lines, suffix: str = ".wav", rate: int = 16000) -> Path:
    """A tarred set that another program has made: one tar, with the member `x`, and the manifest of the whole set."""
    folder.mkdir()
    soundfile.write(folder / "x.wav", samples(3.0, rate), rate)
    with tarfile.open(folder / "audio_0.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(folder / "x.wav", f"x{suffix}")
    (folder / "x.wav").unlink()
    write_lines(folder / "tarred_audio_manifest.json", [line | {"shard_id": 0} for line in lines])
    return folder


def segments(suffix: str = ".wav") -> Lines:
    return [
        {"audio_filepath": f"x-sub1{suffix}", "duration": 1.0, "offset": 0.0, "text": "a"},
        {"audio_filepath": f"x-sub2{suffix}", "duration": 1.5, "offset": 1.5, "text": "b"},
    ]


@pytest.mark.parametrize("suffix", [".wav", ".WAV"])
@pytest.mark.parametrize("argument", ["", "tarred_audio_manifest.json"])
def test_segments_of_one_member_as_nemo_reads_them(tmp_path: Path, suffix: str, argument: str) -> None:
    out = set_of_others(tmp_path / "out", segments(suffix), suffix)
    done = prepcli("verify", out / argument, "--json")
    assert (done.code, done.json["problems"], done.json["records"]) == (0, [], 2)


def test_rules_of_the_gate_are_those_of_the_reader(tmp_path: Path) -> None:
    """A line that a command would reject is a problem; missing values are not."""
    first, second = segments()
    lines: Lines = [
        first | {"text": 12},
        second | {"speaker": float("nan"), "sampling_rate": 16000, "sample_rate": None},
        second | {"sampling_rate": 8000},
        second | {"sample_rate": "16000"},
        second | {"audio_filepath": "y-sub1.wav"},
    ]
    done = prepcli("verify", set_of_others(tmp_path / "out", lines), "--json")
    assert done.code == 1
    assert [problem.partition(" of shard 0: ")[2] for problem in done.json["problems"]] == [
        "text is 12; it must be a string",
        "sampling_rate is 8000, but the audio has 16000 Hz",
        'sample_rate is "16000", but the audio has 16000 Hz',
        "y-sub1.wav is not in the tar",
    ]


def test_audio_is_read_as_trainers_read_it(tmp_path: Path) -> None:
    """A file in two pieces is audio for prepcli, which joins them, but soundfile cannot open it."""
    sound = samples(1, 16000)
    path = tmp_path / "a.wav"
    soundfile.write(path, sound, 16000)
    manifest = write_lines(tmp_path / "m.json", [{"audio_filepath": "a.wav", "duration": 1.0, "text": "a"}])
    assert prepcli("manifest-to-tarred", manifest, tmp_path / "out", "--num-shards", 1).code == 0

    def in_pieces(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        member, data = members[0]
        half = (len(data) - 44) // 2
        size = half.to_bytes(4, "little")
        members[0] = member, data[:40] + size + data[44 : 44 + half] + b"data" + size + data[44 + half :]

    rewrite_tar(tmp_path / "out/audio_0.tar", in_pieces)
    done = prepcli("verify", tmp_path / "out")
    assert done.code != 0
    assert "a.wav cannot be read by soundfile, as trainers do" in done.out
