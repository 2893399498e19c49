"""Checks the contexts that extend-context-audio has chosen: their limits, and that the voice is the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prepcli.audio.limits import SAME_SECONDS
from prepcli.commands.extend_context_audio.bundle_lines import FIELDS, PATH, SIMILARITY
from prepcli.commands.extend_context_audio.voices import group_key
from prepcli.engine.state.plan import StoredPlan
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.names import normal_path, path_in
from prepcli.jobs.records import base_directories
from prepcli.jobs.same_audio import channel_of
from prepcli.manifest.context import context_channel, context_of, in_context
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


def check_context(record: Record, rules: ContextRules | None, look_for: Callable[[Record], None]) -> Iterator[str]:
    """Yield a message for each problem of a record's context.

    If `rules` is None, a record may also have no context. `look_for`: raises `RecordRejected` if a segment is not in
    its audio.
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
    try:
        look_for(context)
    except RecordRejected as rejected:
        yield in_context(rejected).detail


class InputsGoneError(Exception):
    """The inputs of a run are not what they were; the message says which."""


def other_voices(path: AnyPath, plan: StoredPlan, base_dir: str, num_workers: int) -> Iterator[tuple[int, str]]:
    """Yield a problem, with the number of its line from 1, for each context that has another voice than its record.

    `plan`: of the run of extend-context-audio that wrote the manifest at `path`.

    Raises:
        InputsGoneError: an input of the run, which shows the voices, is missing or has changed.
    """
    key = group_key(plan.settings.get("--group-by", "speaker"))
    assert isinstance(key, FieldKey)
    voices = _voices(plan, key, num_workers)
    for number, line in enumerate(lines_of(Range(str(path), 0, None)), start=1):
        try:
            record = Record.parse(line)
            context, name = context_of(record, required=False), _name(record, key)
            if context is None or name is None:
                continue
            voice = voices.get(_number(context, base_dir, context_channel(record)))
        except (RecordRejected, UsageError):
            continue  # the problem was reported above
        if voice is None:
            yield number, f"its context {context.audio_filepath} is not a record of the input"
        elif voice != hash(name):
            yield number, f"its context {context.audio_filepath} is of another voice than {name}"


def _voices(plan: StoredPlan, key: FieldKey, num_workers: int) -> dict[int, int]:
    """The voice of each segment in the inputs of a run: the hash of its name, by `_number`."""
    manifests = [join(plan.run_in, file["path"]) for file in plan.inputs]
    for path in manifests:
        if not is_file(path):
            raise InputsGoneError(f"the input {path} is not there")
    base = plan.settings.get("--audio-base-dir")
    base_dirs = base_directories(manifests, join(plan.run_in, base) if base else None)
    index = index_manifests(manifests, num_workers=num_workers)
    for source, file in zip(index.sources, plan.inputs, strict=True):
        if source.sha256 != file["sha256"]:
            raise InputsGoneError(f"the input {source.path} has changed")
    voices: dict[int, int] = {}
    with LineReader(index) as lines:
        for number in range(len(index)):
            record = Record.parse(lines.line(number))
            if (name := _name(record, key)) is not None:
                voices[_number(record, base_dirs[index.source_of(number)], record.get("channel"))] = hash(name)
    return voices


def _name(record: Record, key: FieldKey) -> str | None:
    """The name of the voice of a record; None if its field has none."""
    value = record.get(key.field)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        return key.function(str(value))
    except RecordRejected:
        return None


def _number(segment: Record, base_dir: str, channel: object) -> int:
    """A number of 64 bits that identifies a segment; it needs less memory than path, offset, duration and channel."""
    path = path_in(base_dir, segment.audio_filepath)
    return hash((path, segment.offset, segment.duration, channel_of(channel)))
