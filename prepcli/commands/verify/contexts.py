"""Checks the contexts that extend-context-audio has chosen: their limits, and that the voice is the same."""

from collections.abc import Iterator
from dataclasses import dataclass

from prepcli.audio.limits import SAME_SECONDS
from prepcli.commands.extend_context_audio.bundle_lines import FIELDS, PATH, SIMILARITY
from prepcli.commands.extend_context_audio.voices import group_key
from prepcli.engine.state.plan import StoredPlan
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.names import normal_path, path_in
from prepcli.jobs.records import base_directories
from prepcli.jobs.same_audio import channel_of
from prepcli.manifest.context import context_channel, context_of
from prepcli.manifest.index import index_manifests
from prepcli.manifest.parts import FieldKey
from prepcli.manifest.reader import LineReader
from prepcli.manifest.record import Record
from prepcli.manifest.scan import Range, lines_of
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
    other_channel = channel_of(context_channel(record)) != channel_of(record.get("channel"))
    if same and not other_channel and normal_path(context.audio_filepath) == normal_path(record.audio_filepath):
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
                    base = self.base_dirs[index.source_of(number)]
                    self._voices[_number(record, base, record.get("channel"))] = hash(name)

    def check(self, record: Record, base_dir: str) -> str | None:
        """Check that the context of a record has the same voice as the record; returns the problem, or None.

        Raises:
            RecordRejected: the context is invalid.
        """
        context, name = context_of(record, required=False), self._name(record)
        if context is None or name is None:
            return None
        voice = self._voices.get(_number(context, base_dir, context_channel(record)))
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


def _number(segment: Record, base_dir: str, channel: object) -> int:
    """A number of 64 bits that identifies a segment; it needs less memory than path, offset, duration and channel."""
    path = path_in(base_dir, segment.audio_filepath)
    return hash((path, segment.offset, segment.duration, channel_of(channel)))


def other_voices(path: AnyPath, voices: Voices, ranges: list[Range], base_dir: str) -> Iterator[str]:
    """Yield a problem for each line of a manifest whose context has another voice; `ranges` are those of its lines."""
    numbered = enumerate((line for one in ranges for line in lines_of(one)), start=1)
    for number, line in numbered:
        try:
            problem = voices.check(Record.parse(line), base_dir)
        except (RecordRejected, UsageError):
            continue  # the problem was reported above
        if problem is not None:
            yield f"{path.name}:{number}: {problem}"
