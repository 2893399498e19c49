"""Checks the context of each line of an extended manifest: another utterance of its voice, and long enough."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prepcli.audio.limits import SAME_SECONDS
from prepcli.commands.extend_context_audio.lines import FIELDS, PATH, SIMILARITY
from prepcli.commands.extend_context_audio.voices import group_key
from prepcli.engine.state.plan import StoredPlan
from prepcli.errors import RecordRejected
from prepcli.formats.names import normal_path, path_in
from prepcli.jobs.records import base_directories
from prepcli.manifest.index import index_manifests
from prepcli.manifest.parts import FieldKey
from prepcli.manifest.reader import LineReader
from prepcli.manifest.record import Record
from prepcli.storage.addresses import join
from prepcli.storage.paths import is_file

COMMAND = "extend-context-audio"
_ROUNDING = 1e-6
"""Similarities have six decimals."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a file as a line names it; `offset` and `duration` in seconds."""

    path: str
    offset: float
    duration: float


@dataclass(frozen=True, slots=True)
class ContextRules:
    """What a context must be: its minimum `duration` in seconds, and `similarity`."""

    duration: float = 0.0
    similarity: float = -1.0

    @classmethod
    def of_plan(cls, plan: StoredPlan | None) -> "ContextRules | None":
        """Those of the run that wrote the manifest; None if it was another command's."""
        if plan is None or plan.command != COMMAND:
            return None
        settings = plan.settings
        return cls(settings.get("--context-min-duration", 0.0), settings.get("--context-min-ssim", -1.0))


def check_context(record: Record, rules: ContextRules | None) -> Iterator[str | Segment]:
    """What is wrong with the context of a line, as words; and the context, whose audio must then be looked for.

    `rules` is None for a manifest of which it is not known that it has contexts.
    """
    wanted = [PATH, FIELDS["offset"], FIELDS["duration"], *([] if rules is None else [SIMILARITY])]
    missing = [name for name in wanted if record.get(name) is None]
    if missing == wanted and rules is None:
        return
    if missing:
        yield f"there is no {', '.join(missing)}"
        return
    context = context_of(record)
    if context is None:
        yield f"{PATH}, {FIELDS['offset']} and {FIELDS['duration']} name no segment of a file"
        return
    similarity = record.get(SIMILARITY, 1.0)
    rules = rules or ContextRules()
    if not isinstance(similarity, int | float) or not -1 - _ROUNDING <= similarity <= 1 + _ROUNDING:
        yield f"{SIMILARITY} is {similarity}, not a number from -1 to 1"
    elif similarity < rules.similarity - _ROUNDING:
        yield f"{SIMILARITY} is {similarity}, below --context-min-ssim {rules.similarity}"
    if context.duration < rules.duration:
        yield f"the context lasts {context.duration:g} s, less than --context-min-duration {rules.duration:g}"
    same = max(abs(context.offset - record.offset), abs(context.duration - record.duration)) <= SAME_SECONDS
    if same and normal_path(context.path) == normal_path(record.audio_filepath):
        yield "the context is the utterance itself"
    yield context


def context_of(record: Record) -> Segment | None:
    """The context that a line names; None where there is none, or not a usable one."""
    path, offset, duration = (record.get(name) for name in (PATH, FIELDS["offset"], FIELDS["duration"]))
    if not isinstance(path, str) or not path or not _is_number(offset) or not _is_number(duration) or not duration:
        return None
    return Segment(path, float(offset), float(duration))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


class Voices:
    """The voice of each segment of the manifests that a run has extended.

    Args:
        plan: that of the run.

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
                    segment = Segment(record.audio_filepath, record.offset, record.duration)
                    self._voices[_number(segment, self.base_dirs[index.source_of(number)])] = hash(name)

    def check(self, record: Record, base_dir: str) -> str | None:
        """What is wrong with the voice of the record's context."""
        context, name = context_of(record), self._name(record)
        if context is None or name is None:
            return None
        voice = self._voices.get(_number(context, base_dir))
        if voice is None:
            return f"its context {context.path} is not a record of the input"
        return None if voice == hash(name) else f"its context {context.path} is of another voice than {name}"

    def _name(self, record: Record) -> str | None:
        value = record.get(self._key.field)
        if isinstance(value, bool) or not isinstance(value, str | int):
            return None
        try:
            return self._key.function(str(value))
        except RecordRejected:
            return None


def _number(segment: Segment, base_dir: str) -> int:
    """64 bits that stand for a segment: a manifest may have millions."""
    return hash((path_in(base_dir, segment.path), segment.offset, segment.duration))
