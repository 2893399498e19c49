"""Recordings and supervisions of lhotse: the join, its rejects, and the files that belong together."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile

from prepcli.commands.make_manifest import lhotse
from prepcli.commands.make_manifest import source as source_module
from prepcli.commands.make_manifest.lhotse import LhotseFiles, lhotse_source
from tests.conftest import Lines, read_lines, write_lines
from tests.support.audio_files import samples, write_audio
from tests.support.running import Outcome, prepcli


def make(source: object, out: Path, *options: object, code: int = 0) -> Outcome:
    done = prepcli("make-manifest", source, out, "--max-rejects", 1000, *options)
    assert done.code == code, done.err
    return done


def details(out: Path) -> list[tuple[str, str]]:
    rejected = read_lines(out.with_name(out.name + ".prepcli") / "rejects.jsonl")
    return [(one["reject_reason"], one["reject_detail"]) for one in rejected]


def recording(id: str, path: Path, duration: float, *channels: int, **more: Any) -> dict[str, Any]:
    source = {"type": "file", "channels": channels or [0], "source": str(path)}
    length = {"sampling_rate": 8000, "num_samples": round(duration * 8000), "duration": duration}
    return {"id": id, "sources": [source], **length, "channel_ids": channels or [0]} | more


def speech(id: str, of: str, start: float, duration: float, **more: Any) -> dict[str, Any]:
    return {"id": id, "recording_id": of, "start": start, "duration": duration, "channel": 0} | more


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Two recordings and their supervisions, neither of them sorted; the folder of both files."""
    write_audio(tmp_path / "a.wav", 10.0)
    soundfile.write(tmp_path / "call.flac", np.stack([samples(4.0), samples(4.0, seed=1)], axis=1), 8000)
    return write_part(
        tmp_path / "corpus",
        [recording("call", tmp_path / "call.flac", 4.0, 0, 1), recording("A", tmp_path / "a.wav", 10.0)],
        [
            speech("A_2", "A", 6.5, 3.25, text="later"),
            speech("c_r", "call", 0.5, 1.0, channel=1, text="right", gender="female"),
            speech("A_1", "A", 3.0, 2.5, text="x", speaker="s", language="English"),
            speech("A_0", "A", 0.0, 10.0, text="all of it"),
            speech("c_l", "call", 0.0, 4.0, channel=[0], text="left"),
        ],
    )


def write_part(folder: Path, recordings: Lines, supervisions: Lines, name: str = "toy_{}_train") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, lines in (("recordings", recordings), ("supervisions", supervisions)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name.format(kind)}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return folder


JOINED = [
    {"audio_filepath": "a.wav", "duration": 3.25, "offset": 6.5, "text": "later", "id": "A_2"},
    {
        "audio_filepath": "call.flac",
        "duration": 1.0,
        "offset": 0.5,
        "text": "right",
        "id": "c_r",
        "gender": "female",
        "channel": 1,
    },
    {
        "audio_filepath": "a.wav",
        "duration": 2.5,
        "offset": 3.0,
        "text": "x",
        "speaker": "s",
        "lang": "en",
        "id": "A_1",
    },
    {"audio_filepath": "a.wav", "duration": 10.0, "text": "all of it", "id": "A_0"},
    {"audio_filepath": "call.flac", "duration": 4.0, "text": "left", "id": "c_l", "channel": 0},
]


def test_all_names_of_a_part(part: Path, tmp_path: Path) -> None:
    recordings, supervisions = (part / f"toy_{kind}_train.jsonl.gz" for kind in ("recordings", "supervisions"))
    sources = (part, recordings, supervisions, f"{recordings},{supervisions}", f"{supervisions},{recordings}")
    for number, source in enumerate(sources):
        out = tmp_path / f"m{number}.json"
        done = make(source, out)
        assert f"{supervisions} is read as lhotse" in done.out + done.err
        assert read_lines(out) == JOINED


def test_ranks_and_a_changed_recording(part: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    for rank in range(2):
        make(part, out, "--rank", rank, "--world-size", 2)
    assert read_lines(out) == JOINED
    write_part(part, [recording("A", tmp_path / "a.wav", 10.0), recording("call", tmp_path / "a.wav", 10.0)], [])
    supervisions = [speech("A_2", "A", 6.5, 3.25, text="later")]
    write_part(part, [recording("A", tmp_path / "call.flac", 4.0, 0, 1)], supervisions)
    assert "has another content" in make(part, out, code=2).error_line


def test_audio_that_is_shorter_or_longer_than_said(tmp_path: Path) -> None:
    write_audio(tmp_path / "short.wav", 6.2)
    write_audio(tmp_path / "long.wav", 12.0)
    whole = (tmp_path / "long.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[: len(whole) // 2])
    names = ("short", "long", "cut")
    part = write_part(
        tmp_path / "corpus",
        [recording(name, tmp_path / f"{name}.wav", 10.0) for name in names],
        [
            *(speech(name, name, 0.0, 10.0, text="all words") for name in names),
            speech("end", "short", 5.0, 5.0, text="more words"),
            speech("nearly", "short", 5.0, 1.2005, text="a sample too long"),
            speech("in", "short", 1.0, 2.0, text="words"),
        ],
    )
    make(part, tmp_path / "m.json")
    found = [(one["id"], one.get("offset"), one["duration"]) for one in read_lines(tmp_path / "m.json")]
    assert found == [("long", 0.0, 10.0), ("nearly", 5.0, pytest.approx(1.2)), ("in", 1.0, 2.0)]
    (short, cut, end) = details(tmp_path / "m.json")
    assert short == ("beyond_audio", "offset 0 s + duration 10 s ends 3.800 s after the end of the audio (6.200 s)")
    assert (cut[0], end[0]) == ("unreadable_audio", "beyond_audio")
    assert "ends 3.800 s after" in end[1]


def test_rejected_supervisions(part: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    command = {"type": "command", "channels": [0], "source": f"cat {path}"}
    recordings = [
        recording("A", path, 10.0),
        recording("speed", path, 10.0, transforms=[{"name": "Speed", "kwargs": {"factor": 1.1}}]),
        recording("url", path, 10.0, sources=[command | {"type": "url"}]),
        recording("command", path, 10.0, sources=[command]),
        recording("two", path, 10.0),
        recording("two", path, 10.0),
        recording("unused", path, 10.0),
    ]
    supervisions = [
        speech("1", "gone", 0, 1),
        speech("2", "speed", 0, 1),
        speech("3", "url", 0, 1),
        speech("4", "command", 0, 1),
        speech("5", "two", 0, 1),
        speech("6", "A", 0, 1, channel=3),
        speech("7", "A", 0, 1, channel=[0, 1]),
        speech("8", "A", -1, 1),
        speech("9", "A", 0, 1, text=["not", "a", "text"]),
        speech("10", "A", 11, 1),
        speech("11", "A", 0, 1, text="ok"),
    ]
    write_part(part, recordings, supervisions)
    with gzip.open(part / "toy_supervisions_train.jsonl.gz", "ab") as file:
        file.write(b'{"id": "broken\n')
    done = make(part, tmp_path / "m.json")
    assert [one["id"] for one in read_lines(tmp_path / "m.json")] == ["5", "11"]
    wanted = [
        ("bad_field", "there is no recording gone in "),
        ("bad_field", "transforms"),
        ("bad_field", "of type url, not a file"),
        ("bad_field", "of type command, not a file; give --run-commands if you trust it"),
        ("bad_field", "the id two is there twice, in toy_recordings_train.jsonl.gz:5 and in"),
        ("bad_field", "its channel 3 is in 0 of the 1 files"),
        ("bad_field", "it is of the channels 0, 1"),
        ("bad_offset", "the supervision 8 begins 1.000 s before its recording A"),
        ("bad_field", 'text is ["not", "a", "text"]; it must be a string'),
        ("beyond_audio", "is not before the end of the audio"),
        ("broken_json", "broken JSON"),
    ]
    found = sorted(details(tmp_path / "m.json"), key=lambda one: [one[0], one[1]])
    assert len(found) == len(wanted)
    assert all(any(reason == one[0] and text in one[1] for one in found) for reason, text in wanted), found
    assert "left out: 1 of 7 recordings, without a supervision" in done.out + done.err


def test_commands_are_run_if_the_user_says_so(part: Path, tmp_path: Path) -> None:
    source = {"type": "command", "channels": [0], "source": f"cat {tmp_path}/a.wav"}
    supervisions = [speech("A_1", "A", 3.0, 2.5, text="x"), speech("A_2", "A", 6.0, 2.5, text="y")]
    write_part(part, [recording("A", tmp_path, 10.0, sources=[source])], supervisions)
    make(part, tmp_path / "m.json", "--run-commands")
    records = read_lines(tmp_path / "m.json")
    assert [(one["offset"], one["text"]) for one in records] == [(3.0, "x"), (6.0, "y")]
    assert (tmp_path / records[0]["audio_filepath"]).read_bytes() == (tmp_path / "a.wav").read_bytes()


def test_languages_and_custom_fields(part: Path, tmp_path: Path) -> None:
    array = {"array": {"storage_type": "lilcom_chunky", "storage_path": "x", "shape": [1]}, "temporal_dim": 0}
    custom = {"snr": 9.5, "codes": array, "plain": array["array"], "duration": 99, "text": "not this"}
    supervisions = [
        speech("1", "A", 0, 1, language="german", custom=custom),
        speech("2", "A", 0, 1, language="Klingon"),
        speech("3", "A", 0, 1, language="en_us"),
    ]
    write_part(part, [recording("A", tmp_path / "a.wav", 10.0)], supervisions)
    done = make(part, tmp_path / "m.json")
    first, second, third = read_lines(tmp_path / "m.json")
    assert first == {
        "audio_filepath": "a.wav",
        "duration": 1.0,
        "offset": 0.0,
        "lang": "de",
        "id": "1",
        "snr": 9.5,
        "text": "not this",
    }
    assert (second["language"], "lang" in second, third["lang"]) == ("Klingon", False, "en_us")
    said = done.out + done.err
    assert "languages without a known code are kept as `language`, not as `lang`: Klingon (1)" in said
    assert "2 custom fields refer to arrays or recordings of lhotse and are left out" in said


def test_relative_paths_start_from_the_working_directory(part: Path, tmp_path: Path) -> None:
    write_part(part, [recording("A", Path("a.wav"), 10.0)], [speech("1", "A", 0, 1, text="x")])
    assert f"--audio-base-dir {tmp_path}" in prepcli("make-manifest", part, tmp_path / "m.json").error_line
    make(part, tmp_path / "m.json", "--audio-base-dir", tmp_path)
    assert read_lines(tmp_path / "m.json")[0]["audio_filepath"] == "a.wav"


def test_files_that_belong_together(part: Path, tmp_path: Path) -> None:
    for name in ("toy_{}_dev", "ami-ihm_{}", "{}"):
        write_part(part, [recording("A", tmp_path / "a.wav", 10.0)], [speech("1", "A", 0, 1, text="x")], name)
    refused = make(part, tmp_path / "m.json", code=2).error_line
    assert "has 4 parts; name a file of one of them as SOURCE: ami-ihm_supervisions.jsonl.gz" in refused
    make(part / "ami-ihm_recordings.jsonl.gz", tmp_path / "m.json")
    # The recipe iwslt22-ta exchanges the names.
    write_part(part, [speech("1", "A", 0, 1, text="x")], [recording("A", tmp_path / "a.wav", 10.0)], "swapped_{}_x")
    make(part / "swapped_recordings_x.jsonl.gz", tmp_path / "s.json")
    assert read_lines(tmp_path / "s.json") == read_lines(tmp_path / "m.json")


def test_files_that_do_not(part: Path, tmp_path: Path) -> None:
    one = part / "toy_recordings_train.jsonl.gz"
    assert "both are of one kind" in make(f"{one},{one}", tmp_path / "m.json", code=2).error_line
    assert "not found" in make(f"{one},{part}/gone.jsonl.gz", tmp_path / "m.json", code=2).error_line
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = make(empty, tmp_path / "m.json", "--format", "lhotse", code=2).error_line
    assert "has no recordings and supervisions of lhotse" in refused
    lines = [{"id": "A", "sources": "?"}]
    write_lines(tmp_path / "bad_recordings.jsonl", lines)
    write_lines(tmp_path / "bad_supervisions.jsonl", [speech("1", "A", 0, 1)])
    refused = make(tmp_path / "bad_supervisions.jsonl", tmp_path / "m.json", code=2).error_line
    assert "bad_recordings.jsonl:1 is not a recording of lhotse" in refused


def test_recordings_alone(part: Path, tmp_path: Path) -> None:
    (part / "toy_supervisions_train.jsonl.gz").unlink()
    make(part / "toy_recordings_train.jsonl.gz", tmp_path / "m.json")
    assert [(one["id"], one["duration"]) for one in read_lines(tmp_path / "m.json")] == [("call", 4.0), ("A", 10.0)]


@pytest.mark.parametrize("block_bytes", [50, 700, 1 << 18])
def test_lines_in_blocks_are_those_that_are_read_one_by_one(
    block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = [recording(id, tmp_path / f"{id}.wav", 9.0) for id in ("A", "B", "twice", "twice", "")]
    recordings += [
        recording("call", tmp_path / "call.flac", 9.0, 0, 1),
        recording("slow", tmp_path, 9.0, transforms=[1]),
    ]
    cases: list[tuple[str, float, dict[str, Any]]] = [
        ("A", 0, {}),
        ("B", 1.25, {"language": "English"}),
        ("missing", 0, {}),
        ("twice", 0, {}),
        ("", 0, {}),
        ("call", 2, {"channel": 1}),
        ("slow", 0, {}),
        ("A", -1, {}),
        ("A", -0.005, {"gender": "F"}),
        ("B", 0, {}),
        ("A", 0, {"text": 5}),
        ("A", 0, {"custom": {"id": "x", "snr": 3.5}}),
        ("A", 0, {"language": ["de"]}),
    ]
    supervisions = [
        speech(f"s{number}", of, start, 1.5, **{"text": "ü", "speaker": "s"} | more)
        for number, (of, start, more) in enumerate(cases)
    ]
    part = write_part(
        tmp_path, recordings, [*supervisions, speech("", "A", 0, 1), speech("no_end", "A", 0, float("nan"))]
    )
    names = LhotseFiles("", *(str(part / f"toy_{kind}_train.jsonl.gz") for kind in ("supervisions", "recordings")))

    def entries() -> list[object]:
        source = lhotse_source(names, "", "/", False, tmp_path)
        return [*map(msgspec.to_builtins, source.entries()), *source.notes()]

    monkeypatch.setattr(source_module, "_BLOCK_BYTES", block_bytes)
    in_blocks = entries()
    monkeypatch.setattr(lhotse, "_decoded", lambda block, decoder: None)
    assert in_blocks == entries()
    assert sum(isinstance(entry, list) and entry[6] == "" for entry in in_blocks) == 7


def test_a_folder_whose_files_have_other_names(tmp_path: Path) -> None:
    """The message has the command that reads them."""
    write_audio(tmp_path / "a.wav", 1.0)
    folder = write_part(
        tmp_path / "lh", [recording("A", tmp_path / "a.wav", 1.0)], [speech("1", "A", 0, 0.5, text="x")]
    )
    for name in ("recordings", "supervisions"):
        (folder / f"toy_{name}_train.jsonl.gz").rename(folder / f"{name[0]}.jsonl.gz")
    refused = prepcli("make-manifest", folder, tmp_path / "m.json")
    assert refused.code == 2
    command = refused.error_line.partition("it has recordings and supervisions of lhotse: prepcli ")[2]
    done = prepcli(*command.replace("OUT.json", str(tmp_path / "m.json")).split())
    assert done.code == 0, done.err
    assert [one["text"] for one in read_lines(tmp_path / "m.json")] == ["x"]
    (folder / "r.jsonl.gz").unlink()
    alone = prepcli("make-manifest", folder, tmp_path / "m.json").error_line
    assert alone.endswith(f"prepcli make-manifest RECORDINGS,{folder}/s.jsonl.gz OUT.json")
