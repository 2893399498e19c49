"""NaN and infinite samples, and such as no recording has, are rejects wherever samples are decoded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.commands.extend_codec_codes.file_segments import UsedSegmentDecoder
from prepcli.commands.extend_codec_codes.plan import find_input
from prepcli.commands.extend_codec_codes.shard_index import index_shard
from prepcli.errors import RecordRejected, RejectReason
from prepcli.jobs.prefetch import SegmentDecoder
from prepcli.jobs.records import Records
from tests.audio.signals import RATE, tones, written
from tests.conftest import read_lines, write_lines
from tests.support.running import prepcli
from tests.support.shar_sets import members

AT = 4321


def with_value(value: float, channels: int = 1) -> NDArray[np.float64]:
    """Half a second with one sample that is something else."""
    samples = np.repeat(tones(0.5)[:, None] / 32768, channels, axis=1)
    samples[AT, -1] = value
    return samples


def manifest_of(folder: Path, **files: bytes) -> Path:
    for name, data in files.items():
        (folder / name.replace("_", ".")).write_bytes(data)
    names = [name.replace("_", ".") for name in files]
    return write_lines(
        folder / "m.json", [{"audio_filepath": name, "duration": 0.5, "text": "x", "speaker": "s"} for name in names]
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -1e300])
@pytest.mark.parametrize("container", ["WAV", "RF64", "AIFF", "AU", "CAF", "W64"])
@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_every_container_of_floats(value: float, container: str, subtype: str) -> None:
    if subtype == "FLOAT" and abs(value) > 1e38:
        value = np.inf
    data = written(with_value(value, channels=2), container, subtype)
    info = probe_bytes(data, "a")
    with np.errstate(over="ignore"):
        shown = f"{np.float32(value):g}"
    with pytest.raises(RecordRejected) as caught:
        read_segment(data, info, name="a.wav")
    assert caught.value.reason is RejectReason.UNREADABLE_AUDIO
    assert caught.value.detail == (
        f"a.wav is damaged: 1 of 8000 samples are not finite or far out of range, the first is sample {AT} ({shown})"
    )
    with pytest.raises(RecordRejected, match=f"the first is sample {AT} "):
        read_segment(data, info, 100, 5000)
    # What is not asked for harms nobody.
    assert len(read_segment(data, info, AT + 1)) == 8000 - AT - 1
    assert len(read_segment(data, info, 0, AT)) == AT


def test_loud_samples_are_not_damage() -> None:
    loud = with_value(32768.0)
    data = written(loud, "WAV", "FLOAT")
    assert read_segment(data, probe_bytes(data, "a"))[AT, 0] == 32768.0
    assert len(read_segment(data, probe_bytes(data, "a"), 5, 0)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["manifest-to-tarred", "--num-shards", 1, "--force-codec", "flac"],
        ["manifest-to-tarred", "--num-shards", 1, "--force-codec", "mp3"],
        ["manifest-to-tarred", "--num-shards", 1, "--target-sample-rate", 8000],
        ["manifest-to-tarred", "--num-shards", 1],  # copied
        ["manifest-to-tarred", "--num-shards", 1, "--slice-with-offset"],  # copied, for the slice is all of it
        ["manifest-to-shar"],
        ["manifest-to-shar", "--audio-format", "original"],  # copied
    ],
)
def test_commands_that_store_audio(tmp_path: Path, command: list[object]) -> None:
    nan = written(with_value(np.nan), "WAV", "FLOAT")
    manifest = manifest_of(tmp_path, good_wav=written(with_value(0), "WAV", "FLOAT"), bad_wav=nan)
    out = tmp_path / "out"
    outcome = prepcli(*command[:1], manifest, out, *command[1:], "--max-rejects", 1)
    assert outcome.code == 0, outcome.err
    (reject,) = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert (reject["audio_filepath"], reject["reject_reason"]) == ("bad.wav", "unreadable_audio")
    assert f"the first is sample {AT} (nan)" in reject["reject_detail"]
    assert prepcli("verify", out).code == 0


def test_models_do_not_get_them(tmp_path: Path) -> None:
    """The decoder of context audio and the one of codes, which read manifests and tars."""
    manifest = manifest_of(tmp_path, bad_wav=written(with_value(np.inf), "WAV", "FLOAT"))
    with pytest.raises(RecordRejected, match="not finite"):
        SegmentDecoder(Records([str(manifest)]), 16000, 1).decode(0)
    assert _codes_refuse(tmp_path, written(with_value(np.nan), "WAV", "FLOAT")) == (
        f"is damaged: 1 of 8000 samples are not finite or far out of range, the first is sample {AT} (nan)"
    )


def _codes_refuse(folder: Path, data: bytes) -> str:
    """A Shar set of another maker, whose one recording holds `data`; what the decoder of codes says of it."""
    good = written(with_value(0), "WAV", "FLOAT")
    assert len(good) == len(data)
    manifest = manifest_of(folder, good_wav=good)
    assert prepcli("manifest-to-shar", manifest, folder / "shar", "--audio-format", "original").code == 0
    (tar,) = (folder / "shar/recording").iterdir()
    assert dict(members(tar))
    tar.write_bytes(tar.read_bytes().replace(good, data))
    (member,) = index_shard(find_input(folder / "shar")[0]).fields["target_audio"]
    with pytest.raises(RecordRejected) as caught:
        UsedSegmentDecoder(RATE).decode(_member(member))
    return caught.value.detail.partition(".tar ")[2]


def _member(found: Any) -> Any:
    assert not isinstance(found, RecordRejected), found
    return found


def test_verify_names_what_was_copied_earlier(tmp_path: Path) -> None:
    assert _codes_refuse(tmp_path, written(with_value(np.nan), "WAV", "FLOAT"))
    outcome = prepcli("verify", tmp_path / "shar")
    assert outcome.code == 1
    assert f"the first is sample {AT} (nan)" in outcome.out + outcome.err


def test_a_file_of_noise_is_not_audio(tmp_path: Path) -> None:
    """Floats in the wrong byte order are far out of range."""
    data = written(np.random.default_rng(0).normal(0, 0.1, 8000), "WAV", "FLOAT")
    start = data.index(b"data") + 8
    swapped = np.frombuffer(data[start:], "<f4").byteswap().tobytes()
    (tmp_path / "a.wav").write_bytes(data[:start] + swapped)
    with pytest.raises(RecordRejected, match=" samples are not finite or far out of range"):
        read_segment(tmp_path / "a.wav", probe(tmp_path / "a.wav"))
