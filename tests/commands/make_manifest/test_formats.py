"""What make-manifest reads: odd names, links, ambiguous names, broken lines, and what it refuses."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from prepcli.commands.make_manifest import formats
from tests.conftest import Lines, read_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli


def make(source: Path, out: Path, *options: object, code: int = 0) -> Outcome:
    """Run make-manifest, with any number of rejects allowed."""
    done = prepcli("make-manifest", source, out, "--max-rejects", 1000, *options)
    assert done.code == code, done.err
    return done


def rejects(out: Path) -> Lines:
    return read_lines(out.with_name(out.name + ".prepcli") / "rejects.jsonl")


def paths(out: Path) -> list[str]:
    return [record["audio_filepath"] for record in read_lines(out)]


def write_lines_of(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


class TestFolders:
    def test_order_and_paths(self, audio: Path) -> None:
        write_audio(audio / "a-b/z.wav", 0.1)  # "-" comes before "/"
        make(audio, audio / "manifest.json")
        assert paths(audio / "manifest.json") == ["a-b/z.wav", "a/x.wav", "b/x.wav", "b/y.flac"]
        assert read_lines(audio / "manifest.json")[3] == {"audio_filepath": "b/y.flac", "duration": 1.0}
        foreign = audio.parent / "lists/manifest.json"
        write_lines_of(foreign, "of somebody else")
        refused = make(audio, foreign, code=2).error_line
        assert f"{foreign} exists, and may be yours: " in refused
        assert "Choose another file, or move this one away, and run the same command again" in refused
        assert foreign.read_text() == "of somebody else\n"
        foreign.unlink()
        make(audio, foreign)
        assert paths(audio.parent / "lists/manifest.json")[0] == "../audio/a-b/z.wav"
        make(audio, audio.parent / "absolute.json", "--absolute-paths")
        assert paths(audio.parent / "absolute.json")[0] == str(audio / "a-b/z.wav")

    def test_files_come_in_order(self, audio: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        names = sorted(f"{number * 7 % 23}.wav" for number in range(23))
        for name in names:
            write_audio(audio / "many" / name, 0.01)
        monkeypatch.setattr(formats, "_YIELDED_AT_ONCE", 4)
        assert list(formats.Walk(str(audio / "many")).files()) == names

    def test_names_and_other_files(self, audio: Path) -> None:
        odd = ["naïve\n目录.wav", 'it\'s "odd", 100%.wav', " blank .WAV", "[0..3].wav", "-rf.wav"]
        for name in odd:
            (audio / name).write_bytes((audio / "a/x.wav").read_bytes())
        for name in ("._x.wav", ".hidden/x.wav", "notes.txt", "out.json.prepcli/x.wav"):
            (audio / name).parent.mkdir(exist_ok=True)
            (audio / name).write_bytes((audio / "a/x.wav").read_bytes())
        done = make(audio, audio / "out.json")
        assert set(paths(audio / "out.json")) == {*odd, "a/x.wav", "b/x.wav", "b/y.flac"}
        assert "1 file is not audio by its name (1 .txt)" in done.out

    def test_a_name_that_is_not_utf8(self, audio: Path) -> None:
        (audio / os.fsdecode(b"\xff.wav")).write_bytes((audio / "a/x.wav").read_bytes())
        make(audio, audio.parent / "m.json")
        assert len(read_lines(audio.parent / "m.json")) == 3
        assert [(r["reject_reason"], r["source_text"]) for r in rejects(audio.parent / "m.json")] == [
            ("not_utf8", "\\xff.wav")
        ]

    def test_links_are_followed_and_loops_are_not(self, audio: Path) -> None:
        (audio / "a/up").symlink_to(audio)
        (audio / "b/self").symlink_to(".")
        (audio / "other").symlink_to(audio / "a")
        (audio / "gone.wav").symlink_to(audio / "nowhere.wav")
        done = make(audio, audio / "m.json")
        assert paths(audio / "m.json") == ["a/x.wav", "b/x.wav", "b/y.flac", "other/x.wav"]
        assert "links to a folder above themselves were not followed: 3" in done.out
        assert [r["reject_reason"] for r in rejects(audio / "m.json")] == ["missing_audio"]
        (audio / "loop").symlink_to("loop")
        assert "loop: Too many levels of symbolic links" in make(audio, audio / "n.json", code=2).error_line

    @pytest.mark.parametrize("name", ["p.json", "p.jsonl.gz", "p.csv", "p", "p.tar", "wav.scp"])
    def test_a_pipe_is_not_waited_for(self, name: str, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / name)
        assert (
            "source is a pipe or a device, not a file" in make(tmp_path / name, tmp_path / "m.json", code=2).error_line
        )

    def test_paths_hold_through_a_linked_output_folder(self, audio: Path, tmp_path: Path) -> None:
        (tmp_path / "deep/down").mkdir(parents=True)
        (tmp_path / "link").symlink_to(tmp_path / "deep/down")
        make(audio, tmp_path / "link/m.json")
        assert all((tmp_path / "link" / path).exists() for path in paths(tmp_path / "link/m.json"))

    def test_unusable_audio_is_a_reject(self, audio: Path) -> None:
        (audio / "a/cut.wav").write_bytes((audio / "a/x.wav").read_bytes()[:-100])
        (audio / "a/empty.wav").write_bytes(b"")
        make(audio, audio / "m.json")
        found = {r["audio_filepath"]: r["reject_reason"] for r in rejects(audio / "m.json")}
        assert found == {"a/cut.wav": "unreadable_audio", "a/empty.wav": "unreadable_audio"}

    def test_a_base_folder_has_no_effect(self, audio: Path) -> None:
        done = make(audio, audio / "m.json", "--audio-base-dir", audio, code=2)
        assert "--audio-base-dir is for sources that name their audio" in done.error_line

    def test_no_audio(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        done = make(tmp_path, tmp_path / "m.json", code=2)
        assert "names no audio (1 file is not audio by its name (1 .txt))" in done.error_line


class TestLists:
    def test_a_list_of_paths(self, audio: Path) -> None:
        listed = write_lines_of(audio / "list.txt", "b/y.flac", "", str(audio / "a/x.wav"), "b/x y.wav")
        write_audio(audio / "b/x y.wav", 0.25)
        done = make(listed, audio / "m.json")
        assert paths(audio / "m.json") == ["b/y.flac", "a/x.wav", "b/x y.wav"]
        assert "is read as list: it holds a list of paths such as 'b/y.flac'" in done.out

    def test_compressed(self, audio: Path) -> None:
        (audio / "list.txt.gz").write_bytes(gzip.compress(b"b/y.flac\na/x.wav\n"))
        make(audio / "list.txt.gz", audio / "m.json")
        assert paths(audio / "m.json") == ["b/y.flac", "a/x.wav"]

    def test_a_file_list(self, audio: Path) -> None:
        listed = write_lines_of(audio / "list.txt", "b/y.flac|one", "a/x.wav|two|me", "a|b|c|d", "gone.wav|three")
        make(listed, audio / "m.json")
        assert [(r.get("text"), r.get("speaker")) for r in read_lines(audio / "m.json")] == [("one", None)]
        assert [(r["manifest_line"], r["reject_reason"]) for r in rejects(audio / "m.json")] == [
            (2, "bad_field"),
            (3, "bad_field"),
            (4, "missing_audio"),
        ]
        details = [r["reject_detail"] for r in rejects(audio / "m.json")]
        assert details[:2] == [f"the row has {count} columns, the table has 2" for count in (3, 4)]

    def test_where_relative_paths_are(self, audio: Path, tmp_path: Path) -> None:
        listed = write_lines_of(audio / "lists/list.txt", "b/y.flac", "a/x.wav")
        done = prepcli("make-manifest", listed, tmp_path / "m.json")
        assert done.code == 2
        assert f"give --audio-base-dir {audio}" in done.error_line
        make(listed, tmp_path / "m.json", "--audio-base-dir", audio)
        assert paths(tmp_path / "m.json") == ["audio/b/y.flac", "audio/a/x.wav"]


def cut(path: Path, **changes: Any) -> dict[str, Any]:
    source = {"type": "file", "channels": [0], "source": str(path)}
    recording = {"id": "r", "sources": [source], "sampling_rate": 8000, "num_samples": 8000, "duration": 1.0}
    return {"id": "c", "type": "MonoCut", "start": 0, "duration": 1.0, "channel": 0, "recording": recording} | changes


def test_cuts(audio: Path, tmp_path: Path) -> None:
    path = audio / "b/y.flac"
    whole = cut(path)
    speech = {"id": "s", "text": "hi", "speaker": "me", "language": "en", "custom": {"id": "utt7", "snr": 9}}
    part = cut(path, id="p", start=0.25, duration=0.5, supervisions=[speech])
    source = {"type": "command", "channels": [0], "source": "cat x |"}
    two = whole["recording"]["sources"] * 2
    bad = [
        cut(path, recording=whole["recording"] | {"sources": [source]}),
        cut(path, recording=whole["recording"] | {"sources": two}),
        cut(path, recording=whole["recording"] | {"transforms": [{"name": "Speed"}]}),
        {"type": "MixedCut", "id": "m", "tracks": []},
        {"type": "MonoCut", "id": "n", "duration": 1.0},
        {"id": "s", "recording_id": "r", "start": 0.0, "duration": 1.0, "text": "hi"},
    ]
    lines = [json.dumps(one) for one in (whole, part, *bad)]
    make(write_lines_of(tmp_path / "cuts.jsonl", *lines), tmp_path / "m.json")
    segment = {"audio_filepath": "audio/b/y.flac", "duration": 0.5, "offset": 0.25, "text": "hi", "speaker": "me"}
    assert read_lines(tmp_path / "m.json") == [
        {"audio_filepath": "audio/b/y.flac", "duration": 1.0, "id": "c"},
        segment | {"lang": "en", "id": "utt7", "snr": 9},
    ]
    details = [r["reject_detail"] for r in rejects(tmp_path / "m.json")]
    wanted = [
        "of type command",
        "in 2 of the 2 files",
        "transforms",
        "is a MixedCut",
        "no recording",
        "RECORDINGS,SUPER",
    ]
    assert len(details) == len(wanted)
    assert all(part in detail for part, detail in zip(wanted, details, strict=True))


def test_cuts_of_telephone_calls(tmp_path: Path) -> None:
    """One file with both sides, or one for each; a recording of which no channel is chosen stays whole."""
    left, right = (write_audio(tmp_path / f"{name}.wav", 1.0, seed=seed)[:, None] for seed, name in enumerate("ab"))
    soundfile.write(tmp_path / "both.flac", np.hstack([left, right]), 8000)
    both = cut(tmp_path / "both.flac")["recording"]
    both["sources"][0]["channels"] = [0, 1]
    sides = [
        cut(tmp_path / f"{name}.wav")["recording"]["sources"][0] | {"channels": [c]} for c, name in enumerate("ab")
    ]
    apart = both | {"sources": sides}
    lines = [
        *(cut(tmp_path, recording=one, channel=channel) for one in (both, apart) for channel in (0, 1, 2)),
        cut(tmp_path, recording=both, channel=1, start=0.25, duration=0.5, supervisions=[{"id": "s", "text": "hi"}]),
        both,
        apart,
    ]
    lines = [line | {"id": f"call_{number}"} for number, line in enumerate(lines)]
    make(write_lines_of(tmp_path / "cuts.jsonl", *map(json.dumps, lines)), tmp_path / "m.json")
    named = [
        (line["audio_filepath"], line.get("channel"), line.get("offset")) for line in read_lines(tmp_path / "m.json")
    ]
    whole = [("both.flac", 0, None), ("both.flac", 1, None), ("a.wav", None, None), ("b.wav", None, None)]
    assert named == [*whole, ("both.flac", 1, 0.25), ("both.flac", None, None)]
    details = [reject["reject_detail"] for reject in rejects(tmp_path / "m.json")]
    counts = [("channel 2", 0, 1), ("channel 2", 0, 2), ("audio", 2, 2)]
    assert details == [f"its {what} is in {a} of the {b} files of its recording, not in one" for what, a, b in counts]


def test_refused_outputs(audio: Path) -> None:
    assert "is a folder; name a file" in make(audio, audio / "a", code=2).error_line
    swapped = make(audio / "own 9.json", audio / "a", code=2).error_line
    assert f"SOURCE comes first: prepcli make-manifest {audio}/a '{audio}/own 9.json'" in swapped
    listed = write_lines_of(audio / "list.txt", "a/x.wav")
    assert "would replace it" in make(listed, listed, code=2).error_line
    assert "there is no file or folder" in make(audio / "gone", audio / "m.json", code=2).error_line
    for name in ("x.amr", "x.GSM", "x.aac", "x.pcm"):
        (audio / name).write_bytes(b"a recording")
        refused = make(listed, audio / name, "--overwrite", code=2).error_line
        assert "this is a name of audio" in refused
        assert (audio / name).read_bytes() == b"a recording"


def test_a_folder_of_audio_without_headers(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.pcm").write_bytes(bytes(100))
    words = make(tmp_path / "a", tmp_path / "m.json", code=2).error_line
    assert "1 file is not audio by its name (1 .pcm); audio without a header is not read: convert it" in words
