"""Checks that each line of a manifest is complete, and that its audio exists and is long enough."""

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prepcli.audio.limits import SAME_SECONDS, segment_samples
from prepcli.audio.probe import Probes
from prepcli.commands.extend_context_audio.bundle_lines import FIELDS, PATH, SIMILARITY
from prepcli.commands.extend_context_audio.voices import group_key
from prepcli.commands.verify.plain_codes import CodesFiles
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.shards import check_rates
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.engine.state.plan import AUDIO_BASE_DIRS, StoredPlan
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.archives import ZipMembers
from prepcli.formats.members import container
from prepcli.formats.names import absolute_folder, normal_path, path_in
from prepcli.formats.plain_codes import CODES_PATH, MANIFEST_NAME
from prepcli.gate import RATE_FIELDS
from prepcli.jobs.records import OWN_AUDIO, base_directories
from prepcli.manifest.context import context_of, in_context
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.index import index_manifests
from prepcli.manifest.lines import read_line
from prepcli.manifest.parts import FieldKey
from prepcli.manifest.reader import LineReader
from prepcli.manifest.record import Record
from prepcli.manifest.scan import Range, lines_of, ranges_of
from prepcli.manifest.sources import open_bytes
from prepcli.storage.addresses import join
from prepcli.storage.paths import AnyPath, is_file

COMMAND = "extend-context-audio"
_ROUNDING = 1e-6
"""Maximum rounding error of a similarity, which has six decimals."""


@dataclass(frozen=True, slots=True)
class ContextRules:
    """The limits for a context: its minimum `duration` in seconds, and minimum `similarity`."""

    duration: float = 0.0
    similarity: float = -1.0

    @classmethod
    def of_plan(cls, plan: StoredPlan | None) -> "ContextRules | None":
        """The limits with which a run of extend-context-audio chose contexts; None if `plan` is not of such a run."""
        if plan is None or plan.command != COMMAND:
            return None
        settings = plan.settings
        return cls(settings.get("--context-min-duration", 0.0), settings.get("--context-min-ssim", -1.0))


def check_context(record: Record, rules: ContextRules | None) -> Iterator[str | Record]:
    """Yield a message for each problem of a record's context, then the context; the caller checks its audio.

    If the context cannot be read from the record, only messages follow. If `rules` is None, a record may also have no
    context; nothing is yielded for it.
    """
    wanted = [PATH, FIELDS["offset"], FIELDS["duration"], *([] if rules is None else [SIMILARITY])]
    missing = [name for name in wanted if record.get(name) is None]
    if missing == wanted and rules is None:
        return
    if missing:
        yield f"there is no {', '.join(missing)}"
        return
    try:
        context = context_of(record)
    except RecordRejected as rejected:
        yield rejected.detail
        return
    assert context is not None
    similarity = record.get(SIMILARITY, 1.0)
    rules = rules or ContextRules()
    if not isinstance(similarity, int | float) or not -1 - _ROUNDING <= similarity <= 1 + _ROUNDING:
        yield f"{SIMILARITY} is {similarity}, not a number from -1 to 1"
    elif similarity < rules.similarity - _ROUNDING:
        yield f"{SIMILARITY} is {similarity}, below --context-min-ssim {rules.similarity}"
    if context.duration < rules.duration:
        yield f"the context lasts {context.duration:g} s, less than --context-min-duration {rules.duration:g}"
    same = max(abs(context.offset - record.offset), abs(context.duration - record.duration)) <= SAME_SECONDS
    if same and normal_path(context.audio_filepath) == normal_path(record.audio_filepath):
        yield "the context is the utterance itself"
    yield context


class Voices:
    """The voice of each segment in the inputs of a run of extend-context-audio.

    Attributes:
        problem: why voices cannot be compared; empty if they can.
    """

    def __init__(self, plan: StoredPlan, num_workers: int = 1) -> None:
        self.problem = ""
        self._voices: dict[int, int] = {}
        key = group_key(plan.settings.get("--group-by", "speaker"))
        assert isinstance(key, FieldKey)
        self._key = key
        manifests = [join(plan.run_in, file["path"]) for file in plan.inputs]
        missing = next((path for path in manifests if not is_file(path)), None)
        if missing is not None:
            self.problem = f"the input {missing} is not there"
            return
        base = plan.settings.get("--audio-base-dir")
        self.base_dirs = base_directories(manifests, join(plan.run_in, base) if base else None)
        index = index_manifests(manifests, num_workers=num_workers)
        for source, file in zip(index.sources, plan.inputs, strict=True):
            if source.sha256 != file["sha256"]:
                self.problem = f"the input {source.path} has changed"
                return
        with LineReader(index) as lines:
            for number in range(len(index)):
                record = Record.parse(lines.line(number))
                name = self._name(record)
                if name is not None:
                    self._voices[_number(record, self.base_dirs[index.source_of(number)])] = hash(name)

    def check(self, record: Record, base_dir: str) -> str | None:
        """Check that the context of a record has the same voice as the record; returns the problem, or None.

        Raises:
            RecordRejected: the context is invalid.
        """
        context, name = context_of(record, required=False), self._name(record)
        if context is None or name is None:
            return None
        voice = self._voices.get(_number(context, base_dir))
        if voice is None:
            return f"its context {context.audio_filepath} is not a record of the input"
        return None if voice == hash(name) else f"its context {context.audio_filepath} is of another voice than {name}"

    def _name(self, record: Record) -> str | None:
        value = record.get(self._key.field)
        if isinstance(value, bool) or not isinstance(value, str | int):
            return None
        try:
            return self._key.function(str(value))
        except RecordRejected:
            return None


def _number(segment: Record, base_dir: str) -> int:
    """A number of 64 bits that identifies a segment; it needs less memory than path, offset and duration."""
    return hash((path_in(base_dir, segment.audio_filepath), segment.offset, segment.duration))


_NAMES_FILES = ("audio_filepath", "context_audio_filepath", *CODES_PATH.values())
MAX_PROBLEMS = 1000
"""Maximum number of listed problems of a manifest: with a wrong folder, each line is a problem."""


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
    `damage`: files of an archive that are damaged, with the problem.
    """

    num_lines: int = 0
    num_records: int = 0
    seconds: float = 0.0
    num_with_rate: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


def manifests_in(out: AnyPath, published: Sequence[str]) -> list[str]:
    """The names of the manifests in `out` that do not belong to a tarred set.

    Manifests with contexts or with codes are found by their names. Other manifests are found only if they are in
    `published`, the names of the published files.
    """
    patterns = ("*_withContextAudioMinDur*MinSSIM*.json", MANIFEST_NAME.format("*", "*"))
    found = {path.name for pattern in patterns for path in out.glob(pattern)}
    for name in published:
        path = Path(name)
        in_set = path.parent.name == "sharded_manifests" or path.name.startswith("tarred_audio_manifest")
        if path.suffix == ".json" and not in_set and _names_audio(out / name):
            found.add(name)
    return sorted(name for name in found if (out / name).is_file())


def _names_audio(path: AnyPath) -> bool:
    """Whether an existing file may be a NeMo manifest: its first line has `audio_filepath`, or the file is empty."""
    if not path.is_file():
        return False
    with open_bytes(str(path)) as file:
        line = file.readline(1 << 20)
    return not line or b'"audio_filepath"' in line


def verify_manifest(
    path: AnyPath,
    plan: StoredPlan | None,
    audio_base_dir: AnyPath | None,
    num_workers: int,
    frame_shift: float | None,
    report: VerifyReport,
) -> None:
    """Check a manifest.

    Args:
        path: the manifest.
        plan: plan of the run that wrote it, if it is known.
        audio_base_dir: folder of relative audio paths; by default the one of the run, else the manifest's folder.
        num_workers: number of processes.
        frame_shift: seconds of a frame of the codes that its lines name; None if it is not known.
        report: gets the counts, the problems, and notes on data that could not be compared.

    Raises:
        UsageError: the file is of another kind.
    """
    check_is_json_lines(str(path))
    rules = ContextRules.of_plan(plan)
    base_dir = _base_dir(path, plan, audio_base_dir)
    ranges = ranges_of(str(path), path.stat().st_size, short=True)
    parts = [ManifestPart(one, base_dir, rules, frame_shift) for one in ranges]
    num_lines, num_with_rate, problems = 0, 0, list[str]()
    for part in map_refusing_crashes(check_part, parts, num_workers):
        problems += [f"{path.name}:{num_lines + line + 1}: {problem}" for line, problem in part.problems]
        num_lines += part.num_lines
        report.records += part.num_records
        report.seconds += part.seconds
        num_with_rate += part.num_with_rate
    if num_with_rate:
        report.notes.append(
            f"{path.name}: {num_with_rate:,} records have an offset and a sampling rate ({' or '.join(RATE_FIELDS)}); "
            "NeMo does not load such lines of a plain manifest: leave the rate out"
        )
    if num_lines and not _ends_with_newline(path):
        problems.append(f"{path.name}:{num_lines}: cut off: no line end")
    if rules is not None and plan is not None:
        voices = Voices(plan, num_workers)
        if voices.problem:
            report.notes.append(f"the voices of contexts were not compared: {voices.problem}")
        else:
            problems += _other_voices(path, voices, ranges, base_dir)
    report.problems += problems[:MAX_PROBLEMS]
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
    parts = [ManifestPart(Range(one, 0, None), "", None, None) for one in containers]
    for one, part in zip(containers, map_refusing_crashes(_check_container, parts, num_workers), strict=True):
        report.manifests += 1
        report.records += part.num_records
        report.seconds += part.seconds
        name, problems = os.path.basename(one), part.problems[:MAX_PROBLEMS]
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


def named_files(
    path: AnyPath, plan: StoredPlan | None, audio_base_dir: AnyPath | None, published: Collection[str]
) -> Iterator[str]:
    """Yield the `published` files that the lines of a manifest name: audio, contexts and codes."""
    if not any(name != path.name for name in published):
        return
    folder, base_dir = absolute_folder(str(path.parent)), _base_dir(path, plan, audio_base_dir)
    folders = {folder, os.path.realpath(folder)}
    if plan is not None:
        folders.add(os.path.dirname(plan.out) if plan.writes_file else plan.out)
    for part in ranges_of(str(path), path.stat().st_size, short=True):
        for line in lines_of(part):
            with contextlib.suppress(RecordRejected):  # reported elsewhere
                fields = parse_fields(line)
                values = [decode_value(fields[name]) for name in _NAMES_FILES if name in fields]
                for value in filter(None, (value for value in values if isinstance(value, str))):
                    file = path_in(base_dir, value)
                    yield from (name for one in folders if (name := file.removeprefix(f"{one}/")) in published)


def _base_dir(path: AnyPath, plan: StoredPlan | None, given: AnyPath | None) -> str:
    """The absolute folder from which relative paths of a manifest start.

    That is `given`. If it is None, it is the base folder of the run that wrote the manifest; if the run had none or
    several, or wrote the audio itself, it is the folder of the manifest.
    """
    folder: str | AnyPath | None = given
    if given is None and plan is not None and not plan.settings.get(OWN_AUDIO):
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
    report = PartReport()
    probe = Probes(1)
    codes = CodesFiles(part.frame_shift)
    for line in lines_of(part.lines):
        number = report.num_lines
        report.num_lines += 1
        if not line.strip():
            report.problems.append((number, "a blank line, which ends NeMo's reading"))
            continue
        try:
            usable = read_line(line, cuts=False)
            if usable is None or usable.record is None:
                continue
            record = usable.record
            report.num_records += 1
            report.seconds += record.duration
            report.num_with_rate += record.has_offset and any(record.get(name) is not None for name in RATE_FIELDS)
            _look_for(record, part.base_dir, probe)
        except RecordRejected as rejected:
            report.problems.append((number, rejected.detail))
            continue
        report.problems += [(number, problem) for problem in codes.check(record)]
        for found in check_context(record, part.rules):
            if isinstance(found, str):
                report.problems.append((number, found))
                continue
            try:
                _look_for(found, part.base_dir, probe)
            except RecordRejected as rejected:
                report.problems.append((number, in_context(rejected).detail))
    return report


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


def _ends_with_newline(path: AnyPath) -> bool:
    last = b""
    if path.suffix == ".gz":
        with open_bytes(str(path)) as file:
            while block := file.read(1 << 20):
                last = block[-1:]
        return last == b"\n"
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _other_voices(path: AnyPath, voices: Voices, ranges: list[Range], base_dir: str) -> Iterator[str]:
    numbered = enumerate((line for one in ranges for line in lines_of(one)), start=1)
    for number, line in numbered:
        try:
            problem = voices.check(Record.parse(line), base_dir)
        except (RecordRejected, UsageError):
            continue  # the problem was reported above
        if problem is not None:
            yield f"{path.name}:{number}: {problem}"
