"""Manifests with odd lines: every line comes out, or is a reject that says why; what comes out can be read."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.calls import check_call, check_report, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import manifests
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.tokenizer_models import train_sentencepiece

GOOD = {"audio_filepath": "good.wav", "duration": 0.5, "offset": 0.25, "text": "fine", "speaker": "a"}
FIELDS = [*GOOD, "_skipme", "channel", "lang", "shard_id", "reject_reason", "reject_detail", "manifest_line", "", "é"]
CONTEXT = {
    "context_audio_filepath": "other.flac",
    "context_audio_offset": 0.0,
    "context_audio_duration": 0.5,
    "context_audio_text": "other",
}
PLAIN = manifests(GOOD, FIELDS)


def with_field(text: bytes, name: bytes = b"text") -> bytes:
    """Two good lines, and between them one with this text of a field."""
    fine = b'{"audio_filepath": "good.wav", "duration": 0.5, "speaker": "a"}\n'
    return fine + fine.replace(b"}", b', "%s": %s}' % (name, text)) + fine


# What fuzzing has found.
LONG_NUMBER = with_field(b"9" * 5000)  # Python refuses to read it
DEEP = with_field(b"[" * 3000 + b"]" * 3000)
CARRIAGE_RETURN = with_field(b"[1,\r2]")  # where readers in text mode end the line
HUGE_OFFSET, HUGE_DURATION = (with_field(b"1e308", name) for name in (b"offset", b"duration"))
TINY_DURATION = with_field(b"2.5e-64", b"duration")  # zero as float32
A_YEAR = with_field(b"30000000", b"duration")  # memory was reserved for the samples before the file was read


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audio")
    write_audio(folder / "good.wav", 1.0)
    write_audio(folder / "other.flac", 1.0, seed=1)
    write_audio(folder / "two.wav", 1.0, channels=2)
    return folder


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("bpe") / "tokenizer.model")


def verify(out: Path) -> None:
    """The judge of what was published."""
    done = prepcli("verify", out, "--num-workers", 1)
    assert done.code == 0, done.out


TARRED: list[Sequence[object]] = [
    ("--num-shards", 1),
    ("--shard-size", 3, "--slice-with-offset"),
    ("--shard-size", 2, "--keep-files-together", "--shuffle"),
    ("--shard-hours", 0.001, "--force-codec", "flac"),
    ("--num-shards", 2, "--buckets-num", 2, "--max-duration", 10),
    ("--num-shards", 1, "--remainder", "drop", "--sort-in-shards", "--only-manifests"),
    ("--shard-hours", 1, "--slice-with-offset", "--target-sample-rate", 16000),
]


@examples(40)
@given(PLAIN, st.sampled_from(TARRED))
@example(LONG_NUMBER, TARRED[1])
@example(DEEP, TARRED[0])
@example(CARRIAGE_RETURN, TARRED[1])
@example(HUGE_DURATION, TARRED[2])
def test_tarred(audio: Path, data: bytes, options: Sequence[object]) -> None:
    with scratch() as folder:
        (folder / "m.json").write_bytes(data)
        out = folder / "out"
        common = ("--audio-base-dir", audio, "--num-workers", 1)
        done = check_call(folder, out, "manifest-to-tarred", folder / "m.json", out, *common, *options)
        if done.code != 2:
            report = check_report(folder / "out.prepcli", [data])
            if report["records_out"] and "--only-manifests" not in options:
                verify(out)
        check_call(folder, out, "manifest-to-tarred", folder / "m.json", folder / "dry", *common, *options, "--dry-run")


@examples(25)
@given(manifests({**GOOD, **CONTEXT}, [*FIELDS, *CONTEXT]), st.sampled_from(["flac", "wav", "original"]))
@example(LONG_NUMBER, "flac")
@example(CARRIAGE_RETURN, "original")
@example(HUGE_OFFSET, "flac")
def test_shar(audio: Path, data: bytes, audio_format: str) -> None:
    with scratch() as folder:
        (folder / "m.json").write_bytes(data)
        out = folder / "out"
        arguments = ["--audio-base-dir", audio, "--num-workers", 1, "--shard-size", 4, "--audio-format", audio_format]
        done = check_call(folder, out, "manifest-to-shar", folder / "m.json", out, *arguments)
        if done.code != 2 and check_report(folder / "out.prepcli", [data])["records_out"]:
            verify(out)


@examples(60)
@given(PLAIN, st.booleans())
@example(HUGE_DURATION, False)
def test_estimate_bins(data: bytes, packed: bool) -> None:
    with scratch() as folder:
        name = "m.jsonl.gz" if packed else "m.json"  # and a .gz that is not compressed
        (folder / name).write_bytes(data)
        check_call(folder, folder / "none", "estimate-bins", folder / name, "-b", 3)


@examples(40)
@given(PLAIN)
@example(HUGE_DURATION)
@example(TINY_DURATION)
def test_estimate_bins_2d(tokenizer: Path, data: bytes) -> None:
    with scratch() as folder:
        (folder / "m.json").write_bytes(data)
        check_call(folder, folder / "none", "estimate-bins-2d", folder / "m.json", "-t", tokenizer, "-b", 3, "-s", 2)
