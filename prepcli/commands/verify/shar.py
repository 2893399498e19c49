"""Checks that a Lhotse Shar set is complete and its fields are aligned, as strictly as any loader.

Its text contexts must match its cuts. lhotse (shar/readers/lazy.py) reads the cuts and the tars of a shard in parallel,
and silently stops at the end of the shortest; it does not check for repeated ids.
"""

import gzip
import hashlib
import posixpath
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.commands.verify.codes import check_codes
from prepcli.commands.verify.indexes import index_problems, moved_from
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.runs import PublishedRun
from prepcli.commands.verify.shards import Hashed, add_shard
from prepcli.commands.verify.tarred import ShardReport, check_audio, line_hash
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.errors import UsageError
from prepcli.formats.codes import CODES_OF
from prepcli.formats.indexes import MIRROR
from prepcli.formats.pairs import Pair, read_pairs
from prepcli.formats.sets import CodesSet, SharSet
from prepcli.formats.shar import (
    AUDIO_NAME,
    CUTS_NAME,
    TARGET,
    TEXT_CONTEXT_CUTS,
    CutLine,
    RecordingLine,
    decode_json,
    shard_text,
)
from prepcli.interface.bars import with_bar
from prepcli.manifest.shar_cuts import cuts_digest, decode_cuts
from prepcli.storage.paths import AnyPath, relative

Hashes = NDArray[np.uint64]
_AGAIN = "run extend-text-context again with --overwrite"


@dataclass(frozen=True, slots=True)
class SharFiles:
    """One shard to check: its cuts, the tar of each field, and the SHA-256 of each file if known.

    `codes` are the tars of its codes, by their folders: `codes_<name>/target_codes`, ... Indexes may be in `mirror`.
    """

    number: int
    cuts: AnyPath
    tars: dict[str, AnyPath]
    sha256: dict[AnyPath, str] = field(default_factory=dict)
    codes: dict[str, AnyPath] = field(default_factory=dict)
    mirror: AnyPath | None = None


@dataclass(slots=True)
class SharReport(ShardReport):
    """`num_lines` counts cuts, `num_members` the recordings and arrays of all fields.

    `seconds` are the seconds of the cuts; `id_hashes` has a 64-bit hash of each cut's id.
    """

    id_hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))


def verify_shar_set(
    shar: SharSet, coded: CodesSet | None, sha256: Hashed, num_workers: int, report: VerifyReport
) -> None:
    """Check a Shar set; with `coded`, check only that these codes match its cuts."""
    report.kind = "shar"
    try:
        shards, problems = find_shards(shar, sha256, coded)
    except UsageError as error:
        report.problems.append(str(error))
        return
    report.problems += problems
    if shards and (note := moved_from((coded or shar).folder, shards[0].cuts)):
        report.notes.append(note)
    hashes: list[Hashes] = []
    results = map_refusing_crashes(_check_shard, shards, num_workers)
    for shard in with_bar(results, len(shards), "verify", "shards"):
        add_shard(shard, "", report)
        hashes.append(shard.id_hashes)
    report.problems += _repeated_ids(shards, hashes)


def find_shards(
    shar: SharSet, sha256: Callable[[str], str | None], coded: CodesSet | None = None
) -> tuple[list[SharFiles], list[str]]:
    """The shards to check, and the problems with their numbers: every field must have 0..N-1.

    `sha256` returns the published digest of a file by its name below the folder of the set, None if it is not known.
    With `coded`, these codes are checked against the cuts, and the other fields of the set are not checked.
    """
    cuts, tars = shar.shards, {} if coded else shar.audio
    problems = []
    count = 0 if coded else 1 + max(max(found, default=-1) for found in (cuts, *tars.values()))
    for name, found in {"cuts": cuts, **tars}.items():
        kind = CUTS_NAME if name == "cuts" else AUDIO_NAME.format(name, "{}")
        missing = [kind.format(shard_text(number)) for number in range(count) if number not in found]
        if missing:
            problems.append(
                f"{', '.join(missing)}: missing; the shards of every field must be numbered 0 to {count - 1}"
            )
    home, codes = (coded.folder, coded.fields) if coded else (shar.folder, shar.codes)
    for name, found in codes.items():
        for number in sorted(set(cuts) ^ set(found)):
            which = "missing" if number in cuts else "there are no such cuts"
            problems.append(f"{name}/codes.{shard_text(number)}.tar: {which}")
    shards = []
    for number, path in cuts.items():
        here = {name: found[number] for name, found in tars.items() if number in found}
        of_codes = {name: found[number] for name, found in codes.items() if number in found}
        files = [(file, shar.folder) for file in (path, *here.values())] + [(file, home) for file in of_codes.values()]
        digests = {file: sha256(relative(file, root)) for file, root in files}
        known = {file: digest for file, digest in digests.items() if digest}
        shards.append(SharFiles(number, path, here, known, of_codes, home / MIRROR))
    return shards, problems


def _check_shard(files: SharFiles) -> SharReport:
    """Read the whole shard: decode every recording, and compare every array of codes with its audio."""
    report = SharReport(files.number)
    cuts = _check_cuts(files, report)
    report.num_lines = len(cuts)
    report.id_hashes = np.array([line_hash(cut.id.encode("utf-8", "surrogatepass")) for cut in cuts], np.uint64)
    seconds: dict[str, list[float | None]] = {TARGET: [cut.duration for cut in cuts]}
    for name, tar in files.tars.items():
        seconds[name] = _check_field(name, tar, files, cuts, report)
    audio_of = {codes: audio for audio, codes in CODES_OF.items()}
    for name, tar in files.codes.items():
        lengths = seconds.get(audio_of[tar.parent.name], [])
        check_codes(f"{name}/{tar.name}", tar, files.sha256.get(tar), [cut.id for cut in cuts], lengths, report)
    if not report.problems:
        if files.cuts.suffix != ".gz":
            report.problems += index_problems(files.cuts, "jsonl", f"cuts/{files.cuts.name}", files.mirror)
        for name, tar in (files.tars | files.codes).items():
            report.problems += index_problems(tar, "shar_tar", f"{name}/{tar.name}", files.mirror)
    return report


def _check_cuts(files: SharFiles, report: SharReport) -> list[CutLine]:
    name = f"cuts/{files.cuts.name}"
    cuts: list[CutLine] = []
    try:
        data = files.cuts.read_bytes()
        if files.sha256.get(files.cuts) not in (None, hashlib.sha256(data).hexdigest()):
            report.problems.append(f"{name}: not the bytes that were published (SHA-256 differs)")
        text = gzip.decompress(data) if files.cuts.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        report.problems.append(f"{name}: cannot be read: {error}")
        return cuts
    if text and not text.endswith(b"\n"):
        report.problems.append(f"{name}: cut off: no line end")
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{name}:{number}"
        try:
            cut = decode_json(line, CutLine)
        except (msgspec.DecodeError, ValueError) as error:
            report.problems.append(f"{where}: not a cut: {error}")
            continue
        if cut.recording is None:
            report.problems.append(f"{where}: no recording, without which NeMo's loader stops")
        if not cut.supervisions:
            report.problems.append(f"{where}: no supervision, and so no text")
        cuts.append(cut)
        report.seconds += cut.duration
    return cuts


def _check_field(
    name: str, tar: AnyPath, files: SharFiles, cuts: Sequence[CutLine], report: SharReport
) -> list[float | None]:
    """Check a field; returns the seconds of each recording, None if unknown."""
    where = f"{name}/{tar.name}"
    count = 0
    aligned = True
    seconds: list[float | None] = []
    for pair in read_pairs(tar, where, files.sha256.get(tar), report.problems):
        cut = cuts[count] if count < len(cuts) else None
        count += 1
        if cut is not None and aligned and pair.cut_id != cut.id:
            aligned = False  # later recordings are not aligned either
            report.problems.append(f"{where}: recording {count} is {pair.name}, but cut {count} is {cut.id}")
        seconds.append(_check_recording(tar, where, pair, cut if name == TARGET and aligned else None, report))
    if count != len(cuts):
        report.problems.append(f"{where}: {count} recordings, but {files.cuts.name} has {len(cuts)} cuts")
    report.num_members += count
    return seconds


def _check_recording(tar: AnyPath, where: str, pair: Pair, cut: CutLine | None, report: SharReport) -> float | None:
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


def _repeated_ids(shards: Sequence[SharFiles], hashes: Sequence[Hashes]) -> list[str]:
    """Cut ids that occur more than once in the set; `hashes` are the `SharReport.id_hashes` of the shards."""
    in_order = np.sort(np.concatenate([np.empty(0, np.uint64), *hashes]))
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    if not len(repeated):
        return []
    places: dict[str, list[str]] = {}
    for shard, own in zip(shards, hashes, strict=True):
        if np.isin(own, repeated).any():
            for cut in _check_cuts(shard, SharReport(shard.number)):
                places.setdefault(cut.id, []).append(shard.cuts.name)
    return [
        f"cut id {id} occurs {len(names)} times: {', '.join(names)}" for id, names in places.items() if len(names) > 1
    ]


def text_context_problems(folder: AnyPath, runs: Sequence[PublishedRun]) -> Iterator[str]:
    """The problems of the cuts in `cuts_textContext`; nothing if the set has no such folder.

    These cuts have their own custom fields; all other fields must equal those of the cuts of the set.

    Args:
        folder: the set.
        runs: the runs that made its content; they show from which cuts the text contexts were made.
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


class _Supervision(msgspec.Struct):
    """The fields of a supervision that training reads."""

    id: Any = None
    start: Any = None
    duration: Any = None
    text: Any = None
    language: Any = None
    speaker: Any = None


class _Head(msgspec.Struct):
    id: str
    start: Any = None
    duration: Any = None
    supervisions: list[_Supervision] = []


def _heads(path: AnyPath) -> list[_Head]:
    return decode_cuts(path.read_bytes(), str(path), _Head)
