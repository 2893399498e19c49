"""verify of manifests, also those with contexts; and nothing that is empty or no data set is called ok."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from xxhash import xxh3_128

from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import FINISH_UNIT, PLAN_FORMAT, StoredPlan
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.manifest.index import index_manifests
from tests.conftest import MINI_CORPUS, SHORT_CORPUS, Lines, copy_set, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli

NAME = "m_withContextAudioMinDur3.0MinSSIM0.6.json"
SIMILARITY = "context_speaker_similarity"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINI_CORPUS, tmp_path / "corpus"))


def problems(out: Path, *options: object) -> list[str]:
    done = prepcli("verify", out, "--json", *options)
    assert done.code == bool(done.json["problems"]), done.err
    found: list[str] = done.json["problems"]
    return found


def remember(workspace: Workspace, command: str, name: str, source: Path, **settings: object) -> None:
    """Write the records of a finished run that made `name` from the manifest `source`, as the engine leaves them."""
    folder = workspace.out if workspace.out.is_dir() else workspace.out.parent
    data = (folder / name).read_bytes()
    count = len(data.splitlines())
    workspace.done.mkdir(parents=True)
    inputs = [{"path": str(source), "sha256": index_manifests([str(source)]).sources[0].sha256}]
    options = {f"--{option.replace('_', '-')}": value for option, value in settings.items()}
    plan = StoredPlan(command, "d", options, inputs, count, 0, {}, 1.0, command, str(source.parent), format=PLAN_FORMAT)
    plan.writes_file = workspace.root.name == f"{name}.prepcli"
    write_json(workspace.plan_file, plan)
    published = PublishedFile(len(data), xxh3_128(data).hexdigest())
    marker = Marker(FINISH_UNIT.id, "d", 0, {}, 0.0, {name: published}, {}, 0.0)
    write_json(workspace.done / f"{FINISH_UNIT.id}.json", marker)
    report = Report(command, "done", str(folder), count, count, 0, {}, 0, 0, 0, 1.0, 1, "d")
    write_json(workspace.report_file, report)


@pytest.fixture
def lines() -> Lines:
    """Records with whole contexts, as extend-context-audio writes them."""
    return [{**line, SIMILARITY: 0.75} for line in read_lines(MINI_CORPUS / "manifest_with_context.json")]


def write_context(out: Path, lines: Lines, **settings: object) -> Path:
    """A finished context directory with these lines."""
    out.mkdir()
    write_lines(out / NAME, lines)
    given = {"group_by": "speaker", "context_min_duration": 3.0, "context_min_ssim": 0.6} | settings
    remember(Workspace(out), "extend-context-audio", NAME, MINI_CORPUS / "manifest.json", **given)
    return out


def test_a_context_directory(lines: Lines, tmp_path: Path) -> None:
    out = write_context(tmp_path / "context", lines)
    done = prepcli("verify", out)
    assert done.code == 0, done.out
    assert done.out.splitlines()[:4] == [
        f"verify: {out} is ok",
        "  manifests 1",
        f"  records  48, {sum(line['duration'] for line in lines) / 3600:.2f} hours",
        "  hashes   compared with what was published",
    ]
    assert problems(out / NAME) == []  # the manifest itself, whose run is known beside its folder


def drop(name: str) -> Callable[[Lines], object]:
    return lambda lines: lines[4].pop(name)


def change(**values: object) -> Callable[[Lines], object]:
    return lambda lines: lines[4].update(values)


def other_voice(lines: Lines) -> None:
    names = [name for name in lines[0] if name.startswith("context_audio_")]
    other = next(line for line in lines if line["speaker"] != lines[4]["speaker"])
    lines[4].update({name: other[name] for name in names})


def own_audio(lines: Lines) -> None:
    lines[5].update(context_audio_filepath=lines[5]["audio_filepath"], context_audio_duration=lines[5]["duration"])
    lines[4], lines[5] = lines[5], lines[4]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (drop(SIMILARITY), f"there is no {SIMILARITY}"),
        (drop("context_audio_filepath"), "there is no context_audio_filepath"),
        (drop("duration"), "there is no duration"),
        (change(context_audio_duration="3"), 'context: duration is "3", a string'),
        (change(**{SIMILARITY: 0.55}), f"{SIMILARITY} is 0.55, below --context-min-ssim 0.6"),
        (change(**{SIMILARITY: "high"}), "not a number from -1 to 1"),
        (change(context_audio_duration=2.0), "the context lasts 2 s, less than --context-min-duration 3"),
        (change(context_audio_offset=99.0), "context: "),
        (change(context_audio_filepath="s01/gone.flac"), "context: "),
        (change(audio_filepath="s01/gone.flac"), "s01/gone.flac"),
        (change(duration=999.0), "after the end of the audio"),
        (other_voice, "is of another voice than"),
        (own_audio, "the context is the utterance itself"),
    ],
)
def test_damaged_lines_of_a_context_manifest(
    damage: Callable[[Lines], object], words: str, lines: Lines, tmp_path: Path
) -> None:
    damage(lines)
    found = problems(write_context(tmp_path / "context", lines))
    assert found
    assert all(problem.startswith(f"{NAME}:5: ") for problem in found)
    assert words in found[0]


def test_voices_as_the_run_has_grouped_them(lines: Lines, tmp_path: Path) -> None:
    """By a pattern that finds two voices; and no comparison where the input is not what it was."""
    other_voice(lines)
    one_voice = write_context(tmp_path / "a", lines, group_by="regex:audio_filepath:^(s0)")
    assert problems(one_voice) == []
    two_voices = write_context(tmp_path / "b", lines, group_by="regex:audio_filepath:^(s..)")
    assert len(problems(two_voices)) == 1
    plan = two_voices.with_name("b.prepcli") / "plan.json"
    plan.write_text(plan.read_text().replace('"sha256": "', '"sha256": "0'))
    done = prepcli("verify", two_voices)
    assert done.code == 0
    assert (
        f"note     the voices of contexts were not compared: the input {MINI_CORPUS}/manifest.json has changed"
        in done.out
    )


def test_a_context_on_the_channel_of_another_voice(tmp_path: Path) -> None:
    """Two speakers of a call, each on a channel: a span alone does not tell whose voice it is."""
    write_audio(tmp_path / "call.wav", 8.0, channels=2)
    spans: Lines = [
        {"audio_filepath": "call.wav", "offset": 4.0 * part, "duration": 4.0, "channel": channel}
        | {"text": "words", "speaker": "ab"[channel]}
        for channel in range(2)
        for part in range(2)
    ]
    corpus = write_lines(tmp_path / "manifest.json", spans)
    other = {"audio_filepath": "call.wav", "offset": 4.0, "duration": 4.0, "channel": 0}
    own = {f"context_audio_{name.removeprefix('audio_')}": value for name, value in other.items()} | {SIMILARITY: 0.75}
    lines = [spans[0] | own, spans[0] | own | {"context_audio_channel": 1}]
    out = tmp_path / "context"
    out.mkdir()
    write_lines(out / NAME, lines)
    given = {"group_by": "speaker", "audio_base_dir": str(tmp_path)}
    remember(Workspace(out), "extend-context-audio", NAME, corpus, **given)
    assert problems(out, "--audio-base-dir", tmp_path) == [f"{NAME}:2: its context call.wav is of another voice than a"]
    itself = spans[0] | {SIMILARITY: 1.0, "context_audio_filepath": "call.wav", "context_audio_duration": 4.0}
    for channel, is_itself in ((0, True), (1, False)):
        write_lines(out / NAME, [itself | {"context_audio_offset": 0.0, "context_audio_channel": channel}])
        found = problems(out, "--audio-base-dir", tmp_path)
        assert any("the context is the utterance itself" in problem for problem in found) == is_itself


def test_a_changed_and_an_unfinished_context_manifest(lines: Lines, tmp_path: Path) -> None:
    out = write_context(tmp_path / "context", lines)
    write_lines(out / NAME, lines[:-1])
    assert problems(out) == [f"{NAME}: not the bytes that were published (its hash differs)"]
    assert problems(out / NAME) == problems(out)
    (tmp_path / "context.prepcli/report.json").unlink()
    (tmp_path / "context.prepcli/done/finish.json").unlink()
    (problem,) = problems(out)
    assert "the run is not finished" in problem


def test_any_manifest(corpus: Path) -> None:
    manifest = corpus / "manifest.json"
    done = prepcli("verify", manifest, "--json")
    assert (done.code, done.json["kind"], done.json["records"], done.json["hashes_known"]) == (0, "manifest", 48, False)
    with manifest.open("a") as file:
        file.write(
            '\n{"audio_filepath": "x.wav"}\n{"audio_filepath": "s01/s01_u1.flac", "duration": 1, "_skipme": 1}\n{'
        )
    found = problems(manifest)
    assert [problem.partition(": ")[0] for problem in found] == [
        f"manifest.json:{number}" for number in (49, 50, 52, 52)
    ]
    assert "a blank line" in found[0]
    assert "there is no duration" in found[1]
    assert "cut off" in found[3]


def test_a_long_last_line_without_an_end(corpus: Path) -> None:
    """It crosses a whole part of the manifest, of 2 MiB, in which then no line begins."""
    manifest = corpus / "manifest.json"
    first, *others = read_lines(manifest)
    text = json.dumps(first | {"text": "a " * (5 << 19)})
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in others) + text)
    assert problems(manifest) == ["manifest.json:48: cut off: no line end"]


def test_a_manifest_away_from_its_audio(tmp_path: Path) -> None:
    manifest = Path(shutil.copy(MINI_CORPUS / "segments.json", tmp_path))
    assert len(problems(manifest)) == 6
    assert problems(manifest, "--audio-base-dir", MINI_CORPUS) == []


def test_the_records_of_a_manifest_beside_it(corpus: Path) -> None:
    """Commands whose OUT is a manifest keep them in `m.json.prepcli`."""
    manifest = corpus / "manifest.json"
    remember(Workspace(corpus, Workspace(manifest).root), "make-manifest", manifest.name, corpus / "segments.json")
    assert prepcli("verify", manifest, "--json").json["hashes_known"] is True
    report = manifest.with_name("manifest.json.prepcli") / "report.json"
    report.write_text(report.read_text().replace('"done"', '"too_many_rejects"'))
    assert "more than --max-rejects allows" in prepcli("verify", manifest).out
    write_lines(manifest, read_lines(manifest)[1:])
    assert problems(manifest) == ["manifest.json: not the bytes that were published (its hash differs)"]
    report.unlink()
    manifest.with_name("manifest.json.prepcli").joinpath("done/finish.json").unlink()
    assert "the run is not finished" in problems(manifest)[0]


def rejected(command: str, manifest: Path, out: Path, *options: object) -> Outcome:
    return prepcli(command, manifest, out, *options, "--max-rejects", 999)


@pytest.mark.parametrize(
    ("command", "options"), [("manifest-to-tarred", ["--num-shards", 2]), ("manifest-to-shar", [])]
)
def test_a_set_without_a_record_is_empty(command: str, options: list[object], tmp_path: Path) -> None:
    """All audio is missing; then all lines are broken, so that there is not even a shard."""
    missing = Path(shutil.copy(MINI_CORPUS / "manifest.json", tmp_path / "missing.json"))
    assert rejected(command, missing, tmp_path / "a", *options).code == 0
    assert problems(tmp_path / "a") == ["empty: all 48 records were rejected (48 missing_audio)"]
    broken = tmp_path / "broken.json"
    broken.write_text('{"audio_filepath": "a.wav"}\n' * 3)
    assert rejected(command, broken, tmp_path / "b", *options).code == 0
    assert problems(tmp_path / "b") == ["empty: all 3 records were rejected (3 bad_duration)"]


def test_a_set_without_a_record_by_the_settings(tmp_path: Path) -> None:
    out = write_context(tmp_path / "context", [])
    assert problems(out) == ["empty: it has no records"]
    plan = tmp_path / "context.prepcli/plan.json"
    document = json.loads(plan.read_text()) | {"records_in": 48, "planned_rejects": {"no_similar_context": 48}}
    plan.write_text(json.dumps(document))
    assert problems(out) == ["empty: all 48 records were left out by the settings (48 no_similar_context)"]


def test_what_is_not_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/x.txt").write_text("x")
    done = prepcli("verify", tmp_path / "folder")
    assert (done.code, "holds no data set" in done.error_line) == (2, True)
    (tmp_path / "m.csv").write_text("path,text\na.wav,hello\n")
    done = prepcli("verify", tmp_path / "m.csv")
    assert (done.code, "is not a manifest of JSON lines" in done.error_line) == (2, True)
    assert prepcli("verify", tmp_path / "nowhere").code == 2


def test_the_state_of_a_run_is_not_its_output(tmp_path: Path) -> None:
    assert prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", tmp_path / "set", "--num-shards", 1).code == 0
    done = prepcli("verify", tmp_path / "set.prepcli")
    assert (done.code, done.error_line.endswith(f"made {tmp_path / 'set'}; give {tmp_path / 'set'}")) == (2, True)


def test_too_many_rejects_are_noted(tmp_path: Path) -> None:
    """The set is whole: this is not a problem of its files."""
    records = read_lines(MINI_CORPUS / "manifest.json")[:12]
    for record in records[:5]:
        record["audio_filepath"] = "gone.wav"
    manifest = write_lines(tmp_path / "m.json", records)
    more = ["--num-shards", 1, "--audio-base-dir", MINI_CORPUS]
    assert prepcli("manifest-to-tarred", manifest, tmp_path / "out", *more).code == 3
    done = prepcli("verify", tmp_path / "out")
    assert done.code == 0
    words = "  note     5 of 12 records were rejected, more than --max-rejects allows (5.0% of the records)"
    assert words in done.out.splitlines()
    (tmp_path / "elsewhere").mkdir()
    assert "  note" not in prepcli("verify", copy_set(tmp_path / "out", tmp_path / "elsewhere")).out


def test_rejects_that_were_allowed_are_noted_too(tmp_path: Path) -> None:
    records = [*read_lines(MINI_CORPUS / "manifest.json"), {"audio_filepath": "none.wav", "duration": 1.0}]
    manifest = write_lines(tmp_path / "m.json", records)
    options = ["--num-shards", 2, "--audio-base-dir", MINI_CORPUS]
    assert prepcli("manifest-to-tarred", manifest, tmp_path / "out", *options).code == 0
    done = prepcli("verify", tmp_path / "out")
    assert done.code == 0
    assert "  note     1 of 49 records was rejected" in done.out.splitlines()


def test_ids_that_occur_several_times_are_noted(tmp_path: Path) -> None:
    """Trainers read such a manifest: the set is not refused."""
    base = ("--audio-base-dir", MINI_CORPUS)
    records = read_lines(MINI_CORPUS / "manifest.json")
    lines = [{"id": f"u{number // 2}", **record} for number, record in enumerate(records[:5])]
    path = write_lines(tmp_path / "m.json", [*lines, {**records[5], "id": None}, records[6]])
    done = prepcli("verify", path, *base)
    assert (done.code, "m.json: 2 ids occur in several records" in done.out) == (0, True)
    write_lines(path, records[:5] * 2)
    assert "several records" not in prepcli("verify", path, *base).out
