"""Bad input: one clear line that says what to do, and nothing lost."""

import json
import os
import shutil
from pathlib import Path

import pytest

from prepcli.audio.info import AudioInfo
from prepcli.audio.opening import AudioSource
from prepcli.audio.probe import probe
from prepcli.commands.manifest_to_tarred import shards
from tests.conftest import SHORT_CORPUS, make_set, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli

MINI = SHORT_CORPUS / "manifest.json"

GOOD = {"audio_filepath": "good.wav", "duration": 2.0, "text": "fine"}


def line(**changes: object) -> bytes:
    return json.dumps({key: value for key, value in (GOOD | changes).items() if value != "absent"}).encode()


# What stands in the manifest -> the reason, and words of the detail.
BAD_LINES: dict[str, tuple[bytes, str, str]] = {
    "broken JSON": (b'{"audio_filepath": "good.wav", "duration": ', "broken_json", "ends too early"),
    "no object": (b"[1, 2]", "broken_json", "not a JSON object"),
    "not UTF-8": (b'{"audio_filepath": "good.wav", "duration": 2.0, "text": "na\xefve"}', "not_utf8", "0xef"),
    "no path": (line(audio_filepath="absent"), "missing_field", "audio_filepath"),
    "path is a number": (line(audio_filepath=3), "bad_field", "audio_filepath is 3"),
    "no duration": (line(duration="absent"), "bad_duration", "no duration"),
    "negative duration": (line(duration=-1.0), "bad_duration", "duration is -1.0"),
    "zero duration": (line(duration=0), "bad_duration", "duration is 0"),
    "NaN duration": (line(duration=float("nan")), "bad_duration", "duration is null or NaN"),
    "string duration": (line(duration="2.0"), "bad_duration", 'duration is "2.0", a string'),
    "null duration": (line(duration=None), "bad_duration", "duration is null or NaN"),
    "negative offset": (line(offset=-0.5), "bad_offset", "offset is -0.5"),
    "duration beyond the file": (line(duration=3.0), "beyond_audio", "1.000 s after the end"),
    "offset beyond the file": (line(offset=9.0, duration=0.5), "beyond_audio", "not before the end of the audio"),
    "text is a number": (line(text=123), "bad_field", "text is 123; it must be a string"),
    "text is a list": (line(text=["a", "b"]), "bad_field", 'text is ["a", "b"]; it must be a string'),
    "speaker is a list": (line(speaker=["a"]), "bad_field", 'speaker is ["a"]; it must be a string or an integer'),
    "half a character": (line(note={"deep": ["a\ud800"]}), "bad_field", "note holds half of a surrogate pair"),
    "half a character in a name": (line(**{"\ud800": 1}), "bad_field", r'"\ud800" holds half of a surrogate pair'),
    "half a character in a deep name": (line(note={"\udc00": 1}), "bad_field", "note holds half of a surrogate pair"),
    "missing audio": (line(audio_filepath="nowhere.wav"), "missing_audio", "does not exist"),
    "a folder": (line(audio_filepath="folder"), "unreadable_audio", "directory"),
    "a pipe": (line(audio_filepath="pipe"), "unreadable_audio", "not a regular file"),
    "zero bytes": (line(audio_filepath="empty.wav"), "unreadable_audio", "empty"),
    "text named .wav": (line(audio_filepath="text.wav"), "unreadable_audio", "text.wav"),
    "truncated FLAC": (line(audio_filepath="cut.flac"), "unreadable_audio", "ends early"),
    "truncated WAV": (line(audio_filepath="cut.wav"), "unreadable_audio", "ends early"),
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with one good file and every bad one."""
    folder = tmp_path / "corpus"
    write_audio(folder / "good.wav", 2.0)
    write_audio(folder / "whole.flac", 2.0)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "empty.wav").write_bytes(b"")
    (folder / "text.wav").write_text("this is not audio, whatever its name says\n" * 50)
    whole = (folder / "whole.flac").read_bytes()
    (folder / "cut.flac").write_bytes(whole[: len(whole) * 2 // 3])
    (folder / "cut.wav").write_bytes((folder / "good.wav").read_bytes()[:20000])
    return folder


@pytest.mark.parametrize("options", [[], ["--slice-with-offset"], ["--force-codec", "flac"]])
def test_every_bad_record_is_a_reject_with_its_line(corpus: Path, tmp_path: Path, options: list[str]) -> None:
    rows = [line(), *(row for row, _, _ in BAD_LINES.values()), line(text="last")]
    manifest = corpus / "m.json"
    manifest.write_bytes(b"\n".join(rows) + b"\n")
    out = tmp_path / "out"
    done = prepcli("manifest-to-tarred", manifest, out, "--num-shards", 2, "--json", *options)
    assert done.code == 3, done.err
    assert "more than --max-rejects allows" in done.error_line
    report = done.json
    assert report["records_in"] == len(rows) == report["records_out"] + report["rejects"]
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [reject["manifest_line"] for reject in rejects] == [*range(2, len(BAD_LINES) + 2)]
    for name, reject, (raw, reason, words) in zip(BAD_LINES, rejects, BAD_LINES.values(), strict=True):
        assert reject["reject_reason"] == reason, name
        assert words in reject["reject_detail"], (name, reject["reject_detail"])
        assert "\n" not in reject["reject_detail"]
        if reason not in ("broken_json", "not_utf8") and "NaN" not in name and "half" not in name:
            assert reject.items() >= json.loads(raw).items()
    texts = [record["text"] for record in read_lines(out / "tarred_audio_manifest.json")]
    assert texts == ["fine", "last"]
    assert prepcli("verify", out).code == 0
    # The same with a budget that allows it: exit 0, and as quiet as any other run.
    again = prepcli("manifest-to-tarred", manifest, out, "--num-shards", 2, "--max-rejects", len(BAD_LINES), *options)
    assert (again.code, again.err) == (0, "")


def test_nothing_but_rejects(corpus: Path, tmp_path: Path) -> None:
    """All lines broken: listed, counted, exit code 3, and no data set that looks like one."""
    (corpus / "m.json").write_text("{oops\n" * 3)
    done = prepcli("manifest-to-tarred", corpus / "m.json", tmp_path / "out", "--num-shards", 1)
    assert done.code == 3
    assert len(read_lines(tmp_path / "out.prepcli/rejects.jsonl")) == 3
    assert not list((tmp_path / "out").glob("*.tar"))


def test_shards_whose_records_are_all_bad_are_done(corpus: Path, tmp_path: Path) -> None:
    """Or they would be tried for ever. Their (empty) files keep the numbers without a gap."""
    records = [dict(GOOD), *[dict(GOOD, audio_filepath="nowhere.wav")] * 3]
    write_lines(corpus / "m.json", records)
    arguments = ["manifest-to-tarred", corpus / "m.json", tmp_path / "out", "--num-shards", 4, "--max-rejects", 3]
    assert prepcli(*arguments).code == 0
    assert prepcli(*arguments, "--json").json["status"] == "nothing_to_do"
    assert prepcli("verify", tmp_path / "out").code == 0


def test_duplicate_lines_are_kept_and_mentioned(corpus: Path, tmp_path: Path) -> None:
    write_lines(corpus / "m.json", [GOOD, GOOD, GOOD])
    done = prepcli("manifest-to-tarred", corpus / "m.json", tmp_path / "out", "--num-shards", 1, "--json")
    assert done.json["records_out"] == 3
    assert "2 records name the same segment" in done.json["notes"][0]
    assert prepcli("verify", tmp_path / "out").code == 0


def test_names_cannot_leave_the_output(corpus: Path, tmp_path: Path) -> None:
    """An untrusted manifest: paths that climb, absolute paths, control characters, a leading dash."""
    evil = tmp_path / "evil.wav"
    write_audio(evil, 2.0)
    names = ["../evil.wav", str(evil), "../corpus/../evil.wav", "folder/../good.wav", "a\nb.wav", "-rf.wav"]
    for name in ("a\nb.wav", "-rf.wav"):
        shutil.copy(corpus / "good.wav", corpus / name)
    write_lines(corpus / "m.json", [dict(GOOD, audio_filepath=name) for name in names])
    before = {path for path in tmp_path.rglob("*") if "out" not in path.parts[-1]}
    out = tmp_path / "out"
    done = prepcli("manifest-to-tarred", corpus / "m.json", out, "--num-shards", 1)
    assert done.code == 0, done.err
    assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(out)} - before <= {
        tmp_path / "out.prepcli", *(tmp_path / "out.prepcli").rglob("*"),
    }  # fmt: skip
    for record in read_lines(out / "tarred_audio_manifest.json"):
        assert "/" not in record["audio_filepath"]
        assert record["audio_filepath"].isprintable()
        assert not record["audio_filepath"].startswith((".", "/"))
    assert prepcli("verify", out).code == 0


def test_empty_manifest(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    done = prepcli("manifest-to-tarred", tmp_path / "empty.json", tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert "no records in" in done.error_line
    (tmp_path / "skipped.json").write_text('{"audio_filepath": "a.wav", "duration": 1.0, "_skipme": 1}\n')
    done = prepcli("manifest-to-tarred", tmp_path / "skipped.json", tmp_path / "out", "--num-shards", 1)
    assert "all 1 have a true _skipme" in done.error_line


def test_other_settings_or_inputs_are_named(tmp_path: Path) -> None:
    manifest = write_lines(tmp_path / "m.json", read_lines(MINI)[:20])
    arguments = ["manifest-to-tarred", manifest, tmp_path / "out", "--audio-base-dir", SHORT_CORPUS]
    assert prepcli(*arguments, "--num-shards", 2).code == 0
    done = prepcli(*arguments, "--num-shards", 4)
    assert done.code == 2
    assert "--num-shards was 2, now 4" in done.error_line
    write_lines(manifest, read_lines(MINI)[:19])
    done = prepcli(*arguments, "--num-shards", 2)
    assert done.code == 2
    assert "m.json has another content" in done.error_line
    assert prepcli(*arguments, "--num-shards", 2, "--overwrite").code == 0
    assert len(read_lines(tmp_path / "out/tarred_audio_manifest.json")) == 19


def test_batch_script_without_srun(tmp_path: Path) -> None:
    environ = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}
    done = prepcli("manifest-to-tarred", MINI, tmp_path / "out", "--num-shards", 4, environ=environ)
    assert done.code == 2
    assert "write 'srun prepcli ...'" in done.error_line


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file/out", Path("/proc/prepcli")):
        done = prepcli("manifest-to-tarred", MINI, out, "--num-shards", 1)
        assert done.code == 2
        assert f"cannot write to {out}" in done.error_line


@pytest.mark.parametrize("given", ["set/tarred_audio_manifest.json", "set/sharded_manifests/manifest_{0..1}.json"])
def test_the_manifest_of_a_tarred_set_as_input(given: str, tmp_path: Path) -> None:
    make_set("manifest-to-tarred", SHORT_CORPUS / "manifest.json", tmp_path / "set", "--num-shards", 2)
    for path in (tmp_path / "set").rglob("*.json"):
        os.utime(path, (1e9, 1e9))  # metadata.yaml has the time of the manifest
    for name, source in (("a", tmp_path / "set"), ("b", tmp_path / given)):
        done = prepcli("manifest-to-tarred", source, tmp_path / name, "--num-shards", 2)
        assert done.code == 0, done.err
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    for tar in (tmp_path / "set").glob("*.tar"):
        tar.unlink()
    done = prepcli("manifest-to-tarred", tmp_path / given, tmp_path / "out", "--num-shards", 2)
    assert done.code == 2


@pytest.mark.parametrize("slices", [(), ("--slice-with-offset",)])
def test_a_damaged_file_is_decoded_once_for_all_its_segments(
    slices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 396 segments decoded one of three hours as far as it goes: 14 minutes before all were rejected."""
    write_audio(tmp_path / "cut.flac", 4.0)
    data = (tmp_path / "cut.flac").read_bytes()
    (tmp_path / "cut.flac").write_bytes(data[: len(data) // 2])
    segment = {"audio_filepath": "cut.flac", "duration": 0.5, "text": "a"}
    write_lines(tmp_path / "m.json", [segment | {"offset": 0.5 * number} for number in range(6)])

    def counted(source: AudioSource, name: str) -> AudioInfo:
        with (tmp_path / "probed").open("a") as file:  # by a worker, too
            file.write(f"{name}\n")
        return probe(source, name)

    monkeypatch.setattr(shards, "probe", counted)
    done = prepcli("manifest-to-tarred", tmp_path / "m.json", tmp_path / "out", "--num-shards", 1, *slices)
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert (done.code, len(rejects), {one["reject_reason"] for one in rejects}) == (3, 6, {"unreadable_audio"})
    assert len({one["reject_detail"] for one in rejects}) == 1
    assert (tmp_path / "probed").read_text().splitlines() == [str(tmp_path / "cut.flac")]
