"""manifest-to-shar: what goes in, what comes out, to the byte and to the sample."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import MINI_CORPUS, SHORT_CORPUS, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.shar_sets import make, read_set, read_shard, with_contexts

MAGPIE = "| Language:en Dataset:toy Speaker:one |"


@pytest.fixture
def with_context(tmp_path: Path) -> Path:
    """The short corpus, each record with a context of its speaker."""
    return write_lines(tmp_path / "mini.json", with_contexts(read_lines(SHORT_CORPUS / "manifest.json")))


def record(path: str = "a.wav", **fields: Any) -> dict[str, Any]:
    return {"audio_filepath": path, "duration": 1.0, "text": "so it is", "speaker": MAGPIE} | fields


def test_layout_and_the_bytes_of_whole_files(with_context: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = make(with_context, out, "--audio-base-dir", SHORT_CORPUS, "--shard-size", 20).json
    assert (report["records_in"], report["records_out"], report["rejects"]) == (48, 48, 0)
    assert sorted(tree(out)) == [
        f"{name}.{number:06d}.{extension}"
        for name, extension in (
            ("context_audio/recording", "tar"), ("cuts/cuts", "jsonl.gz"), ("target_audio/recording", "tar"),
        )
        for number in range(3)
    ]  # fmt: skip
    assert report["details"]["context_audio"] == f"{out}/context_audio/recording._OP_000000..000002_CL_.tar"
    assert [len(read_shard(out, number)) for number in range(3)] == [16, 16, 16]
    for source, item in zip(read_lines(with_context), read_set(out), strict=True):
        assert item.context is not None
        assert item.target.data == (SHORT_CORPUS / source["audio_filepath"]).read_bytes()
        assert item.context.data == (SHORT_CORPUS / source["context_audio_filepath"]).read_bytes()


def test_ids_and_fields(tmp_path: Path) -> None:
    manifest = write_lines(tmp_path / "mini.json", with_contexts(read_lines(MINI_CORPUS / "manifest.json")[:6]))
    make(manifest, tmp_path / "out", "--audio-base-dir", MINI_CORPUS)
    source = read_lines(manifest)[0]
    item = read_set(tmp_path / "out")[0]
    other = source["context_audio_filepath"].removesuffix(".flac").replace("/", "-")
    placeholder = {
        "id": "rec-s01-s01_u1",
        "sampling_rate": 22050,
        "num_samples": 23373,
        "duration": 1.06,
        "sources": [{"type": "shar", "channels": [0], "source": ""}],
        "channel_ids": [0],
    }
    left_out = ("audio_filepath", "context_audio_filepath", "text", "duration", "speaker")
    custom = {key: value for key, value in source.items() if key not in left_out}
    assert item.cut == {
        "type": "MonoCut",
        "id": "cut-rec-s01-s01_u1-0.00-1.06",
        "start": 0.0,
        "duration": 1.06,
        "channel": 0,
        "supervisions": [
            {
                "id": "sup-rec-s01-s01_u1",
                "recording_id": "rec-s01-s01_u1",
                "start": 0.0,
                "duration": 1.06,
                "channel": 0,
                "text": "Good morning to you.",
                "language": "en",
                "speaker": "| Language:en Dataset:mini Speaker:s01 |",
                "custom": custom | {"context_recording_id": f"rec-{other}"},
            }
        ],
        "recording": placeholder,
        "custom": {"lang": "en", "context_audio_unaligned": True},
    }
    assert item.target.manifest == placeholder | {"id": "cut-rec-s01-s01_u1-0.00-1.06"}
    assert item.context is not None
    context_id = f"context_cut-rec-{other}-0.00-{source['context_audio_duration']:.2f}"
    length = round(source["context_audio_duration"] * 22050)
    assert item.context.manifest["id"] == context_id
    assert (item.context.manifest["num_samples"], item.context.manifest["duration"]) == (length, length / 22050)


def test_without_contexts_there_is_no_context_audio(short_corpus: Path, tmp_path: Path) -> None:
    make(short_corpus / "manifest.json", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cuts", "recording"]
    for item in read_set(tmp_path / "out"):
        assert "context_recording_id" not in item.supervision["custom"]
        assert item.cut["custom"] == {"lang": item.supervision["language"]}


def fields_of(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir() if path.name != "cuts")


def test_the_field_of_the_audio(short_corpus: Path, tmp_path: Path) -> None:
    """It can be chosen; the bytes of the tars are the same. A set that is there keeps its field."""
    plain, contexts = short_corpus / "manifest.json", MINI_CORPUS / "manifest_with_context.json"
    make(plain, tmp_path / "asr")
    make(plain, tmp_path / "tts", "--audio-field", "target_audio")
    make(contexts, tmp_path / "both", "--audio-field", "recording")
    assert fields_of(tmp_path / "asr") == ["recording"]
    assert fields_of(tmp_path / "tts") == ["target_audio"]
    assert fields_of(tmp_path / "both") == ["context_audio", "recording"]
    assert tree(tmp_path / "asr/recording") == tree(tmp_path / "tts/target_audio")
    assert tree(tmp_path / "asr/cuts") == tree(tmp_path / "tts/cuts")
    for name, use in (("asr", "ASR and everything that reads cut.recording"), ("tts", "Magpie-TTS, and not for ASR")):
        assert f"# The set is for {use}." in (tmp_path / f"{name}.prepcli/train_ds.yaml").read_text()
    assert "nothing to do" in prepcli("manifest-to-shar", plain, tmp_path / "tts").out
    refused = prepcli("manifest-to-shar", plain, tmp_path / "tts", "--audio-field", "recording")
    assert refused.code == 2
    assert "--audio-field was not given" in refused.error_line
    assert prepcli("manifest-to-shar", plain, tmp_path / "tts", "--overwrite").code == 0
    assert fields_of(tmp_path / "tts") == ["recording"]


@pytest.mark.parametrize("audio_format", ["flac", "wav", "original"])
@pytest.mark.parametrize("shuffle", [[], ["--shuffle"]])
def test_segments_are_right_to_the_sample(tmp_path: Path, audio_format: str, shuffle: list[str]) -> None:
    """Segments of one file, some 4 ms apart, as targets and as contexts."""
    audio = write_audio(tmp_path / "long/talk.wav", 20.0)
    parts = [(0.0, 1.5), (1.5, 2.0), (1.504, 2.0), (3.25, 0.7231), (10.3331, 2.0), (12.7, 3.1), (0.0, 20.0)]
    records = []
    for number, (offset, duration) in enumerate(parts):
        context = parts[(number + 2) % len(parts)]
        fields = {"offset": offset, "duration": duration, "text": str(number)}
        fields |= dict(zip(("context_audio_offset", "context_audio_duration"), context, strict=True))
        records.append(record("long/talk.wav", **fields, context_audio_filepath="./long/talk.wav"))
    write_lines(tmp_path / "m.json", records)
    make(tmp_path / "m.json", tmp_path / "out", "--shard-size", 4, "--audio-format", audio_format, *shuffle)
    items = read_set(tmp_path / "out")
    assert sorted(item.supervision["text"] for item in items) == [str(number) for number in range(len(parts))]
    for item in items:
        number = int(item.supervision["text"])
        for stored, (offset, duration) in (
            (item.target, parts[number]), (item.context, parts[(number + 2) % len(parts)]),
        ):  # fmt: skip
            assert stored is not None
            start = int(offset * 8000 + 0.5)
            assert stored.name.endswith(".flac" if audio_format == "flac" else ".wav")
            assert np.array_equal(stored.samples, audio[start : start + int(duration * 8000 + 0.5)])
            assert stored.manifest["num_samples"] == len(stored.samples)
            assert stored.manifest["duration"] == len(stored.samples) / 8000
        assert item.cut["start"] == item.supervision["start"] == 0.0
        assert item.cut["duration"] == item.supervision["duration"] == item.target.manifest["duration"]
        assert item.cut["custom"].get("source_audio_offset", 0.0) == parts[number][0]


def test_ids_that_would_collide_are_told_apart(tmp_path: Path) -> None:
    """Offsets closer than 10 ms, paths that `-` makes one, and the same record twice."""
    for number, path in enumerate(("a/b.wav", "a-b.wav")):
        write_audio(tmp_path / path, 3.0, seed=number)
    places = [("a/b.wav", 1.0), ("a/b.wav", 1.004), ("a-b.wav", 1.0), ("a/b.wav", 1.01), ("a/b.wav", 1.0)]
    records = [record(path, offset=offset, text=str(number)) for number, (path, offset) in enumerate(places)]
    write_lines(tmp_path / "m.json", records)
    make(tmp_path / "m.json", tmp_path / "one")
    make(tmp_path / "m.json", tmp_path / "many", "--shard-size", 1, "--shuffle", "--num-workers", 2)
    same = "cut-rec-a-b-1.00-1.00"
    expected = [same, f"{same}-2", f"{same}-3", "cut-rec-a-b-1.01-1.00", f"{same}-4"]
    for out in ("one", "many"):
        ids = {item.supervision["text"]: item.cut["id"] for item in read_set(tmp_path / out)}
        assert [ids[str(number)] for number in range(len(places))] == expected


def test_speakers_and_languages(tmp_path: Path) -> None:
    for_magpie = ("--audio-field", "target_audio")
    write_audio(tmp_path / "a.wav", 1.0)
    rows: list[tuple[dict[str, Any], Any, Any, Any]] = [
        # fields -> speaker, supervision language, the cut's lang
        ({"speaker": "| Language:de Dataset:X Y Speaker:p 1 |"}, "| Language:de Dataset:X Y Speaker:p 1 |", "de", "de"),
        ({"speaker": MAGPIE, "lang": "it"}, MAGPIE, "en", "it"),
        ({"speaker": "p225", "lang": "fr"}, "p225", "fr", "fr"),
        ({"speaker": "Language:es"}, "Language:es", None, None),
        ({"speaker": 17, "lang": None}, "17", None, None),
        ({"speaker": None, "lang": "ü"}, None, "ü", "ü"),
    ]
    write_lines(tmp_path / "m.json", [record(**fields) for fields, *_ in rows])
    report = make(tmp_path / "m.json", tmp_path / "out", *for_magpie).json
    for (_, speaker, language, lang), item in zip(rows, read_set(tmp_path / "out"), strict=True):
        assert item.supervision.get("speaker") == speaker
        assert item.supervision.get("language") == language
        assert item.cut["custom"].get("lang") == lang
    assert "4 records have a speaker that MagpieTTSLhotseDataset refuses" in report["details"]["speakers"]
    plan = prepcli("manifest-to-shar", tmp_path / "m.json", tmp_path / "other", *for_magpie, "--dry-run").out
    assert "speakers such as 'p225' do not have the form '| Language:xx Dataset:yy Speaker:zz |'" in plan
    write_lines(tmp_path / "m.json", [record(speaker=MAGPIE), record(speaker=None)])
    assert (
        "speakers such as"
        not in prepcli("manifest-to-shar", tmp_path / "m.json", tmp_path / "x", *for_magpie, "--dry-run").out
    )


def test_texts(tmp_path: Path) -> None:
    """An empty normalized_text would take the text's place; an empty text gives way to it."""
    write_audio(tmp_path / "a.wav", 1.0)
    rows: list[tuple[dict[str, Any], str, bool]] = [
        ({"text": "two", "normalized_text": ""}, "two", False),
        ({"text": "two", "normalized_text": "  "}, "two", False),
        ({"text": "two", "normalized_text": None}, "two", False),
        ({"text": "2", "normalized_text": "two"}, "2", True),
        ({"text": "", "normalized_text": "zwölf"}, "zwölf", True),
        ({"text": None, "normalized_text": "two"}, "two", True),
    ]
    write_lines(tmp_path / "m.json", [record(**fields) for fields, *_ in rows])
    make(tmp_path / "m.json", tmp_path / "out")
    for (fields, text, kept), item in zip(rows, read_set(tmp_path / "out"), strict=True):
        assert item.supervision["text"] == text
        assert ("normalized_text" in item.supervision["custom"]) == kept
        assert not kept or item.supervision["custom"]["normalized_text"] == fields["normalized_text"]


def test_unknown_fields_keep_their_text(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    line = '{"audio_filepath": "a.wav", "duration": 1.0, "text": "naïve \\u00fc", "cer": 0.10, "x": {"k": [1, 2.50]}}\n'
    (tmp_path / "m.json").write_text(line, encoding="utf-8")
    make(tmp_path / "m.json", tmp_path / "out")
    written = gzip.decompress((tmp_path / "out/cuts/cuts.000000.jsonl.gz").read_bytes()).decode()
    assert '"custom":{"cer":0.10,"x":{"k": [1, 2.50]}}' in written
    assert '"text":"naïve ü"' in written


def test_channels(tmp_path: Path) -> None:
    """The manifest's channel, else the first; of a context its own, or in the target's file that; said once."""
    stereo = write_audio(tmp_path / "stereo.wav", 2.0, channels=2, seed=1)
    mono = write_audio(tmp_path / "mono.wav", 2.0, seed=2)
    times = {"context_audio_offset": 0.5, "context_audio_duration": 1.5}
    of_stereo: dict[str, Any] = {"context_audio_filepath": "stereo.wav"} | times
    of_mono: dict[str, Any] = {"context_audio_filepath": "mono.wav"} | times
    rows = [
        (record("stereo.wav", **of_stereo), stereo[:8000, 0], stereo[4000:, 0]),
        (record("stereo.wav", channel=1, **of_stereo), stereo[:8000, 1], stereo[4000:, 1]),
        (record("stereo.wav", channel=0, **of_mono), stereo[:8000, 0], mono[4000:]),
        (record("stereo.wav", channel=1, context_audio_channel=0, **of_stereo), stereo[:8000, 1], stereo[4000:, 0]),
        (record("mono.wav", channel=1, **of_stereo), mono[:8000], stereo[4000:, 0]),
        (record("mono.wav", channel=0, context_audio_channel=1, **of_stereo), mono[:8000], stereo[4000:, 1]),
        (record("mono.wav", **of_mono), mono[:8000], mono[4000:]),
    ]  # fmt: skip
    write_lines(tmp_path / "m.json", [row for row, _, _ in rows])
    for audio_format in ("flac", "original"):
        out = tmp_path / audio_format
        report = make(tmp_path / "m.json", out, "--shard-size", 2, "--audio-format", audio_format).json
        for (_, target, context_samples), item in zip(rows, read_set(out), strict=True):
            assert item.context is not None
            assert np.array_equal(item.target.samples, target)
            assert np.array_equal(item.context.samples, context_samples)
            assert item.context.manifest["channel_ids"] == [0]
        assert report["details"]["channels"].startswith("6 records name audio of several channels")
    printed = prepcli("manifest-to-shar", tmp_path / "m.json", tmp_path / "again")
    assert (printed.out + printed.err).count("several channels") == 1


def test_whole_stereo_files_are_not_passed_through(tmp_path: Path) -> None:
    stereo = write_audio(tmp_path / "a.flac", 1.0, channels=2)
    write_lines(tmp_path / "m.json", [record("a.flac")])
    for audio_format in ("flac", "original"):
        make(tmp_path / "m.json", tmp_path / audio_format, "--audio-format", audio_format)
        (item,) = read_set(tmp_path / audio_format)
        assert item.target.name.endswith(".flac")
        assert np.array_equal(item.target.samples, stereo[:, 0])


def test_24_bits_survive(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(-(2**23), 2**23, 16000, dtype=np.int32) << 8
    soundfile.write(tmp_path / "a.wav", data, 16000, subtype="PCM_24")
    write_lines(tmp_path / "m.json", [record(offset=0.25, duration=0.5)])
    make(tmp_path / "m.json", tmp_path / "out")
    (item,) = read_set(tmp_path / "out")
    assert np.array_equal(soundfile.read(io.BytesIO(item.target.data), dtype="int32")[0], data[4000:12000])


def test_resampling(tmp_path: Path) -> None:
    """The manifest tells of what is stored; what has the rate already passes through."""
    write_audio(tmp_path / "a.flac", 1.0, rate=44100)
    write_audio(tmp_path / "b.flac", 1.0, rate=16000)
    write_lines(tmp_path / "m.json", [record("a.flac"), record("b.flac"), record("a.flac", duration=0.99999)])
    make(tmp_path / "m.json", tmp_path / "out", "--target-sample-rate", 16000)
    items = read_set(tmp_path / "out")
    assert [(item.target.rate, item.target.manifest["sampling_rate"]) for item in items] == [(16000, 16000)] * 3
    assert items[1].target.data == (tmp_path / "b.flac").read_bytes()
    assert [item.cut["duration"] for item in items] == [1.0, 1.0, 1.0]
    assert items[2].cut["id"] == "cut-rec-a-0.00-1.00-2"


def test_original_keeps_whole_files_of_any_kind(tmp_path: Path) -> None:
    names = ["a.wav", "b.flac", "c.ogg", "d.mp3", "e.opus"]
    for name in names:
        options: dict[str, Any] = {"format": "OGG", "subtype": "OPUS"} if name == "e.opus" else {}
        write_audio(tmp_path / name, 1.0, rate=16000, **options)
    durations = [soundfile.info(tmp_path / name).duration for name in names]
    write_lines(tmp_path / "m.json", [record(name, duration=d) for name, d in zip(names, durations, strict=True)])
    make(tmp_path / "m.json", tmp_path / "out", "--audio-format", "original")
    for name, item in zip(names, read_set(tmp_path / "out"), strict=True):
        assert item.target.data == (tmp_path / name).read_bytes()
        assert item.target.name.endswith(Path(name).suffix)


def test_a_file_of_rejects_can_be_tried_again(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    context: dict[str, Any] = {"context_audio_filepath": "late.wav", "context_audio_duration": 0.5}
    write_lines(tmp_path / "m.json", [record(**context)])
    arguments = [tmp_path / "m.json", tmp_path / "out", "--max-rejects", 1]
    assert prepcli("manifest-to-shar", *arguments).code == 0
    write_audio(tmp_path / "late.wav", 1.0)
    rejects = tmp_path / "out.prepcli/rejects.jsonl"
    make(rejects, tmp_path / "again", "--audio-base-dir", tmp_path)
    (item,) = read_set(tmp_path / "again")
    assert set(item.supervision["custom"]) == {"context_audio_duration", "context_recording_id"}


def test_shuffle_is_a_permutation_with_a_seed(with_context: Path, tmp_path: Path) -> None:
    def order(name: str, *options: object) -> list[str]:
        make(with_context, tmp_path / name, "--audio-base-dir", SHORT_CORPUS, "--shard-size", 12, *options)
        return [item.cut["id"] for item in read_set(tmp_path / name)]

    plain = order("plain")
    first, again, other = (
        order(name, "--shuffle", "--shuffle-seed", seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == again
    assert len({tuple(ids) for ids in (plain, first, other)}) == 3
    assert sorted(first) == sorted(plain) == sorted(other)
    of_a_shard = [plain.index(id) for id in first[:12]]
    assert of_a_shard != sorted(of_a_shard), "not only which shard a cut is in"


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", [[], ["--shuffle"]])
def test_the_bytes_do_not_depend_on_workers_or_ranks(with_context: Path, tmp_path: Path, shuffle: list[str]) -> None:
    manifest = write_lines(tmp_path / "m.json", read_lines(with_context)[::4])
    options = ["--audio-base-dir", SHORT_CORPUS, "--shard-size", 2, "--audio-format", "opus", *shuffle]
    make(manifest, tmp_path / "one", *options, "--num-workers", 1)
    assert prepcli("manifest-to-shar", manifest, tmp_path / "four", *options, "--num-workers", 4).code == 0
    for world_size in (2, 5):
        for rank in reversed(range(world_size)):
            out = tmp_path / f"world{world_size}"
            done = prepcli("manifest-to-shar", manifest, out, *options, "--rank", rank, "--world-size", world_size)
            assert done.code == 0, done.err
    trees = [tree(tmp_path / name) for name in ("one", "four", "world2", "world5")]
    assert all(one == trees[0] for one in trees)


def test_a_compressed_manifest_gives_the_same(with_context: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(with_context.read_bytes()))
    for name, manifest in (("plain", with_context), ("packed", packed)):
        make(manifest, tmp_path / name, "--audio-base-dir", SHORT_CORPUS, "--shard-size", 10)
    assert tree(tmp_path / "plain") == tree(tmp_path / "packed")
    more = ["--audio-base-dir", SHORT_CORPUS, "--shard-size", 10, "--dry-run", "--json"]
    plan = prepcli("manifest-to-shar", packed, tmp_path / "none", *more).json
    assert (plan["units"], plan["records_planned"]) == (5, 48)
    assert not (tmp_path / "none").exists() and not (tmp_path / "none.prepcli").exists()


def test_again_is_nothing_and_other_settings_are_refused(with_context: Path, tmp_path: Path) -> None:
    arguments = ["manifest-to-shar", with_context, tmp_path / "out", "--audio-base-dir", SHORT_CORPUS]
    assert prepcli(*arguments).code == 0
    again = prepcli(*arguments)
    assert (again.code, again.out.count("\n"), again.err) == (0, 1, "")
    done = prepcli(*arguments, "--audio-format", "wav")
    assert done.code == 2
    assert "--audio-format was flac, now wav" in done.error_line
    done = prepcli(*arguments, "--audio-format", "opus", "--target-sample-rate", 16000)
    assert done.code == 2
    assert "lhotse stores Opus at 48000 Hz" in done.error_line


@pytest.mark.parametrize("keeps_packed", [True, False])
@pytest.mark.parametrize("indexed", [False, True])
def test_cuts_in_the_other_form_stop_a_run(keeps_packed: bool, indexed: bool, tmp_path: Path) -> None:
    """Readers take both for shards, and stop."""
    arguments = ["manifest-to-shar", SHORT_CORPUS / "manifest.json", tmp_path / "out", "--shard-size", 24]
    arguments += ["--indexed"] if indexed else []
    assert prepcli(*arguments).code == 0
    own, other = "cuts.000001.jsonl.gz", "cuts.000001.jsonl"
    if indexed:
        own, other = other, own
    cuts = tmp_path / "out/cuts"
    data = (cuts / own).read_bytes()
    (cuts / other).write_bytes(gzip.compress(data) if indexed else gzip.decompress(data))
    if not keeps_packed:
        (cuts / own).unlink()
    before = tree(tmp_path / "out")
    done = prepcli(*arguments)
    assert (done.code, tree(tmp_path / "out")) == (2, before)
    assert f"{cuts}/{other} and {own}, which this command writes, would be two files of the same" in done.error_line
    (cuts / other).unlink()
    assert prepcli(*arguments).code == 0
    assert (cuts / own).read_bytes() == data


def test_awkward_directories(awkward: Path) -> None:
    """Names with everything in them, dots and no extension too."""
    names = ["a b.wav", 'it\'s "odd"/naïve\n目录.x.wav', "v1.0/no extension", "../up.wav"]
    for number, name in enumerate(names):
        (awkward / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        write_audio(awkward / "in.wav", 1.0, seed=number)
        (awkward / "in.wav").replace(awkward / "in" / name)
    manifest = write_lines(awkward / "in/m.json", [record(name) for name in names])
    make(manifest, awkward / "o u t")
    items = read_set(awkward / "o u t")
    assert items[2].cut["id"] == "cut-rec-v1.0-no extension-0.00-1.00"
    for name, item in zip(names, items, strict=True):
        assert "/" not in item.target.name
        assert np.array_equal(item.target.samples, soundfile.read(awkward / "in" / name, dtype="int16")[0])


def test_json_summary_is_alone_on_stdout(with_context: Path, tmp_path: Path) -> None:
    done = make(with_context, tmp_path / "out", "--audio-base-dir", SHORT_CORPUS)
    assert done.err == ""
    assert done.json["status"] == "done"
    assert json.loads((tmp_path / "out.prepcli/report.json").read_text())["records_out"] == 48
