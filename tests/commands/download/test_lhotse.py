"""download lhotse: twelve corpora against lhotse's own cuts, and the process of a recipe."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prepcli.commands.download import lhotse as bridge
from prepcli.manifest.languages import language_code
from tests.commands.download.lhotse_trees import TREES, install_stand_in
from tests.conftest import Lines, read_lines, tree
from tests.support.audio_files import write_audio
from tests.support.lazy import lazy
from tests.support.running import HANG_SECONDS, Outcome, prepcli, start_prepcli

lhotse = lazy("lhotse")


def prepare(recipe: str, folder: Path, *options: object, **more: Any) -> Outcome:
    """Write the corpus of a recipe, and prepare it below `folder`."""
    corpus = folder / "corpus"
    words = TREES[recipe](corpus) if not corpus.exists() else [str(corpus)]
    arguments, _, own = " ".join(words).partition(" -- ")
    given = ["--recipe-options", own] if own else []
    return prepcli(
        "download", "lhotse", recipe, *arguments.split(), "--data-root", folder / "data", *given, *options, **more
    )


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe runs here: importing lhotse twelve times takes half a minute."""

    def run(arguments: list[str], log: Path) -> int:
        from lhotse.bin.lhotse import cli

        with log.open("w") as said, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            cli.main(arguments, standalone_mode=False)
        return 0

    monkeypatch.setattr(bridge, "_run_process", run)


def cuts_of(recordings: Path) -> dict[str, dict[str, Any]]:
    """What lhotse makes of a part: a cut of each supervision."""
    supervisions = recordings.with_name(recordings.name.replace("recordings", "supervisions"))
    both = (lhotse.load_manifest(recordings), lhotse.load_manifest(supervisions))
    cuts = lhotse.CutSet.from_manifests(*both).trim_to_supervisions(keep_overlapping=False)
    return {cut.supervisions[0].id: fields_of(cut) for cut in cuts}


def fields_of(cut: Any) -> dict[str, Any]:
    """The fields of the manifest's record, as lhotse has them."""
    speech = cut.supervisions[0]
    (source,) = cut.recording.sources
    found = {
        "audio_filepath": source.source,
        "offset": cut.start,
        "duration": cut.duration,
        "text": speech.text,
        "speaker": speech.speaker,
        "gender": speech.gender,
        "lang": language_code(speech.language),
        "channel": cut.channel if len(source.channels) > 1 else None,
        "id": speech.id,
    } | (speech.custom or {})
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.torch
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("recipe", TREES)
def test_as_lhotses_own_cuts(recipe: str, tmp_path: Path) -> None:
    """Field by field, each part; a whole file needs no offset."""
    done = prepare(recipe, tmp_path, "--max-rejects", 0, "--json")
    assert done.code == 0, done.err
    written = sorted((tmp_path / "data").glob("*.json"))
    parts = [*(tmp_path / f"data.prepcli/sets/lhotse-{recipe}").rglob("*_recordings_*")]
    names = sorted(part.name.removesuffix(".gz").removesuffix(".jsonl").replace("_recordings", "") for part in parts)
    assert [path.stem for path in written] == names
    documents = done.json.get("data_sets", {"": done.json})
    for path, part in zip(written, sorted(parts), strict=True):
        wanted = cuts_of(part)
        for record in read_lines(path):
            expected = wanted.pop(record["id"])
            assert {"offset": 0} | record == pytest.approx(expected) or {"offset": 0.0} | record == expected
        assert wanted == {}
    assert sum(one["records_out"] for one in documents.values()) == sum(len(read_lines(path)) for path in written)


@pytest.mark.torch
@pytest.mark.usefixtures("in_this_process")
def test_what_lhotse_shortened_is_seen_by_measuring(tmp_path: Path) -> None:
    """The file of a recording is replaced by a shorter one after the recipe has ended."""
    prepare("ljspeech", tmp_path, "--num-workers", 1)
    (tmp_path / "data/ljspeech_all.json").unlink()
    write_audio(tmp_path / "corpus/wavs/LJ001-0001.wav", 0.25)
    done = prepare("ljspeech", tmp_path, "--overwrite", "--max-rejects", 1)
    assert done.code == 0
    assert [one["duration"] for one in read_lines(tmp_path / "data/ljspeech_all.json")] == [0.5, 0.25]


@pytest.fixture
def fake_lhotse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for lhotse that is quickly imported, and does what `behaviour` in its folder says."""
    monkeypatch.setenv("PYTHONPATH", str(install_stand_in(tmp_path)))
    return tmp_path


def fake(folder: Path, *options: object, recipe: str = "ljspeech") -> Outcome:
    words = ("download", "lhotse", recipe, folder / "corpus", "--data-root", folder / "data")
    return prepcli(*words, *options, environ={"PYTHONPATH": os.environ["PYTHONPATH"]})


def starts(folder: Path) -> list[str]:
    return (folder / "corpus/starts").read_text().splitlines()


def behave(folder: Path, program: str) -> None:
    (folder / "corpus/behaviour").write_text(program)


def records(folder: Path) -> Lines:
    return read_lines(folder / "data/toy_all.json")


def test_status_and_verify_find_the_manifests(fake_lhotse: Path) -> None:
    behave(fake_lhotse, "raise ValueError('this corpus is odd')")
    assert fake(fake_lhotse).code == 1
    waiting = prepcli("status", fake_lhotse / "data")
    assert waiting.code == 2
    assert "lhotse-ljspeech is still being fetched or unpacked, or that was interrupted" in waiting.error_line
    (fake_lhotse / "corpus/behaviour").unlink()
    assert fake(fake_lhotse).code == 0
    found = prepcli("status", fake_lhotse / "data", "--json").json
    assert (found["out"], found["state"]) == (str(fake_lhotse / "data/toy_all.json"), "finished")
    assert prepcli("verify", fake_lhotse / "data").code == 0


def test_a_recipe_that_has_ended_is_not_run_again(fake_lhotse: Path) -> None:
    planned = fake(fake_lhotse, "--dry-run")
    assert f"runs     lhotse prepare ljspeech {fake_lhotse}/corpus OUTPUT_DIR" in planned.out
    assert not (fake_lhotse / "data.prepcli").exists()
    refused = fake(fake_lhotse, "--rank", 0, "--world-size", 2)
    assert (refused.code, "one process must run the recipe first" in refused.error_line) == (2, True)
    done = fake(fake_lhotse)
    assert done.code == 0, done.err
    wanted = [{"audio_filepath": f"{fake_lhotse}/corpus/a.wav", "duration": 1.0, "text": "hi", "id": "s0"}]
    assert records(fake_lhotse) == wanted
    for more in ((), ("--rank", 0, "--world-size", 2), ("--dry-run",)):
        assert fake(fake_lhotse, *more).code == 0
    assert len(starts(fake_lhotse)) == 1
    refused = fake(fake_lhotse, "--recipe-options", "--num-jobs 4")
    assert "was prepared differently, by lhotse prepare ljspeech" in refused.error_line
    assert fake(fake_lhotse, "--recipe-options", "--num-jobs 4", "--overwrite").code == 0
    assert [line.partition(" ")[2] for line in starts(fake_lhotse)] == ["", "--num-jobs 4"]
    assert len(list((fake_lhotse / "data.prepcli/sets/lhotse-ljspeech").glob("run-*"))) == 1


def test_audio_in_the_data_root_is_relative(fake_lhotse: Path) -> None:
    words = ("download", "lhotse", "ljspeech", fake_lhotse / "corpus", "--data-root", fake_lhotse)
    assert prepcli(*words, environ={"PYTHONPATH": os.environ["PYTHONPATH"]}).code == 0
    assert read_lines(fake_lhotse / "toy_all.json")[0]["audio_filepath"] == "corpus/a.wav"


def test_a_crash_names_the_command_to_run_by_hand(fake_lhotse: Path) -> None:
    behave(fake_lhotse, "raise ValueError('this corpus is odd')")
    done = fake(fake_lhotse)
    assert done.code == 1
    said = done.err.splitlines()[-1]
    assert "the recipe failed with exit code 1: ValueError: this corpus is odd; all that it said is in " in said
    assert f"By hand: lhotse prepare ljspeech {fake_lhotse}/corpus {fake_lhotse}/data.prepcli/sets/" in said
    log = fake_lhotse / "data.prepcli/sets/lhotse-ljspeech/recipe.log"
    assert log.read_text().startswith("it reads ljspeech\nTraceback")
    behave(fake_lhotse, "os.kill(os.getpid(), 9)")
    killed = fake(fake_lhotse)
    assert (killed.code, "was ended by SIGKILL" in killed.err) == (4, True)
    behave(fake_lhotse, "sys.exit(0)")
    (fake_lhotse / "corpus/starts").unlink()
    assert fake(fake_lhotse).code == 0  # the recordings alone
    assert "text" not in records(fake_lhotse)[0]


def test_a_recipe_without_recordings(fake_lhotse: Path) -> None:
    behave(fake_lhotse, "os.unlink(out / 'toy_recordings_all.jsonl'); sys.exit(0)")
    for _ in range(2):  # it is run again, because the folder may have been corrected
        done = fake(fake_lhotse)
        assert (done.code, "the recipe ljspeech has written no recordings to" in done.err) == (1, True)
    assert len(starts(fake_lhotse)) == 2


def test_each_part_has_its_manifest_and_rejects(fake_lhotse: Path) -> None:
    behave(fake_lhotse, "'parts'")
    (fake_lhotse / "corpus/a.wav").unlink()
    done = fake(fake_lhotse, "--json", "--max-rejects", 1)
    assert done.code == 0
    assert {name: one["rejects"] for name, one in done.json["data_sets"].items()} == {"toy_all": 1, "toy_dev": 1}
    (fake_lhotse / "data.prepcli").rename(fake_lhotse / "gone.prepcli")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_recipe_ends_with_its_command(number: signal.Signals, fake_lhotse: Path) -> None:
    behave(fake_lhotse, "(out / 'half').touch(); time.sleep(3600)")
    words = ("download", "lhotse", "ljspeech", fake_lhotse / "corpus", "--data-root", fake_lhotse / "data")
    process = start_prepcli(*words, environ={"PYTHONPATH": os.environ["PYTHONPATH"]})
    state = fake_lhotse / "data.prepcli/sets/lhotse-ljspeech"
    wait_for(lambda: any(state.glob("run-*/half")), "the recipe does not start")
    child = int(starts(fake_lhotse)[0].split()[0])
    process.send_signal(number)
    code = process.wait(HANG_SECONDS)
    assert code == (4 if number is signal.SIGTERM else -9)
    wait_for(lambda: not Path(f"/proc/{child}").exists() or is_zombie(child), "the recipe does not end")
    behave(fake_lhotse, "")
    assert fake(fake_lhotse).code == 0
    assert len(starts(fake_lhotse)) == 2
    assert not any(state.glob("run-*/half"))
    assert [one["id"] for one in records(fake_lhotse)] == ["s0"]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@pytest.mark.slow
@pytest.mark.torch
def test_a_real_recipe_in_its_process(tmp_path: Path) -> None:
    done = prepare("ljspeech", tmp_path)
    assert done.code == 0, done.err
    assert [one["normalized_text"] for one in read_lines(tmp_path / "data/ljspeech_all.json")] == [
        "text one",
        "text two",
    ]
    before = tree(tmp_path / "data")
    assert prepare("ljspeech", tmp_path).code == 0
    assert tree(tmp_path / "data") == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing", "."), "lhotse has no recipe nothing"),
        (("heroico", "."), "takes SPEECH_DIR TRANSCRIPT_DIR; 1 arguments were given"),
        (("dihard3", "."), "takes no argument, but --recipe-options with --dev or --eval; 1 arguments"),
        (("vctk", "gone"), "CORPUS_DIR of the recipe vctk: there is no folder gone"),
        (("gigast", ".", "."), "is not for manifests: it writes translations"),
        (("vctk", ".", "--recipe-options", "'"), "--recipe-options ': No closing quotation"),
    ],
)
def test_wrong_calls(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = prepcli("download", "lhotse", *words, "--data-root", tmp_path / "d")
    assert (done.code, message in done.error_line) == (2, True), done.err
    assert not (tmp_path / "d.prepcli").exists()


def test_without_lhotse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "lhotse" else sys)
    done = prepcli("download", "lhotse", "vctk", tmp_path, "--data-root", tmp_path / "d")
    assert "recipes of lhotse need it: pip install 'prepcli[lhotse]'" in done.error_line
