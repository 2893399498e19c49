"""Checks that each line of a manifest is complete, and that its audio exists and is long enough."""

import contextlib
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from prepcli.audio.limits import segment_samples
from prepcli.audio.probe import Probes
from prepcli.commands.verify.contexts import ContextRules, InputsGoneError, check_context, other_voices
from prepcli.commands.verify.plain_codes import CodesFiles, frame_shift_of
from prepcli.commands.verify.report import MAX_PROBLEMS, VerifyReport
from prepcli.commands.verify.runs import plan_of
from prepcli.commands.verify.shards import Verification, check_rates
from prepcli.commands.verify.texts import is_texts, verify_texts
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.engine.state.plan import AUDIO_BASE_DIRS, StoredPlan
from prepcli.errors import RecordRejected
from prepcli.formats.archives import ZipMembers
from prepcli.formats.conversations import tar_of
from prepcli.formats.members import container
from prepcli.formats.names import absolute_folder, path_in
from prepcli.formats.plain_codes import CODES_PATH, MANIFEST_NAME
from prepcli.gate import RATE_FIELDS, check_rate, repeated_hashes, text_hash
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.conversations import holds_conversations
from prepcli.jobs.records import OWN_AUDIO, base_directories
from prepcli.manifest.conversations import is_left_out, of_turn, turns_of, values_of
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.lines import read_line
from prepcli.manifest.record import Record
from prepcli.manifest.scan import Range, blocks_of, lines_of, ranges_of
from prepcli.manifest.sources import open_bytes
from prepcli.storage.addresses import join
from prepcli.storage.containers import name_in
from prepcli.storage.paths import AnyPath, absolute, path_of

_NAMES_FILES = ("audio_filepath", "context_audio_filepath", *CODES_PATH.values())


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """Lines of a manifest to check.

    Attributes:
        lines: the range of the lines.
        base_dir: the folder from which relative audio paths start.
        rules: the limits for contexts; None if records without context are allowed.
        frame_shift: the duration of a frame of codes in seconds; None if it is not known.
    """

    lines: Range
    base_dir: str
    rules: ContextRules | None
    frame_shift: float | None = None


@dataclass(slots=True)
class PartReport:
    """The result for a part of a manifest; a problem has the number of its line, from 0 within the part, and a text.

    `num_with_rate`: records with an offset and a sampling rate, which NeMo does not load from a plain manifest.
    `id_hashes`: those of explicit ids. `damage`: files of an archive that are damaged, with the problem. `is_cut_off`:
    the last line has no line end.
    """

    num_lines: int = 0
    num_records: int = 0
    seconds: float = 0.0
    num_with_rate: int = 0
    id_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    is_cut_off: bool = False
    problems: list[tuple[int, str]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


def manifests_in(out: AnyPath, published: Sequence[str]) -> list[str]:
    """The names of the manifests in `out` that do not belong to a tarred set.

    Manifests with contexts or with codes are found by their names. Other manifests are found only if they are in
    `published`, the names of the published files.
    """
    patterns = ("*_withContextAudioMinDur*MinSSIM*.json", MANIFEST_NAME.format("*", "*"))
    names = {path.name for pattern in patterns for path in out.glob(pattern)}
    for name in published:
        path = Path(name)
        in_set = path.parent.name == "sharded_manifests" or path.name.startswith("tarred_audio_manifest")
        if path.suffix == ".json" and not in_set and _names_audio(out / name):
            names.add(name)
    return sorted(name for name in names if (out / name).is_file())


def _names_audio(path: AnyPath) -> bool:
    """Whether an existing file may be a NeMo manifest: its first line has `audio_filepath`, or the file is empty."""
    if not path.is_file():
        return False
    with open_bytes(str(path)) as file:
        line = file.readline(1 << 20)
    return not line or b'"audio_filepath"' in line


def verify_manifest(path: AnyPath, of: Verification) -> None:
    """Check a manifest, or texts of `prepare-texts`.

    Raises:
        UsageError: the file is of another kind.
    """
    report = of.report
    report.manifests += 1
    if is_texts(path, of.runs):
        verify_texts(path, report)
        return
    check = check_part
    if holds_conversations(str(path)):
        check = check_conversations
    else:
        check_is_json_lines(str(path))
    plan, frame_shift = plan_of(path.name, of.runs), frame_shift_of(path.name, of.runs)
    rules = ContextRules.of_plan(plan)
    base_dir = _base_dir(path, plan, of)
    ranges = ranges_of(str(path), path.stat().st_size, short=True)
    parts = [ManifestPart(lines, base_dir, rules, frame_shift) for lines in ranges]
    num_lines, num_with_rate, is_cut_off, problems = 0, 0, False, list[tuple[int, str]]()
    id_hashes = array("q")
    for part in map_refusing_crashes(check, parts, of.num_workers):
        problems += [(num_lines + line + 1, problem) for line, problem in part.problems]
        num_lines += part.num_lines
        is_cut_off = part.is_cut_off if part.num_lines else is_cut_off  # a long line leaves a range without lines
        report.records += part.num_records
        report.seconds += part.seconds
        num_with_rate += part.num_with_rate
        id_hashes.extend(part.id_hashes)
    if num_repeated := len(repeated_hashes(id_hashes)):
        report.notes.append(f"{path.name}: {number_of(num_repeated, 'id', 'occur')} in several records")
    if num_with_rate:
        report.notes.append(
            f"{path.name}: {num_with_rate:,} records have an offset and a sampling rate ({' or '.join(RATE_FIELDS)}); "
            "NeMo does not load such lines of a plain manifest: leave the rate out"
        )
    if is_cut_off:
        problems.append((num_lines, "cut off: no line end"))
    if rules is not None and plan is not None:
        try:
            problems += other_voices(path, plan, base_dir, of.num_workers)
        except InputsGoneError as error:
            report.notes.append(f"the voices of contexts were not compared: {error}")
    report.problems += [f"{path.name}:{number}: {problem}" for number, problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        more = len(problems) - MAX_PROBLEMS
        report.problems.append(f"{path.name}: {more:,} more problems of this kind are not listed")


def verify_containers(out: AnyPath, containers: Sequence[str], num_workers: int) -> VerifyReport:
    """Check the records of containers that prepcli has not written.

    Only the headers of their audio are read, but all bytes of zip archives, which have checksums.

    Raises:
        UsageError: a container is damaged.
    """
    report = VerifyReport(str(out), kind="containers")
    parts = [ManifestPart(Range(path, 0, None), "", None) for path in containers]
    for path, part in zip(containers, map_refusing_crashes(_check_container, parts, num_workers), strict=True):
        report.manifests += 1
        report.records += part.num_records
        report.seconds += part.seconds
        name, problems = os.path.basename(path), part.problems[:MAX_PROBLEMS]
        report.problems += [f"{name}:{line + 1}: {problem}" for line, problem in problems]
        report.problems += [f"{name}: {problem}" for problem in part.damage]
    return report


def _check_container(part: ManifestPart) -> PartReport:
    report = check_part(part)
    archive = container(part.lines.path) if part.lines.path.lower().endswith(".zip") else None
    if isinstance(archive, ZipMembers):
        known = "\n".join(problem for _, problem in report.problems)
        report.damage += [f"{member}: {why}" for member, why in archive.damage() if member not in known]
    return report


def named_files(path: AnyPath, of: Verification) -> Iterator[str]:
    """Yield the published files that the lines of a manifest name: audio, contexts and codes."""
    if not any(name != path.name for name in of.published):
        return
    plan = plan_of(path.name, of.runs)
    folder, base_dir = absolute_folder(str(path.parent)), _base_dir(path, plan, of)
    folders = {folder, os.path.realpath(folder)}
    if plan is not None:
        folders.add(os.path.dirname(plan.out) if plan.writes_file else plan.out)
    for line in lines_of(Range(str(path), 0, None)):
        with contextlib.suppress(RecordRejected):  # reported elsewhere
            fields = parse_fields(line)
            values = [decode_value(fields[name]) for name in _NAMES_FILES if name in fields]
            for file in (path_in(base_dir, value) for value in values if value and isinstance(value, str)):
                names = (file.removeprefix(f"{folder}/") for folder in folders)
                yield from (name for name in names if name in of.published)


def _base_dir(path: AnyPath, plan: StoredPlan | None, of: Verification) -> str:
    """The absolute folder from which relative paths of a manifest start.

    That is the given `audio_base_dir`. If it is None, it is the base folder of the run that wrote the manifest; if the
    run had none or several, or wrote the audio itself, it is the folder of the manifest.
    """
    folder: str | AnyPath | None = of.audio_base_dir
    if folder is None and plan is not None and not plan.settings.get(OWN_AUDIO):
        base = plan.settings.get("--audio-base-dir")
        known = plan.settings.get(AUDIO_BASE_DIRS) or []
        if base:
            folder = join(plan.run_in, base)
        elif len(known) == 1:
            folder = known[0]
        elif ContextRules.of_plan(plan) is not None:
            folders = {os.path.dirname(join(plan.run_in, file["path"])) for file in plan.inputs}
            folder = folders.pop() if len(folders) == 1 else None
    return base_directories([str(path)], folder)[0]


def check_part(part: ManifestPart) -> PartReport:
    """Check the lines of a part; only headers of audio are read."""
    report, codes = PartReport(), CodesFiles(part.frame_shift)
    look_for = partial(_look_for, base_dir=part.base_dir, probe=Probes(1))
    for number, line in enumerate(_lines_of(part.lines, report)):
        problems = _problems_of(line, part.rules, codes, look_for, report)
        report.problems += [(number, problem) for problem in problems]
        report.num_lines += 1
    return report


def check_conversations(part: ManifestPart) -> PartReport:
    """Check lines of conversations, in any form; only headers of audio are read. Problems name the turn."""
    report, probe = PartReport(), Probes()
    tar = tar_of(path_of(part.lines.path))
    for number, line in enumerate(_lines_of(part.lines, report)):
        problems = _turn_problems(line, tar, part.base_dir, probe, report)
        report.problems += [(number, problem) for problem in problems]
        report.num_lines += 1
    return report


def _turn_problems(line: bytes, tar: AnyPath | None, base_dir: str, probe: Probes, report: PartReport) -> Iterator[str]:
    if not line.strip():
        yield "a blank line, which ends NeMo's reading"
        return
    try:
        fields = values_of(parse_fields(line))
        if is_left_out(fields):
            return
        report.num_records += 1
        turns = turns_of(fields)
    except RecordRejected as rejected:
        yield rejected.detail
        return
    for number, turn in enumerate(turns, 1):
        if turn.text is None:
            path = path_in(base_dir, turn.audio) if tar is None else name_in(absolute(tar), turn.audio)
            try:
                info = probe(path)
                report.seconds += segment_samples(info, turn.offset, turn.duration)[1] / info.sampling_rate
                check_rate("sampling_rate", turn.more.get("sampling_rate"), info.sampling_rate)
            except RecordRejected as rejected:
                where = "" if path in rejected.detail else f"{path}: "
                yield of_turn(number, RecordRejected(rejected.reason, f"{where}{rejected.detail}")).detail


def _lines_of(lines: Range, report: PartReport) -> Iterator[bytes]:
    for block in blocks_of(lines):
        report.is_cut_off = not block.endswith(b"\n")
        yield from block.removesuffix(b"\n").split(b"\n")


def _problems_of(
    line: bytes, rules: ContextRules | None, codes: CodesFiles, look_for: Callable[[Record], None], report: PartReport
) -> Iterator[str]:
    if not line.strip():
        yield "a blank line, which ends NeMo's reading"
        return
    try:
        usable = read_line(line, cuts=False)
        if usable is None or usable.record is None:
            return
        record = usable.record
        report.num_records += 1
        report.seconds += record.duration
        if isinstance(id := record.get("id"), str):
            report.id_hashes.append(text_hash(id))
        report.num_with_rate += record.has_offset and any(record.get(name) is not None for name in RATE_FIELDS)
        look_for(record)
    except RecordRejected as rejected:
        yield rejected.detail
        return
    yield from codes.check(record)
    yield from check_context(record, rules, look_for)


def _look_for(segment: Record, base_dir: str, probe: Probes) -> None:
    path = path_in(base_dir, segment.audio_filepath)
    try:
        info = probe(path)
        segment_samples(info, segment.offset, segment.duration)
        check_rates(segment, info.sampling_rate)
    except RecordRejected as rejected:
        if path in rejected.detail:
            raise
        raise RecordRejected(rejected.reason, f"{path}: {rejected.detail}") from None
