"""manifest-to-wenet: what WeNet's reader finds in the shards and in the data list, to the byte and to the sample."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.formats.wenet import is_dropped, seconds_at
from tests.commands.exports.wenet.reader import read_raw, read_shards
from tests.conftest import MINI_CORPUS, SHORT_CORPUS, make_set, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.tools import tool

MANIFEST = SHORT_CORPUS / "manifest.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus in shards of 20."""
    out = tmp_path_factory.mktemp("wenet") / "out"
    make_set("manifest-to-wenet", MANIFEST, out, "--shard-size", 20)
    return out


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """Segments of a file at 22050 Hz, whose bounds are not whole samples."""
    folder = tmp_path_factory.mktemp("talk")
    audio = write_audio(folder / "talk.wav", 6.0, 22050)
    spans = [(0.0, 1.5), (1.5004, 0.7231), (2.3339, 1.1), (4.0, 2.0), (1e-5, 0.5)]
    records = [
        {"audio_filepath": "talk.wav", "offset": offset, "duration": duration, "text": f"part {number}"}
        for number, (offset, duration) in enumerate(spans)
    ]
    return write_lines(folder / "segments.json", records), audio


def expected(audio: np.ndarray, record: dict) -> np.ndarray:
    start = int(record["offset"] * 22050 + 0.5)
    return audio[start : start + int(record["duration"] * 22050 + 0.5)]


def test_files_are_copied_byte_for_byte(whole: Path) -> None:
    found = list(read_shards(whole / "shards.list"))
    for record, utterance in zip(read_lines(MANIFEST), found, strict=True):
        assert utterance.txt == record["text"]
        assert utterance.stored == (SHORT_CORPUS / record["audio_filepath"]).read_bytes()
    assert len({utterance.key for utterance in found}) == 48
    lines = (whole / "shards.list").read_text().splitlines()
    assert lines == [f"{whole}/shards_{number:09d}.tar" for number in range(3)]


@pytest.mark.parametrize("raw", [[], ["--raw"]])
def test_ids_of_kaldi_are_the_keys(tmp_path: Path, raw: list[str]) -> None:
    paths = [SHORT_CORPUS / record["audio_filepath"] for record in read_lines(MANIFEST)[:3]]
    data, manifest = tmp_path / "data", tmp_path / "m.json"
    data.mkdir()
    for name, values in (("wav.scp", paths), ("text", ["one", "two", "three"])):
        (data / name).write_text("".join(f"spk-{number}.{number} {value}\n" for number, value in enumerate(values)))
    assert prepcli("make-manifest", data, manifest).code == 0

    def keys(out: Path) -> list[str]:
        return [one.key for one in (read_raw(out / "data.list") if raw else read_shards(out / "shards.list"))]

    def settings(out: Path) -> dict[str, object]:
        """A run is only continued with the same ones: shards with ids and with names of files must not be mixed."""
        (plan,) = Path(f"{out}.prepcli").glob("*/plan.json")
        return dict(json.loads(plan.read_text())["settings"])

    done = make_set("manifest-to-wenet", manifest, tmp_path / "out", *raw)
    assert keys(tmp_path / "out") == ["spk-0.0", "spk-1.1", "spk-2.2"]
    assert "keys" not in done.json["details"]
    assert settings(tmp_path / "out")["ids"] == "the records' own"
    lines = read_lines(manifest)
    write_lines(manifest, [*lines, lines[0]])
    done = make_set("manifest-to-wenet", manifest, tmp_path / "again", *raw)
    assert keys(tmp_path / "again")[0] == f"{paths[0].stem}"
    assert "not all records have an id of their own" in done.json["details"]["keys"]
    assert "ids" not in settings(tmp_path / "again")


def test_members_are_text_then_audio(whole: Path) -> None:
    with tarfile.open(whole / "shards_000000000.tar") as tar:
        names = tar.getnames()
    assert names[:4] == ["s01_u1.txt", "s01_u1.flac", "s01_u2.txt", "s01_u2.flac"]
    assert all(
        text.removesuffix(".txt") == audio.rpartition(".")[0]
        for text, audio in zip(names[::2], names[1::2], strict=True)
    )


def test_segments_are_sample_exact_in_shards_and_in_the_data_list(
    talk: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    manifest, audio = talk
    make_set("manifest-to-wenet", manifest, tmp_path / "shards")
    make_set("manifest-to-wenet", manifest, tmp_path / "raw", "--raw")
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["data.list"]
    shards = list(read_shards(tmp_path / "shards/shards.list"))
    raw = list(read_raw(tmp_path / "raw/data.list"))
    for record, one, other in zip(read_lines(manifest), shards, raw, strict=True):
        assert (one.key, one.txt) == (other.key, other.txt)
        assert np.array_equal(one.audio, expected(audio, record))
        assert np.array_equal(other.audio, expected(audio, record))


def test_the_data_list_names_m4a(tmp_path: Path) -> None:
    """WeNet reads it through ffmpeg; where a segment in the middle begins, decoders do not agree."""
    write_audio(tmp_path / "a.wav", 2.0, 16000)
    tool("ffmpeg", "-v", "error", "-y", "-i", tmp_path / "a.wav", tmp_path / "a.m4a")
    spans = [{"duration": 2.0}, {"duration": 1.0}, {"duration": 1.0, "offset": 0.5}]
    records = [{"audio_filepath": "a.m4a", "text": str(number), **span} for number, span in enumerate(spans)]
    manifest = write_lines(tmp_path / "m.json", records)
    done = prepcli("manifest-to-wenet", manifest, tmp_path / "raw", "--raw", "--max-rejects", 1)
    assert done.code == 0, done.err
    listed = [json.loads(line) for line in (tmp_path / "raw/data.list").read_text().splitlines()]
    assert [(one["txt"], one["wav"]) for one in listed] == [(text, str(tmp_path / "a.m4a")) for text in "01"]
    assert (listed[1]["start"], listed[1]["end"]) == (0.0, 1.0)
    (reject,) = read_lines(tmp_path / "raw.prepcli/rejects.jsonl")
    assert "cannot be read by WeNet as it is; without --raw it is encoded again" in reject["reject_detail"]
    assert prepcli("verify", tmp_path / "raw").code == 0


def test_the_data_list_names_whole_files_without_bounds(tmp_path: Path) -> None:
    make_set("manifest-to-wenet", MANIFEST, tmp_path / "raw", "--raw", "--relative-to", SHORT_CORPUS)
    for record, line in zip(read_lines(MANIFEST), read_lines(tmp_path / "raw/data.list"), strict=True):
        assert line == {"key": line["key"], "wav": record["audio_filepath"], "txt": record["text"]}


@pytest.mark.parametrize(("subtype", "codec"), [("PCM_16", "wav"), ("FLOAT", "flac")])
def test_resampled_values_are_rounded_and_clipped(subtype: str, codec: str, tmp_path: Path) -> None:
    """The original's +1.0 becomes -32768; and a full-scale wave overshoots when it is resampled."""
    square = np.where(np.arange(24000) // 60 % 2, 1.0, -1.0)
    soundfile.write(tmp_path / "square.wav", square, 24000, subtype=subtype)
    write_lines(tmp_path / "m.json", [{"audio_filepath": "square.wav", "duration": 1.0, "text": "loud"}])
    options = ("--target-sample-rate", 16000, "--force-codec", codec)
    make_set("manifest-to-wenet", tmp_path / "m.json", tmp_path / "out", *options)
    (loud,) = read_shards(tmp_path / "out/shards.list")
    assert (loud.rate, len(loud.audio)) == (16000, 16000)
    assert (loud.audio.max(), loud.audio.min()) == (32767, -32768)
    halves = loud.audio.reshape(-1, 40)[:, 8:32]  # away from the edges of the square
    assert np.all(np.sign(halves) == np.sign(halves[:, :1]))  # no value has wrapped


@pytest.mark.parametrize(("codec", "suffix"), [("wav", "wav"), ("flac", "flac")])
def test_force_codec_keeps_the_samples(tmp_path: Path, codec: str, suffix: str) -> None:
    audio = [write_audio(tmp_path / name, 1.0, seed=seed) for seed, name in enumerate(("a.wav", "b.flac"))]
    records = [{"audio_filepath": name, "duration": 1.0, "text": "x"} for name in ("a.wav", "b.flac")]
    write_lines(tmp_path / "m.json", records)
    make_set("manifest-to-wenet", tmp_path / "m.json", tmp_path / "out", "--force-codec", codec)
    for utterance, samples in zip(read_shards(tmp_path / "out/shards.list"), audio, strict=True):
        assert np.array_equal(utterance.audio, samples)
        assert utterance.stored[:4] == {"wav": b"RIFF", "flac": b"fLaC"}[suffix]


def test_formats_without_a_suffix_of_wenets_are_encoded(tmp_path: Path) -> None:
    audio = write_audio(tmp_path / "a.aiff", 1.0)
    write_lines(tmp_path / "m.json", [{"audio_filepath": "a.aiff", "duration": 1.0, "text": "x"}])
    make_set("manifest-to-wenet", tmp_path / "m.json", tmp_path / "out")
    (utterance,) = read_shards(tmp_path / "out/shards.list")
    assert np.array_equal(utterance.audio, audio)
    assert utterance.stored[:4] == b"fLaC"


def test_the_channel_of_a_record_is_the_one_that_is_heard(tmp_path: Path) -> None:
    stereo = write_audio(tmp_path / "a.wav", 1.0, channels=2)
    records = [{"audio_filepath": "a.wav", "duration": 1.0, "text": "", "channel": one} for one in (0, 1)]
    write_lines(tmp_path / "m.json", [*records, {**records[0], "channel": 2}, {**records[0], "channel": "left"}])
    done = prepcli("manifest-to-wenet", tmp_path / "m.json", tmp_path / "out", "--max-rejects", 2)
    assert done.code == 0
    first, second = read_shards(tmp_path / "out/shards.list")
    assert np.array_equal(first.audio, stereo[:, 0])
    assert np.array_equal(second.audio, stereo[:, 1])
    raw = prepcli("manifest-to-wenet", tmp_path / "m.json", tmp_path / "raw", "--raw", "--max-rejects", 3, "--json")
    assert (raw.code, raw.json["records_out"]) == (0, 1)


def test_speech_without_text_comes_through_and_text_without_speech_does_not(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    records = [
        {"audio_filepath": "a.wav", "duration": 1.0},
        {"audio_filepath": "a.wav", "duration": 1.0, "text": None},
        {"text": "nobody says it", "duration": 1.0},
        {"audio_filepath": "a.wav", "duration": 1.0, "text": ["a", "list"]},
    ]
    write_lines(tmp_path / "m.json", records)
    done = prepcli("manifest-to-wenet", tmp_path / "m.json", tmp_path / "out", "--max-rejects", 2, "--json")
    assert done.code == 0
    assert done.json["rejects_by_reason"] == {"missing_field": 1, "bad_field": 1}
    assert [utterance.txt for utterance in read_shards(tmp_path / "out/shards.list")] == ["", ""]


def test_shuffle_prefix_and_relative_paths(whole: Path, tmp_path: Path) -> None:
    options = ("--shard-size", 20, "--shuffle", "--shuffle-seed", 3, "--prefix", "train", "--relative-to", tmp_path)
    make_set("manifest-to-wenet", MANIFEST, tmp_path / "out", *options)
    assert (tmp_path / "out/shards.list").read_text().splitlines()[0] == "out/train_000000000.tar"
    shuffled = tmp_path / "absolute.list"
    names = (tmp_path / "out/shards.list").read_text().splitlines()
    shuffled.write_text("".join(f"{tmp_path / name}\n" for name in names))
    plain = {one.key: one.txt for one in read_shards(whole / "shards.list")}
    found = [(one.key, one.txt) for one in read_shards(shuffled)]
    assert dict(found) == plain
    assert found != list(plain.items())


def test_the_summary_counts_what_wenet_drops(tmp_path: Path) -> None:
    write_audio(tmp_path / "short.wav", 0.08)
    write_audio(tmp_path / "long.wav", 3.0)
    records = [
        {"audio_filepath": "short.wav", "duration": 0.08, "text": "x"},
        {"audio_filepath": "long.wav", "duration": 3.0, "text": "a" * 201},
        {"audio_filepath": "long.wav", "duration": 3.0, "text": ""},
        {"audio_filepath": "long.wav", "duration": 3.0, "text": "fine"},
    ]
    write_lines(tmp_path / "m.json", records)
    done = prepcli("manifest-to-wenet", tmp_path / "m.json", tmp_path / "out", "--json")
    assert done.json["details"]["filter"].startswith("3 records would be dropped")


@pytest.mark.parametrize(
    ("bound", "beyond"),
    [
        ((0.1, 1), (0.09, 1)),
        ((102.4, 100), (102.41, 100)),
        ((3.0, 1), (3.0, 0)),
        ((3.0, 200), (3.0, 201)),
        ((100.0, 5), (100.0, 4)),
        ((0.5, 50), (0.5, 51)),
    ],
)
def test_the_bounds_of_wenets_filter(bound: tuple[float, int], beyond: tuple[float, int]) -> None:
    """WeNet drops what has fewer or more, seconds and characters, and keeps the bounds themselves."""
    assert (is_dropped(*bound), is_dropped(*beyond)) == (False, True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--shard-size", 9), ("--raw",)])
def test_the_same_bytes_for_any_number_of_ranks(options: tuple[object, ...], tmp_path: Path) -> None:
    many = write_lines(tmp_path / "many.json", read_lines(MANIFEST) * 45)  # --raw: three units of 1,000 at most
    shape = ("--audio-base-dir", SHORT_CORPUS, "--relative-to", tmp_path / "out", *options)
    words = ("manifest-to-wenet", many if "--raw" in options else MANIFEST, tmp_path / "out", *shape)
    assert prepcli(*words).code == 0
    whole = tree(tmp_path / "out")
    for rank in range(3):
        more = ["--overwrite"] if rank == 0 else []
        assert prepcli(*words, "--rank", rank, "--world-size", 3, "--launch-id", "one", *more).code == 0
    assert tree(tmp_path / "out") == whole


def test_a_folder_that_a_list_cannot_name(tmp_path: Path) -> None:
    done = prepcli("manifest-to-wenet", MANIFEST, tmp_path / "a\nb")
    assert done.code == 2
    assert "cannot hold the line break" in done.error_line
    done = prepcli("manifest-to-wenet", MANIFEST, tmp_path / "s3:x", "--relative-to", tmp_path)
    assert done.code == 2
    assert "for an address" in done.error_line


def test_bad_audio_is_a_reject_and_leaves_no_member(tmp_path: Path) -> None:
    write_audio(tmp_path / "good.wav", 1.0)
    (tmp_path / "torn.flac").write_bytes((MINI_CORPUS / read_lines(MANIFEST)[0]["audio_filepath"]).read_bytes()[:9000])
    records = [{"audio_filepath": name, "duration": 1.0, "text": name} for name in ("torn.flac", "good.wav", "no.wav")]
    records.append({"audio_filepath": "good.wav", "duration": 9.0, "text": "too long"})
    write_lines(tmp_path / "m.json", records)
    for options in ((), ("--raw",)):
        out = tmp_path / f"out{len(options)}"
        done = prepcli("manifest-to-wenet", tmp_path / "m.json", out, "--max-rejects", 3, "--json", *options)
        assert done.code == 0
        reasons = {"unreadable_audio": 1, "missing_audio": 1, "beyond_audio": 1}
        assert done.json["rejects_by_reason"] == reasons
    assert [one.txt for one in read_shards(tmp_path / "out0/shards.list")] == ["good.wav"]
    assert [json.loads(line)["txt"] for line in (tmp_path / "out1/data.list").read_text().splitlines()] == ["good.wav"]


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
def test_seconds_of_a_data_list_are_exactly_the_sample_again(rate: int) -> None:
    """The reader rounds down: `int(1001 / 8000 * 8000)` is 1000."""
    samples = [*range(3000), *range(10**6, 10**6 + 3000)]
    assert [int(seconds_at(sample, rate) * rate) for sample in samples] == samples
    assert all(abs(seconds_at(sample, rate) - sample / rate) < 1e-9 for sample in samples)


def test_a_rounded_duration_is_the_whole_file(tmp_path: Path) -> None:
    """Up to 20 ms; a shorter record is the beginning of its file."""
    audio = write_audio(tmp_path / "a.wav", 1.0049)
    write_audio(tmp_path / "b.wav", 1.0049)
    records = [
        {"audio_filepath": name, "duration": duration, "text": ""}
        for name, duration in (("a.wav", 1.0), ("b.wav", 0.9))
    ]
    write_lines(tmp_path / "m.json", records)
    make_set("manifest-to-wenet", tmp_path / "m.json", tmp_path / "out")
    whole, part = read_shards(tmp_path / "out/shards.list")
    assert whole.stored == (tmp_path / "a.wav").read_bytes()
    assert (len(whole.audio), len(part.audio)) == (len(audio), 7200)
