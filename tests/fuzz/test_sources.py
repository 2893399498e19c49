"""Damaged lists, tables, Kaldi directories and cuts: every entry is a record or a reject that says why."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conftest import read_lines
from tests.fuzz.calls import check_call, check_report, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import mutated
from tests.support.audio_files import write_audio

FILES = {
    "list": ("list.txt", b"good.wav\nother.wav\n"),
    "filelist": ("list.txt", b"good.wav|a text|me\nother.wav|\xc3\xa9\n"),
    "csv": ("table.csv", b'path,text,offset,duration\ngood.wav,"a, b",0.25,0.5\nother.wav,c,,\n'),
    "audiofolder": (
        "metadata.jsonl",
        b'{"file_name": "good.wav", "text": "a"}\n{"file_name": "other.wav", "n": [1]}\n',
    ),
    "kaldi": ("wav.scp", b"u1 good.wav\nu2 other.wav\n"),
    "lhotse": (
        "cuts.jsonl",
        b'{"id": "c", "type": "MonoCut", "start": 0.25, "duration": 0.5, "channel": 0, "supervisions": [{"text": "a"}],'
        b' "recording": {"duration": 1.0, "sources": [{"type": "file", "channels": [0], "source": "good.wav"}]}}\n',
    ),
}
MUTATED = st.sampled_from(sorted(FILES)).flatmap(lambda form: st.tuples(st.just(form), mutated(FILES[form][1])))


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audio")
    write_audio(folder / "good.wav", 1.0)
    write_audio(folder / "other.wav", 1.0, seed=1)
    return folder


@examples(40)
@given(MUTATED)
@example(("kaldi", b"u1 go\0od.wav\nu2 other.wav\n"))  # no path for the operating system
@example(("audiofolder", b"\n\n"))  # not one row was read
@example(("filelist", b"good.wav|\xff\nother.wav|x\n"))  # the catalog could not hold it
@example(("csv", b"path,te\xffxt\ngood.wav,a\n"))
def test_sources(audio: Path, case: tuple[str, bytes]) -> None:
    form, data = case
    with scratch() as folder:
        source = folder / "source" / FILES[form][0]
        source.parent.mkdir()
        source.write_bytes(data)
        out = folder / "out.json"
        named = source.parent if form in ("kaldi", "audiofolder") else source
        options = ("--format", form, "--audio-base-dir", audio, "--num-workers", 1)
        done = check_call(folder, out, "make-manifest", named, out, *options)
        if done.code != 2:
            report = check_report(folder / "out.json.prepcli")
            made = read_lines(out)
            assert len(made) == report["records_out"]
            assert all((folder / record["audio_filepath"]).exists() and record["duration"] > 0 for record in made)


KALDI = {
    "wav.scp": b"a good.wav\nb other.wav\n",
    "segments": b"a-1 a 0.1 0.5\na-2 a 0.5 0.9\nb-1 b 0 -1\n",
    "text": b"a-1 one word\na-2 two\nb-1 three\n",
    "utt2spk": b"a-1 me\na-2 me\nb-1 you\n",
}


@pytest.mark.slow
@examples(60)
@given(st.fixed_dictionaries({name: mutated(data) for name, data in KALDI.items()}))
@example({**KALDI, "segments": b"a-1 a 0.5 0.1\na-2 a nan inf\nb-1 b 0 1e999\n"})
@example({**KALDI, "wav.scp": b"a good.wav\na other.wav\nb \xff.wav\n"})  # a sample of its files was looked for
@example({**KALDI, "text": b"a-1 one\na-1 two\n\xff\xfe\n"})
def test_kaldi_with_segments(audio: Path, files: dict[str, bytes]) -> None:
    with scratch() as folder:
        (folder / "kaldi").mkdir()
        for name, data in files.items():
            (folder / "kaldi" / name).write_bytes(data)
        out = folder / "out.json"
        words = ("make-manifest", folder / "kaldi", out, "--audio-base-dir", audio, "--num-workers", 1)
        if check_call(folder, out, *words).code != 2:
            report = check_report(folder / "out.json.prepcli")
            made = read_lines(out)
            assert len(made) == report["records_out"]
            assert all(0 < record["duration"] <= 1 and record.get("offset", 0) >= 0 for record in made)
