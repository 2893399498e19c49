"""extend-text-context: adds a text context to each cut of a Lhotse Shar set."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import msgspec

from prepcli.commands.extend_text_context.options import ExtendTextContext
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.run.job import UnitJob
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.run.unfinished import refuse_unfinished
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import InputFile, Plan, Unit
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.work_folder import note_unused, work_folder
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.indexes import index_name, indexes_of
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.sets import SharSet
from prepcli.formats.shar import (
    AUDIO_NAME,
    TARGET,
    TEXT_CONTEXT_CUTS,
    CutWriter,
    PlainCutWriter,
    shard_range,
    shard_text,
)
from prepcli.interface.options import settings_of, shown_defaults
from prepcli.interface.values import check_pattern
from prepcli.manifest.shar_cuts import CutHead, CutsFile, cut_lines, cuts_digest, decode_cuts, measure_cuts, read_cuts
from prepcli.storage.input_files import state_of
from prepcli.storage.paths import NUMBER, AnyPath

CONTEXT_TEXT = "context_text"
EMOTION = "emotion"
NORMALIZED = "normalized_text"

PRESETS = {
    # The fifth part of the id.
    "rivaLindyRodney": r"^(?:[^-]*-){4}([^-]*)",
    # The fifth part of the id, between its first and its last `_`.
    "rivaEmmaMeganSeanTom": r"^(?:[^-]*-){4}[^_-]*_([^-]*)_[^_-]*(?:-|$)",
    # The fourth part of the id.
    "jhsdGtc20Amp20Keynote": r"^(?:[^-]*-){3}([^-]*)",
}
"""Values of `--suffix` for some corpora. Each has a pattern with one group, which is searched in the supervision's id.

The text context is then the name of the speaker, followed by the text of the group.
"""

Fields = Mapping[str, msgspec.Raw]
Suffix = Callable[[Fields, Fields], str]
"""A function that takes a supervision and its custom fields. It returns what the text context has after the name of the
speaker, such as an emotion, or raises `RecordRejected` if the supervision does not have it."""


def parse_suffix(suffix: str | None) -> Suffix:
    """Return a function that finds what a cut's text context has after the name of the speaker, such as an emotion.

    `suffix` is the value of `--suffix`; for None, the function returns an empty text.

    Raises:
        UsageError: the value is invalid.
    """
    if suffix is None:
        return lambda supervision, custom: ""
    if suffix in PRESETS:
        return partial(_part_of_id, PRESETS[suffix])
    kind, _, value = suffix.partition(":")
    if kind == "field" and value:
        return partial(_field, value)
    if kind != "regex" or not value:
        raise UsageError(
            f"{option('--suffix', suffix)} is not known; give field:NAME, regex:PATTERN, or one of {', '.join(PRESETS)}"
        )
    check_pattern(value, option("--suffix", suffix), "the suffix")
    return partial(_part_of_id, value)


def _field(name: str, supervision: Fields, custom: Fields) -> str:
    found = _value(custom.get(name) or supervision.get(name))
    if not isinstance(found, str | int) or found == "":
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {name}, which --suffix names")
    return str(found)


def _part_of_id(pattern: str, supervision: Fields, custom: Fields) -> str:
    id = str(_value(supervision.get("id")))
    match = re.search(pattern, id)
    found = "_".join(filter(None, match.groups())) if match else ""
    if not found:
        raise RecordRejected(RejectReason.BAD_FIELD, f"the id {id} of its supervision has no suffix (--suffix)")
    return found


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else decode_json(bytes(raw), Any)


@dataclass(frozen=True, slots=True)
class NewCut:
    """A cut with a text context.

    Attributes:
        line: the cut as JSON, without line end.
        rejected: why the cut has no text context; None if it has one.
        lost_text: whether the field `normalized_text` of the supervision was left out.
    """

    line: bytes
    rejected: RecordRejected | None
    lost_text: bool


def with_text_context(line: bytes, suffix: Suffix, kept: Collection[str]) -> NewCut:
    """Add a text context to the first supervision of the cut in a line of JSON.

    The supervision keeps its custom field `emotion` and the custom fields in `kept`; all others are left out.

    Raises:
        ValueError: the line is not a cut (`msgspec.DecodeError` is a ValueError).
    """
    cut: dict[str, msgspec.Raw] = decode_json(line, dict[str, msgspec.Raw])
    raw = cut.get("supervisions")
    supervisions: list[dict[str, msgspec.Raw]] = (
        [] if raw is None else decode_json(bytes(raw), list[dict[str, msgspec.Raw]])
    )
    if not supervisions:
        why = "the cut has no supervision, and so no speaker"
        return NewCut(line, RecordRejected(RejectReason.MISSING_FIELD, why), False)
    first = supervisions[0]
    custom = _value_fields(first.get("custom"))
    found: dict[str, Any] = {}
    rejected: RecordRejected | None = None
    try:
        found[CONTEXT_TEXT] = _text(first, custom, suffix)
    except RecordRejected as error:
        rejected = error
    found |= {name: custom[name] for name in (EMOTION, *kept) if name in custom}
    first["custom"] = msgspec.Raw(msgspec.json.encode(found))
    cut["supervisions"] = msgspec.Raw(msgspec.json.encode(supervisions))
    return NewCut(msgspec.json.encode(cut), rejected, NORMALIZED in custom and NORMALIZED not in kept)


def _value_fields(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    if raw is None or bytes(raw) == b"null":
        return {}
    fields: dict[str, msgspec.Raw] = decode_json(bytes(raw), dict[str, msgspec.Raw])
    return fields


def _text(supervision: Fields, custom: Fields, suffix: Suffix) -> str:
    speaker = _value(supervision.get("speaker"))
    if not isinstance(speaker, str) or not speaker.strip("| "):
        raise RecordRejected(RejectReason.MISSING_FIELD, "there is no speaker")
    added = suffix(supervision, custom)
    return f"Speaker and Emotion: {speaker.rstrip('| ')}{added and f'_{added}'} |"


LOST_TEXTS = "lost_texts"
"""The key of the count of cuts whose normalized text was left out."""


@dataclass(frozen=True, slots=True)
class CutsShard(Unit):
    """A unit of work: the cuts of a shard, with the number of the shard and the file of its cuts."""

    number: int
    file: CutsFile


TextContextPlan = Plan[CutsShard, None]


class TextContextJob(UnitJob[CutsShard, None]):
    """Writes each file of cuts of a Shar set again, with text contexts. A unit is a shard."""

    command: ClassVar[str] = "extend-text-context"
    reads_audio_files = False
    defaults = shown_defaults(ExtendTextContext)

    def __init__(self, folder: AnyPath, options: ExtendTextContext, num_workers: int = 1) -> None:
        self.folder = folder
        self.options = options
        self.num_workers = num_workers
        self._suffix = parse_suffix(options.suffix)

    def plan(self, workspace: Workspace) -> TextContextPlan:
        """Read all cuts to count them; each shard becomes a unit."""
        refuse_unfinished(self.folder, self.options.work_dir)
        files = {number: CutsFile(path, state_of(path)) for number, path in SharSet(self.folder).cuts().items()}
        sizes = measure_cuts(list(files.values()), self.num_workers)
        return Plan(
            units=[
                CutsShard(f"shard_{shard_text(number)}", size.seconds, size.num_cuts, number, file)
                for (number, file), size in zip(files.items(), sizes, strict=True)
            ],
            records_in=sum(size.num_cuts for size in sizes),
            contents=None,
            inputs=[
                InputFile(str(file.path), size.sha256, file.state, cuts_digest)
                for file, size in zip(files.values(), sizes, strict=True)
            ],
        )

    def settings(self, plan: TextContextPlan) -> dict[str, Any]:
        """Every option that shapes the output."""
        return settings_of(self.options)

    def output_patterns(self, plan: TextContextPlan) -> Sequence[str]:
        """Patterns of the files of cuts, plain and compressed."""
        cuts = f"{TEXT_CONTEXT_CUTS}/cuts.{NUMBER}.jsonl"
        return (cuts, f"{cuts}.gz")

    def made_of(self, found: OutputFiles, name: str) -> Iterator[str]:
        """Yield the up-to-date index files of the cuts file `name`, which are next to it or in the folder of indexes.

        `found` has the files of the output folder.
        """
        return indexes_of(found, name)

    def process(self, plan: TextContextPlan, unit: CutsShard, writer: UnitWriter, advance: Advance) -> None:
        """Write all cuts of a shard, in their order."""
        path = unit.file.path
        data = read_cuts(unit.file)
        heads = decode_cuts(data, str(path), CutHead)
        name = f"{TEXT_CONTEXT_CUTS}/{path.name}"
        file = writer.open(name)
        cuts = CutWriter(file) if path.suffix == ".gz" else PlainCutWriter(file)
        lines = cut_lines(data, str(path))

        def write(position: int) -> float:
            try:
                new = with_text_context(lines[position], self._suffix, self.options.keep_field)
            except (msgspec.DecodeError, ValueError) as error:
                raise UsageError(f"{path}:{position + 1} is not a cut: {error}; repair the set first") from None
            cuts.add_cut(new.line)
            writer.extra[LOST_TEXTS] += new.lost_text
            if new.rejected is not None:
                raise new.rejected
            return heads[position].duration

        writer.write_each(
            range(len(lines)),
            write,
            lambda position: (lines[position], Origin(str(path), position + 1)),
            advance,
            lambda position: heads[position].duration,
        )
        cuts.close()
        if isinstance(cuts, PlainCutWriter):
            place = index_name(self.folder, path, writer.workspace.out, name)
            if place is not None:
                writer.add_after(place, cuts.index)

    def finish(self, plan: TextContextPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Return the paths of cuts and target audio, to paste into a training config.

        If texts were left out (`LOST_TEXTS`), the result also has a remark on them. The units' files are not merged.
        """
        out = writer.workspace.out
        shards = shard_range([unit.number for unit in plan.units])
        suffix = ".jsonl.gz" if plan.units[0].file.path.suffix == ".gz" else ".jsonl"
        details: dict[str, Any] = {"cuts": out / f"{TEXT_CONTEXT_CUTS}/cuts.{shards}{suffix}"}
        details[TARGET] = out / AUDIO_NAME.format(TARGET, shards)
        if lost := totals(markers)[LOST_TEXTS]:
            details["texts"] = (
                f"{lost:,.0f} cuts had a {NORMALIZED}, which MagpieTTS reads in place of the text: "
                f"{option('--keep-field', NORMALIZED)} keeps it"
            )
        return details


def extend_text_context(options: ExtendTextContext) -> Report:
    """Add a text context to each cut of a Shar set.

    Returns:
        The report of the run; its `outputs` are two paths for a training config: `cuts` and `target_audio`.

    Raises:
        UsageError: invalid options, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> shar = prepcli.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
        >>> report = prepcli.extend_text_context("shar", suffix="field:lang")
        >>> report.outputs["cuts"]
        '/.../shar/cuts_textContext/cuts._OP_000000..000002_CL_.jsonl.gz'
    """
    engine = options.engine()
    job = TextContextJob(options.shar_dir, options, num_workers=engine.num_workers)
    note_unused(options.work_dir, options.shar_dir)
    # This workspace is inside that of the run that made the set, whose own state stays unchanged.
    root = work_folder(options.shar_dir, options.work_dir) / TEXT_CONTEXT_CUTS
    return run_job(job, Workspace(options.shar_dir, root, work_dir=options.work_dir), engine)
