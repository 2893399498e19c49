"""extend-codec-codes with a small codec: what is in the tars, in every kind of Shar, and what becomes of bad audio."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from prepcli.audio.opening import read_whole
from prepcli.commands.extend_codec_codes import file_segments
from prepcli.commands.extend_codec_codes.command import extend_codec_codes
from prepcli.commands.extend_codec_codes.encoding import UnitEncoder
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment, UsedSegmentDecoder
from prepcli.commands.extend_codec_codes.plan import InputShard, find_input, group_shards
from prepcli.commands.extend_codec_codes.settings import CodecSettings
from prepcli.commands.extend_codec_codes.shard_index import index_shard
from prepcli.commands.verify.checking import check_set
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.errors import InputChangedError, RecordRejected, UsageError
from prepcli.formats.codes import codes_type
from prepcli.jobs.prefetch import decode_batch
from prepcli.manifest.shar_cuts import ShardSize
from prepcli.models.running import ModelRunner
from prepcli.models.sinc import resample_sinc
from prepcli.storage.addresses import ByteRange
from prepcli.storage.input_files import FileState
from tests.conftest import MINI_CORPUS, SHORT_CORPUS, copy_set, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.codes_sets import alone, lhotse_cuts, read_codes
from tests.support.engine_options import call_with
from tests.support.lazy import lazy
from tests.support.shar_sets import FIELDS, make, members, read_cuts, rewrite_tar
from tests.support.toy_codec import ToyCodec, use_toy_codec

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

OPTIONS = CodecSettings("toy", "toy")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus with contexts as six Shar shards."""
    out = tmp_path_factory.mktemp("corpus") / "shar"
    make(MINI_CORPUS / "manifest_with_context.json", out, "--shard-size", 8)
    return out


@pytest.fixture
def shar(corpus: Path, tmp_path: Path) -> Path:
    """A copy of it, without the records of its making."""
    return copy_set(corpus, tmp_path)


Extend = Callable[..., Report]


@pytest.fixture
def codec() -> ToyCodec:
    return ToyCodec()


@pytest.fixture
def extend(monkeypatch: pytest.MonkeyPatch, codec: ToyCodec) -> Extend:
    """Runs the job in this process, with the toy codec."""

    def run(folder: Path, out: Path | None = None, num_workers: int = 1, **changes: Any) -> Report:
        use_toy_codec(monkeypatch.setattr, lambda name: codec if name == "toy" else ToyCodec(name))
        engine = RunOptions(num_workers=num_workers, budget=Budget(0.9))
        options = {"codec_model": "toy", "codec_name": "toy"} | changes
        return call_with(engine, extend_codec_codes, folder, output_dir=out, devices="cpu", **options)

    return run


def rejects(folder: Path, name: str = "toy") -> list[dict[str, Any]]:
    return read_lines(folder.with_name(folder.name + ".prepcli") / f"codes_{name}/rejects.jsonl")


def check_against_lhotse(folder: Path, codes: Path, codec: ToyCodec, fields: tuple[str, ...] = FIELDS) -> int:
    """All codes are those of the segments alone, aligned with the cuts; returns how many arrays there are."""
    count = 0
    for cut in lhotse_cuts(folder, codes):
        for field in fields:
            stored = getattr(cut, field.replace("audio", "codes"))
            found = stored.load()
            assert found.dtype == np.int16
            assert stored.frame_shift == codec.samples_per_frame / codec.sampling_rate
            np.testing.assert_array_equal(found, alone(codec, getattr(cut, field)))
            assert len(np.unique(found)) > min(20, found.size // 3)
            count += 1
    return count


@pytest.mark.slow
def test_codes_are_those_of_each_segment_alone(shar: Path, extend: Extend, codec: ToyCodec) -> None:
    report = extend(shar)
    assert (report.status, report.records_out, report.rejects) == ("done", 48, 0)
    distinct = {data for field in FIELDS for tar in (shar / field).iterdir() for _, data in members(tar)[::2]}
    assert codec.num_encoded == len(distinct) < 96
    assert check_against_lhotse(shar, shar / "codes_toy", codec) == 96
    details = report.details
    assert details["target_codes"] == f"{shar}/codes_toy/target_codes/codes._OP_000000..000005_CL_.tar"
    assert 0.5 < details["saved_by_encoding_once"] < 0.7
    assert details["mean_batch_seconds"] > 0
    assert "codes_unlike_fp32" not in details
    assert check_set(shar).problems == []
    assert extend(shar).status == "nothing_to_do"


def test_a_shar_for_asr_is_read_by_lhotse_and_gets_codes(tmp_path: Path, extend: Extend, codec: ToyCodec) -> None:
    """`cut.load_audio` reads the field `recording`; the codes are those of the same Shar for Magpie-TTS."""
    asr, tts = tmp_path / "asr", tmp_path / "tts"
    make(SHORT_CORPUS / "manifest.json", asr)
    make(SHORT_CORPUS / "manifest.json", tts, "--audio-field", "target_audio")
    for folder in (asr, tts):
        assert extend(folder).status == "done"
        assert check_set(folder).problems == []
    assert tree(asr / "codes_toy") == tree(tts / "codes_toy")
    cuts = list(lhotse_cuts(asr, asr / "codes_toy"))
    assert len(cuts) > 3
    for cut in cuts:
        assert cut.load_audio().shape == (1, cut.num_samples)
        np.testing.assert_array_equal(cut.target_codes.load(), alone(codec, cut.recording))
    section = (tmp_path / "asr.prepcli/codes_toy/train_ds.yaml").read_text()
    assert f"recording: {asr}/recording/recording.000000.tar" in section


def test_a_batch_of_mixed_lengths_would_change_codes(codec: ToyCodec) -> None:
    """Or the test above would prove nothing."""
    audio = torch.randn(2, 1600, generator=torch.Generator().manual_seed(0)) / 4
    audio[0, 960:] = 0
    padded, frames = codec.encode(audio, torch.tensor([960, 1600]), "fp32")
    own, _ = codec.encode(audio[:1, :960], torch.tensor([960]), "fp32")
    assert (padded[0, :, : frames[0]] != own[0]).any()


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"pool_duration": 1.0}, {"pool_duration": 60.0, "batch_duration": 4.0}])
def test_pools_and_batches_of_any_size(shar: Path, extend: Extend, codec: ToyCodec, changes: dict[str, float]) -> None:
    report = extend(shar, num_workers=2, **changes)
    assert report.units == (6 if changes["pool_duration"] == 1.0 else 2)
    assert check_against_lhotse(shar, shar / "codes_toy", codec) == 96


@pytest.mark.slow
def test_a_second_codec_beside_the_first(shar: Path, extend: Extend) -> None:
    extend(shar)
    before = tree(shar)
    extend(shar, codec_model="other", codec_name="other")
    after = tree(shar)
    assert {name: digest for name, digest in after.items() if "codes_other" not in name} == before
    assert len(after) == len(before) + 12
    first, second = (read_codes(shar / f"codes_{name}/target_codes/codes.000000.tar") for name in ("toy", "other"))
    assert not np.array_equal(first[0].codes, second[0].codes)  # type: ignore[arg-type]
    assert check_set(shar).problems == []


def test_other_settings_or_cuts_are_refused(shar: Path, extend: Extend) -> None:
    extend(shar)
    with pytest.raises(UsageError, match=r"batch_duration was 120\.0, now 60\.0"):
        extend(shar, batch_duration=60.0)
    with pytest.raises(UsageError, match="codec_model was toy, now other"):
        extend(shar, codec_model="other")
    cuts = shar / "cuts/cuts.000002.jsonl.gz"
    cuts.write_bytes(gzip.compress(gzip.decompress(cuts.read_bytes()).replace(b"lang", b"tongue")))
    with pytest.raises(UsageError, match=r"cuts.000002.jsonl.gz has another content"):
        extend(shar)


def test_output_elsewhere(shar: Path, extend: Extend, tmp_path: Path, codec: ToyCodec) -> None:
    before = tree(shar)
    out = tmp_path / "elsewhere"
    extend(shar, out)
    assert tree(shar) == before
    assert check_against_lhotse(shar, out / "codes_toy", codec) == 96
    checked = check_set(out)
    assert (checked.problems, checked.records, checked.members) == ([], 48, 96)
    shutil.rmtree(shar)
    with pytest.raises(UsageError, match="the Shar set they belong to cannot be found"):
        check_set(out)


def test_without_context_with_gaps_and_plain_cuts(shar: Path, extend: Extend, codec: ToyCodec) -> None:
    shutil.rmtree(shar / "context_audio")
    for name in ("cuts/cuts.000001.jsonl.gz", "target_audio/recording.000001.tar"):
        (shar / name).unlink()
    for number in (0, 4):
        packed = shar / f"cuts/cuts.{number:06d}.jsonl.gz"
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    report = extend(shar)
    assert report.details["target_codes"].endswith("codes_toy/target_codes/codes.*.tar")
    assert sorted(path.name for path in (shar / "codes_toy").rglob("*.tar")) == [
        f"codes.{number:06d}.tar" for number in (0, 2, 3, 4, 5)
    ]
    assert check_against_lhotse(shar, shar / "codes_toy", codec, ("target_audio",)) == 40


def lhotse_set(folder: Path) -> Path:
    """Made by lhotse's own writers: several rates, one frame, a minute, stereo, and a cut without a context."""
    from lhotse import AudioSource, MonoCut, MultiCut, Recording
    from lhotse.shar.writers import AudioTarWriter, JsonlShardWriter

    seconds = [(8000, 1.0), (16000, 2.5), (22050, 1.7), (44100, 0.9), (16000, 0.01), (16000, 60.0), (44100, 3.3)]
    cuts: list[Any] = []
    for number, (rate, duration) in enumerate(seconds):
        path = folder / f"{number}.wav"
        write_audio(path, duration, rate, seed=number, channels=1 + (number == 6))
        recording = Recording.from_file(path, recording_id=f"rec-{number}")
        if recording.num_channels > 1:
            cuts.append(MultiCut(f"cut.{number}", 0, recording.duration, [0, 1], recording=recording))
        else:
            cuts.append(MonoCut(f"cut.{number}", 0, recording.duration, 0, recording=recording))
    out = folder / "shar"
    for name in ("cuts", *FIELDS):
        (out / name).mkdir(parents=True)
    with (
        JsonlShardWriter(f"{out}/cuts/cuts.%06d.jsonl.gz", 3) as lines,
        AudioTarWriter(f"{out}/target_audio/recording.%06d.tar", 3, "flac") as targets,
        AudioTarWriter(f"{out}/context_audio/recording.%06d.tar", 3, "wav") as contexts,
    ):
        for number, cut in enumerate(cuts):
            source = AudioSource(type="shar", channels=cut.recording.channel_ids, source="")
            manifest = replace(cut.recording, sources=[source])
            lines.write(cut)
            targets.write(cut.id, cut.load_audio(), cut.sampling_rate, manifest)
            if number == 3:
                contexts.write_placeholder(cut.id)
            else:
                contexts.write(cut.id, cut.load_audio(), cut.sampling_rate, manifest)
    return out


def test_sets_of_lhotses_writers(tmp_path: Path, extend: Extend, codec: ToyCodec) -> None:
    out = lhotse_set(tmp_path)
    report = extend(out)
    assert (report.records_out, report.rejects) == (7, 0)
    cuts = lhotse_cuts(out, out / "codes_toy")
    lengths = []
    for number, cut in enumerate(cuts):
        np.testing.assert_array_equal(cut.target_codes.load(), alone(codec, cut.target_audio))
        lengths.append(cut.target_codes.shape[1])
        if number == 3:
            assert not cut.has_custom("context_codes")
        else:
            np.testing.assert_array_equal(cut.context_codes.load(), alone(codec, cut.context_audio))
    assert lengths == [100, 250, 170, 90, 1, 6000, 330]
    # WAV and FLAC of the same samples are other bytes: nothing is saved but what is equal.
    assert report.details["saved_by_encoding_once"] == 0


def test_bad_audio_is_rejected_and_the_fields_stay_aligned(shar: Path, extend: Extend, codec: ToyCodec) -> None:
    ids = [cut["id"] for cut in read_cuts(shar / "cuts/cuts.000000.jsonl.gz")]

    def damage(content: list[tuple[str, bytes]]) -> None:
        content[4] = (content[4][0], content[4][1][: len(content[4][1]) // 2])  # the third cut
        content[6] = (content[6][0], b"no audio")
        noise = bytearray(content[8][1])
        noise[300:600] = bytes(300)  # only decoding finds this one
        content[8] = (content[8][0], bytes(noise))
        content[10] = (f"{ids[5]}.nodata", b"")
        content[11] = (f"{ids[5]}.nometa", b"")
        manifest = json.loads(content[13][1])
        content[13] = (content[13][0], json.dumps(manifest | {"num_samples": manifest["num_samples"] * 2}).encode())
        content[14] = (content[14][0], b"no audio")  # a cut whose context is missing: the reason is its target's

    rewrite_tar(shar / "target_audio/recording.000000.tar", damage)

    def other_rate(content: list[tuple[str, bytes]]) -> None:
        manifest = json.loads(content[1][1])
        content[1] = (content[1][0], json.dumps(manifest | {"sampling_rate": manifest["sampling_rate"] * 2}).encode())

    rewrite_tar(shar / "target_audio/recording.000001.tar", other_rate)

    def damage_contexts(content: list[tuple[str, bytes]]) -> None:
        content[0] = content[14] = ("x.flac", b"")

    rewrite_tar(shar / "context_audio/recording.000000.tar", damage_contexts)
    torn = shar / "context_audio/recording.000003.tar"
    first = len(members(torn)[0][1])
    torn.write_bytes(torn.read_bytes()[: first + 5000])
    report = extend(shar)
    listed = rejects(shar)
    lost = [line["id"] for line in listed]
    from_third = [cut["id"] for cut in read_cuts(shar / "cuts/cuts.000003.jsonl.gz")]
    first_of_second = read_cuts(shar / "cuts/cuts.000001.jsonl.gz")[0]["id"]
    assert lost[:8] == [ids[0], *ids[2:8], first_of_second]
    assert lost[8:] == from_third[-len(lost[8:]) :]
    assert 5 < len(lost[8:]) <= 8
    assert report.records_out + len(listed) == 48
    reasons = [line["reject_reason"] for line in listed[:8]]
    assert reasons == ["missing_audio", *["unreadable_audio"] * 3, "missing_audio", *["unreadable_audio"] * 3]
    assert "context_audio: " not in listed[1]["reject_detail"]
    assert (listed[1]["manifest_line"], listed[1]["text" if "text" in listed[1] else "id"]) == (3, ids[2])
    for number in range(6):
        cut_ids = [cut["id"] for cut in read_cuts(shar / f"cuts/cuts.{number:06d}.jsonl.gz")]
        for field in ("target_codes", "context_codes"):
            stored = read_codes(shar / f"codes_toy/{field}/codes.{number:06d}.tar")
            assert [one.cut_id for one in stored] == cut_ids
            assert [one.cut_id for one in stored if one.codes is None] == [one for one in cut_ids if one in lost]


def test_audio_too_short_for_the_codec(tmp_path: Path, extend: Extend, codec: ToyCodec) -> None:
    codec.min_frames = 4
    out = lhotse_set(tmp_path)
    report = extend(out)
    assert report.rejects_by_reason == {"bad_duration": 1}
    assert "too short for the codec, which needs 4 frames of 0.01 s" in rejects(out)[0]["reject_detail"]


def test_resampling_is_lhotses(tmp_path: Path) -> None:
    from lhotse import Recording

    for rate, to_rate in ((8000, 22050), (44100, 22050), (48000, 16000), (22050, 24000)):
        path = tmp_path / f"{rate}.wav"
        write_audio(path, 1.2345, rate)
        audio, _ = soundfile.read(path, dtype="float32")
        theirs = Recording.from_file(path).resample(to_rate).load_audio()[0]
        np.testing.assert_array_equal(resample_sinc(torch.from_numpy(audio), rate, to_rate).numpy(), theirs)


def test_resampling_of_whole_batches(tmp_path: Path) -> None:
    """As on a GPU: rows of one number of frames but of several lengths, at their own rate."""
    out = tmp_path / "shar"
    lines = []
    for number in range(40):
        write_audio(tmp_path / f"{number}.wav", 0.5 + 0.0007 * number, 22050, seed=number)
        lines.append({"audio_filepath": f"{number}.wav", "duration": 0.5 + 0.0007 * number, "text": "x"})
    make(write_lines(tmp_path / "m.json", lines), out)
    shards = find_input(out)
    indices = [index_shard(shard) for shard in shards]
    codes = []
    for on_gpu in (False, True):
        codec = ToyCodec()
        job: Any = SimpleNamespace(model=codec, codec=OPTIONS, is_on_gpu=on_gpu, mixes_lengths=False)
        encoder = UnitEncoder(shards, indices, job, out)
        codes.append(encoded(encoder, job)[0])
        assert encoder.extra["batches"] < 10
    for one, other in zip(*codes, strict=True):
        assert isinstance(one, np.ndarray)
        # But for rounding: a thousand levels show the last bits of a float.
        assert one.shape == other.shape
        assert np.abs(one - other).max() <= 1
        assert (one != other).mean() < 0.01


def encoded(encoder: UnitEncoder, job: Any) -> tuple[list[Any], int, float]:
    """The codes of the unit, and the records and seconds by which its progress has advanced."""
    decoder = UsedSegmentDecoder(None if job.is_on_gpu else job.model.sampling_rate)
    advanced: list[tuple[int, float]] = []

    def advance(records: int, seconds: float) -> None:
        advanced.append((records, seconds))

    encoder.begin("cpu", advance)
    with ModelRunner("cpu", job.model.rows_on_cpu) as runner:
        for number, batch in enumerate(encoder.batches()):
            rows = np.empty((len(batch.items), batch.num_samples), np.float32)
            encoder.start(number, decode_batch(decoder, batch, rows), runner, advance)()
    codes = encoder.finish(advance)
    return codes, sum(records for records, _ in advanced), sum(seconds for _, seconds in advanced)


def test_progress_counts_every_cut(tmp_path: Path) -> None:
    """Also those whose audio is too short, and is not decoded."""
    shards = find_input(lhotse_set(tmp_path))
    codec = ToyCodec()
    codec.min_frames = 4
    job: Any = SimpleNamespace(model=codec, codec=OPTIONS, is_on_gpu=False, mixes_lengths=False)
    encoder = UnitEncoder(shards, [index_shard(shard) for shard in shards], job, tmp_path)
    codes, records, seconds = encoded(encoder, job)
    assert sum(isinstance(one, RecordRejected) for one in codes) == 2  # a target and a context
    assert records == 7
    assert seconds == pytest.approx(sum((1.0, 2.5, 1.7, 0.9, 0.01, 60.0, 3.3)))


@pytest.mark.slow
def test_faster_precision_says_what_it_costs(shar: Path, extend: Extend) -> None:
    details = extend(shar, precision="bf16").details
    assert 0.001 < details["codes_unlike_fp32"] < 1
    assert details["codes_compared"] > 1000
    again = extend(shar, precision="tf32", codec_name="tf32").details
    assert again["codes_unlike_fp32"] == 0


def test_types_of_codes() -> None:
    assert codes_type(2**15) is np.int16
    assert codes_type(2**15 + 1) is np.int32


def test_large_codebooks(shar: Path, extend: Extend, codec: ToyCodec) -> None:
    codec.codebook_size = 100_000
    extend(shar)
    stored = read_codes(shar / "codes_toy/target_codes/codes.000000.tar")
    assert all(one.codes is not None and one.codes.dtype == np.int32 for one in stored)
    assert max(int(one.codes.max()) for one in stored if one.codes is not None) > 2**15


def test_audio_has_at_most_the_length_in_its_manifest(shar: Path) -> None:
    """It may be up to 25 ms longer, of which lhotse reads nothing, or shorter."""
    tar = shar / "target_audio/recording.000000.tar"

    def lengths() -> list[int]:
        found = index_shard(find_input(shar)[0]).fields["target_audio"]
        return [one.num_samples for one in found if isinstance(one, UsedSegment)]

    def change(content: list[tuple[str, bytes]]) -> None:
        for place, more in ((1, -100), (3, 100)):
            name, manifest = content[place][0], json.loads(content[place][1])
            content[place] = name, json.dumps(manifest | {"num_samples": manifest["num_samples"] + more}).encode()

    first, *others = lengths()
    rewrite_tar(tar, change)
    assert lengths() == [first - 100, *others]


def test_a_tar_in_a_store_that_changes_during_a_run(shar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of an object has no version: the digest shows whether the bytes are those that were indexed."""
    member = index_shard(find_input(shar)[0]).fields["target_audio"][0]
    assert isinstance(member, UsedSegment)
    assert isinstance(member.segment.source, ByteRange)
    data = read_whole(member.segment.source, "a")
    there = member.segment.source._replace(path="s3://bucket/recording")
    stored = member._replace(segment=member.segment._replace(source=there))
    monkeypatch.setattr(file_segments, "read_whole", lambda source, name: data)
    decoder = UsedSegmentDecoder(None)
    assert np.array_equal(decoder.decode(stored), decoder.decode(member))
    data = data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(InputChangedError, match="recording was changed during the run"):
        decoder.decode(stored)


def test_cuts_that_change_during_a_run(shar: Path) -> None:
    """Codes of other cuts must not be published under the plan of the old ones."""
    shard = find_input(shar)[0]
    assert index_shard(shard).ids
    assert isinstance(shard.cuts, Path)
    shard.cuts.write_bytes(gzip.compress(gzip.decompress(shard.cuts.read_bytes()).replace(b'"id"', b'"di"')))
    with pytest.raises(InputChangedError, match="was changed during the run"):
        index_shard(shard)


def test_units_are_neighbouring_shards() -> None:
    shards = [InputShard(number, Path("x"), {}, FileState(0, 0)) for number in (0, 1, 2, 5, 6)]
    sizes = [ShardSize("", 10, seconds) for seconds in (50.0, 60.0, 200.0, 10.0, 20.0)]
    made = [
        (unit.id, unit.cost, unit.num_records, [shard.number for shard in unit.shards])
        for unit in group_shards(shards, sizes, 100.0)
    ]
    assert made == [
        ("shards_000000-000001", 110.0, 20, [0, 1]),
        ("shards_000002", 200.0, 10, [2]),
        ("shards_000005-000006", 30.0, 20, [5, 6]),
    ]
    many = [InputShard(number, Path("x"), {}, FileState(0, 0)) for number in range(200)]
    counts = [len(unit.shards) for unit in group_shards(many, [ShardSize("", 1, 1.0)] * 200, 1e9)]
    assert counts == [64, 64, 64, 8]


def test_the_section_for_a_training_config_has_all_fields(shar: Path, tmp_path: Path, extend: Extend) -> None:
    """Also where the codes are in another directory; lhotse reads what stands in it."""
    from glob import glob

    import yaml
    from lhotse import CutSet

    report = extend(shar, tmp_path / "codes")
    text = Path(report.details["train_ds"]).read_text()
    paths = yaml.safe_load(text)["train_ds"]["shar_path"]
    assert list(paths) == ["cuts", "target_audio", "context_audio", "target_codes", "context_codes"]
    assert all("000000..000005" in path for path in paths.values())
    line = next(line for line in text.splitlines() if "CutSet.from_shar" in line)
    cuts = eval(line.partition("alone: ")[2], {"CutSet": CutSet, "glob": glob})
    assert sum(1 for cut in cuts if cut.has_custom("target_codes")) == 48
