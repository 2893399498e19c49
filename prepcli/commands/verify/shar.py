"""Checks that a Lhotse Shar set is complete and its fields are aligned; at least as strict as any loader.

The text contexts of the set must match its cuts. lhotse (shar/readers/lazy.py) reads the cuts and the tars of a shard
in parallel. It silently stops at the end of the shortest file, and does not check for repeated ids.
"""

import gzip
import posixpath
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import msgspec
import numpy as np

from prepcli.commands.verify.indexes import index_problems, moved_from
from prepcli.commands.verify.runs import PublishedRun
from prepcli.commands.verify.shards import CheckedFile, ShardReport, Verification, check_audio, repeated
from prepcli.engine.publishing.hashes import ContentHash
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.codes import CODES_OF
from prepcli.formats.indexes import MIRROR
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.npy import read_npy
from prepcli.formats.pairs import Pair, read_pairs
from prepcli.formats.shar import RECORDING, TARGET, TEXT_CONTEXT_CUTS, RecordingLine, shard_text
from prepcli.formats.shar_set import CodesSet, SharSet
from prepcli.formats.stored_set import Shards
from prepcli.gate import fit
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.supervisions import SourceCut, SupervisionReader
from prepcli.manifest.shar_cuts import cuts_digest, decode_cuts
from prepcli.planning.hashing import Hashes
from prepcli.storage.addresses import join
from prepcli.storage.paths import AnyPath, path_of, relative

_AGAIN = "run extend-text-context again with --overwrite"
_OUTSIDE = "trainers read these cuts whole, but prepcli rejects such records of its inputs"
TOLERANCE = 1e-3
"""Seconds by which two durations may differ, because of rounding or of resampling to whole samples."""


class _Array(msgspec.Struct):
    shape: list[int]


class _Cut(SourceCut):
    recording: RecordingLine | None = None


class _TemporalArray(msgspec.Struct):
    array: _Array
    temporal_dim: int
    frame_shift: float


@dataclass(frozen=True, slots=True)
class SharFiles:
    """One shard to check: its cuts, and the tar of each field.

    `tars`: the tars by field. `codes`: the tars of codes by folder, such as `codes_<name>/target_codes`. `mirror`: the
    folder in which further indexes are looked for, in addition to those next to the data.
    """

    cuts: CheckedFile
    tars: dict[str, CheckedFile]
    codes: dict[str, CheckedFile]
    mirror: AnyPath


def verify_shar(shar: SharSet, of: Verification) -> None:
    """Check a Shar set, and its text contexts."""
    _verify(shar, None, of)
    of.report.problems += text_context_problems(of.out, of.runs)


def verify_codes(coded: CodesSet, of: Verification) -> None:
    """Check that codes in a folder without cuts match the cuts of the Shar set of which a run has made them.

    Raises:
        UsageError: the Shar set cannot be found.
    """
    shar = _coded_set(of)
    of.coded = shar.folder
    _verify(shar, coded, of)


def _coded_set(of: Verification) -> SharSet:
    """The Shar set whose codes are in `of.out`, found by the inputs of the runs that made them."""
    for run in of.runs:
        for file in run.plan.inputs:
            shar = SharSet(path_of(join(run.plan.run_in, file["path"])).parent.parent)
            if "cuts" in shar.listed.folders:
                return shar
    raise UsageError(
        f"{of.out} holds codes, but the Shar set they belong to cannot be found; give the directory that has its cuts"
    )


def _verify(shar: SharSet, coded: CodesSet | None, of: Verification) -> None:
    """Check a Shar set; with `coded`, check only that these codes match its cuts."""
    report = of.report
    report.kind = "shar"
    try:
        shards = _shards(shar, coded, of)
        report.problems += coded.gaps(shar.shards) if coded else shar.gaps()
    except UsageError as error:
        report.problems.append(str(error))
        return
    if shards and (note := moved_from(of.out, shards[0].cuts.path)):
        report.notes.append(note)
    checked = list(of.check(_check_shard, shards))
    report.problems += _repeated_ids(shards, [shard.id_hashes for shard in checked])
    if outside := sum(shard.num_outside for shard in checked):
        report.notes.append(f"supervisions that do not lie in their cuts: {outside:,}; {_OUTSIDE}")


def _shards(shar: SharSet, coded: CodesSet | None, of: Verification) -> list[SharFiles]:
    def tars_of(number: int, fields: Mapping[str, Shards]) -> dict[str, CheckedFile]:
        tars = {name: shards[number] for name, shards in fields.items() if number in shards}
        return {name: of.file(relative(tar, of.out)) for name, tar in tars.items()}

    audio, codes = ({}, coded.fields) if coded else (shar.audio, shar.codes)
    shards = []
    for number, path in shar.shards.items():
        cuts = CheckedFile(path) if coded else of.file(relative(path, of.out))
        shards.append(SharFiles(cuts, tars_of(number, audio), tars_of(number, codes), of.out / MIRROR))
    return shards


def _check_shard(files: SharFiles) -> ShardReport:
    """Read the whole shard: decode every recording, and compare every array of codes with its audio."""
    report = ShardReport()
    cuts = _check_cuts(files.cuts, report)
    ids = [cut.id for cut in cuts]
    report.count_ids(ids)
    seconds: dict[str, list[float | None]] = {TARGET: [cut.duration for cut in cuts]}  # for codes without audio
    for name, tar in files.tars.items():
        seconds[TARGET if name == RECORDING else name] = _check_field(name, tar, files, cuts, report)
    audio_of = {codes: audio for audio, codes in CODES_OF.items()}
    for name, tar in files.codes.items():
        where, lengths = f"{name}/{tar.path.name}", seconds.get(audio_of[tar.path.parent.name], [])
        for pair, at in _aligned_pairs(where, tar, "array", ids, files.cuts.path.name, report):
            if not pair.is_placeholder:
                length = lengths[at] if at is not None and at < len(lengths) else None
                _check_array(f"{where}: {pair.name}", pair, length, report)
    if not report.problems:
        if (path := files.cuts.path).suffix != ".gz":
            report.problems += index_problems(path, "jsonl", f"cuts/{path.name}", files.mirror)
        for name, tar in (files.tars | files.codes).items():
            report.problems += index_problems(tar.path, "shar_tar", f"{name}/{tar.path.name}", files.mirror)
    return report


def _check_cuts(file: CheckedFile, report: ShardReport) -> list[_Cut]:
    name = f"cuts/{file.path.name}"
    cuts: list[_Cut] = []
    try:
        data = file.path.read_bytes()
        report.compare(name, ContentHash(file.published, data))
        text = gzip.decompress(data) if file.path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        report.problems.append(f"{name}: cannot be read: {error}")
        return cuts
    if text and not text.endswith(b"\n"):
        report.problems.append(f"{name}: cut off: no line end")
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{name}:{number}"
        try:
            cut = decode_json(line, _Cut)
        except (msgspec.DecodeError, ValueError) as error:
            report.problems.append(f"{where}: not a cut: {error}")
            continue
        if cut.recording is None:
            report.problems.append(f"{where}: no recording, without which NeMo's loader stops")
        if not cut.supervisions:
            report.problems.append(f"{where}: no supervision, and so no text")
        try:
            _check_record(cut, report)
        except RecordRejected as rejected:
            report.problems.append(f"{where}: {rejected.detail}")
        cuts.append(cut)
        report.seconds += cut.duration
    return cuts


def _check_record(cut: SourceCut, report: ShardReport) -> None:
    """Raise `RecordRejected` if readers reject the length of a cut or the fields of a supervision.

    The span of a supervision is only counted: trainers ignore it.
    """
    reader = SupervisionReader()
    fit(0.0, cut.duration, inf, f"the cut {cut.id}", "its recording")
    for supervision in cut.supervisions or ():
        reader.fields(cut.id, supervision)
        try:
            reader.span_in_cut(supervision, cut)
        except RecordRejected:
            report.num_outside += 1


def _check_field(
    name: str, tar: CheckedFile, files: SharFiles, cuts: Sequence[_Cut], report: ShardReport
) -> list[float | None]:
    """Check the recordings in the tar of a field; returns the seconds of each recording, None if they are not known."""
    where, ids, seconds = f"{name}/{tar.path.name}", [cut.id for cut in cuts], list[float | None]()
    for pair, at in _aligned_pairs(where, tar, "recording", ids, files.cuts.path.name, report):
        cut = cuts[at] if name in (RECORDING, TARGET) and at is not None else None
        seconds.append(_check_recording(tar.path, where, pair, cut, report))
    return seconds


def _check_recording(tar: AnyPath, where: str, pair: Pair, cut: _Cut | None, report: ShardReport) -> float | None:
    if pair.is_placeholder:
        return None
    what = f"{where}: {pair.name}"
    try:
        recording = decode_json(pair.manifest, RecordingLine)
    except (msgspec.DecodeError, ValueError) as error:
        report.problems.append(f"{what}: its manifest is not a recording: {error}")
        return None
    info = check_audio(pair.data, pair.name, tar, where, report)
    if info is None:
        return None
    if (info.num_samples, info.sampling_rate) != (recording.num_samples, recording.sampling_rate):
        report.problems.append(
            f"{what}: its manifest says {recording.num_samples} samples at {recording.sampling_rate} Hz, "
            f"the audio has {info.num_samples} at {info.sampling_rate}"
        )
    elif abs(recording.duration * info.sampling_rate - info.num_samples) > 1:
        report.problems.append(f"{what}: its manifest says {recording.duration} s, the audio has {info.duration}")
    if len(recording.sources) != 1:
        report.problems.append(f"{what}: {len(recording.sources)} sources; lhotse expects one")
    if cut is not None and abs(cut.duration * info.sampling_rate - info.num_samples) > 1:
        report.problems.append(f"{what}: the cut lasts {cut.duration} s, its audio {info.duration}")
    return recording.num_samples / recording.sampling_rate if recording.sampling_rate else None


def _aligned_pairs(
    where: str, tar: CheckedFile, kind: str, ids: Sequence[str], cuts: str, report: ShardReport
) -> Iterator[tuple[Pair, int | None]]:
    """Yield the items of a tar, each with the number of its cut (from 0). Checks that item and cut have the same id.

    The number is None for an item without a cut. If an item has another id than its cut, the number is None for this
    item and all items after it.

    Args:
        where: the name of the tar in messages.
        tar: the tar.
        kind: the word for an item in messages, in the singular.
        ids: the ids of the cuts.
        cuts: the name of the file of the cuts.
        report: counts the items, and gets the problems.
    """
    count, aligned = 0, True
    for pair in read_pairs(tar.path, where, tar.published, report.problems):
        has_cut = count < len(ids)
        if has_cut and aligned and pair.cut_id != ids[count]:
            aligned = False  # later items are not aligned either
            report.problems.append(f"{where}: {kind} {count + 1} is {pair.name}, but cut {count + 1} is {ids[count]}")
        yield pair, count if has_cut and aligned else None
        count += 1
    if count != len(ids):
        report.problems.append(f"{where}: {number_of(count, kind)}, but {cuts} has {number_of(len(ids), 'cut')}")
    report.num_members += count


def _repeated_ids(shards: Sequence[SharFiles], hashes: Sequence[Hashes]) -> list[str]:
    """A problem for each cut id that occurs more than once in the set; `hashes`: the `id_hashes` of each shard."""
    several = repeated(hashes)
    places: dict[str, list[str]] = {}
    for shard, own in zip(shards, hashes, strict=True) if len(several) else ():
        if np.isin(own, several, kind="sort").any():  # tables of NumPy 2.0.0 overflow
            for cut in _check_cuts(shard.cuts, ShardReport()):
                places.setdefault(cut.id, []).append(shard.cuts.path.name)
    return [
        f"cut id {id} occurs {len(names)} times: {', '.join(names)}" for id, names in places.items() if len(names) > 1
    ]


def _check_array(what: str, pair: Pair, seconds: float | None, report: ShardReport) -> None:
    """Check an array of codes: its frames must cover all `seconds` of the audio, and less than one frame more.

    `seconds`: the duration of the audio; if it is None, the length of the codes is not checked.
    """
    try:
        manifest = decode_json(pair.manifest, _TemporalArray)
        codes = read_npy(pair.data)
    except (msgspec.DecodeError, ValueError) as error:
        report.problems.append(f"{what}: not an array with its manifest: {error}")
        return
    if codes.dtype.kind not in "iu" or codes.ndim != 2:
        report.problems.append(
            f"{what}: {codes.dtype} of shape {codes.shape}; expected integers of shape (codebooks, frames)"
        )
        return
    if list(codes.shape) != manifest.array.shape or manifest.temporal_dim not in (-1, 1):
        report.problems.append(f"{what}: its manifest says {manifest.array.shape}, it has {list(codes.shape)}")
    if codes.size and int(codes.min()) < 0:
        report.problems.append(f"{what}: codes below 0")
    if not manifest.frame_shift > 0:
        report.problems.append(f"{what}: frame shift {manifest.frame_shift} s")
    elif seconds is not None:
        beyond = codes.shape[1] * manifest.frame_shift - seconds
        if not -TOLERANCE <= beyond < manifest.frame_shift + TOLERANCE:
            report.problems.append(
                f"{what}: {codes.shape[1]} frames of {manifest.frame_shift:.6g} s, but the audio lasts {seconds:.6g} s"
            )


def text_context_problems(folder: AnyPath, runs: Sequence[PublishedRun]) -> Iterator[str]:
    """Yield the problems of the cuts in `cuts_textContext`; nothing if the set lacks this folder.

    The ids, the times and the supervisions of these cuts must equal those of the cuts in `cuts`; custom fields are not
    compared. The plans of `runs` show from which cuts the text contexts were made.
    """
    if not (folder / TEXT_CONTEXT_CUTS).is_dir():
        return
    try:
        cuts, texts = SharSet(folder).shards, SharSet(folder / TEXT_CONTEXT_CUTS, is_flat=True).shards
    except UsageError as error:
        yield str(error)
        return
    plans = [run.plan for run in runs if run.plan.command == "extend-text-context"]
    made_of = {posixpath.basename(file["path"]): file["sha256"] for plan in plans for file in plan.inputs}
    for number in sorted(set(cuts) ^ set(texts)):
        which = "missing" if number in cuts else "there are no such cuts"
        yield f"{TEXT_CONTEXT_CUTS}/cuts.{shard_text(number)}: {which}"
    for number in sorted(set(cuts) & set(texts)):
        try:
            heads = [_heads(path) for path in (cuts[number], texts[number])]
        except (UsageError, OSError) as error:
            yield f"{TEXT_CONTEXT_CUTS}/{texts[number].name}: {error}"
            continue
        if heads[0] != heads[1]:
            yield (
                f"{TEXT_CONTEXT_CUTS}/{texts[number].name}: not the {len(heads[0])} cuts of cuts/{cuts[number].name} "
                f"in their order with their texts; {_AGAIN}"
            )
        elif made_of.get(name := cuts[number].name) not in (None, cuts_digest(str(cuts[number]))):
            yield f"{TEXT_CONTEXT_CUTS}/{texts[number].name}: made of other cuts than cuts/{name} holds now; {_AGAIN}"


def _heads(path: AnyPath) -> list[object]:
    """The fields of each cut that training reads, without custom ones."""
    names = ("id", "start", "duration", "text", "language", "speaker")
    return [
        (cut.id, cut.start, cut.duration, [[getattr(of, name) for name in names] for of in cut.supervisions or ()])
        for cut in decode_cuts(path.read_bytes(), str(path), SourceCut)
    ]
