"""Text contexts: the text that describes the voice of a cut, and the files of cuts that have it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.state.plan import Unit
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.indexes import index_name
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.shar import TEXT_CONTEXT_CUTS, CutWriter, PlainCutWriter
from prepcli.interface.values import check_pattern
from prepcli.manifest.shar_cuts import CutHead, CutsFile, cut_lines, decode_cuts, read_cuts
from prepcli.storage.paths import AnyPath

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
    value = _value(custom.get(name) or supervision.get(name))
    if not isinstance(value, str | int) or value == "":
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {name}, which --suffix names")
    return str(value)


def _part_of_id(pattern: str, supervision: Fields, custom: Fields) -> str:
    id = str(_value(supervision.get("id")))
    match = re.search(pattern, id)
    part = "_".join(filter(None, match.groups())) if match else ""
    if not part:
        raise RecordRejected(RejectReason.BAD_FIELD, f"the id {id} of its supervision has no suffix (--suffix)")
    return part


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else decode_json(bytes(raw), Any)


@dataclass(frozen=True, slots=True)
class NewCut:
    """A cut with a text context.

    Attributes:
        line: the cut as JSON, without line end.
        rejected: why the cut has no text context; None if it has one.
        lost_text: whether the field `normalized_text` of the supervision was left out.
        kept: the fields that the user wanted to keep, and that the supervision has.
    """

    line: bytes
    rejected: RecordRejected | None
    lost_text: bool
    kept: Sequence[str] = ()


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
    fields: dict[str, Any] = {}
    rejected: RecordRejected | None = None
    try:
        fields[CONTEXT_TEXT] = _text(first, custom, suffix)
    except RecordRejected as error:
        rejected = error
    fields |= {name: custom[name] for name in (EMOTION, *kept) if name in custom}
    first["custom"] = msgspec.Raw(msgspec.json.encode(fields))
    cut["supervisions"] = msgspec.Raw(msgspec.json.encode(supervisions))
    lost_text = NORMALIZED in custom and NORMALIZED not in kept
    return NewCut(msgspec.json.encode(cut), rejected, lost_text, [name for name in kept if name in custom])


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
FIELD_COUNT = "kept_{}"
"""The key of the count of cuts that keep a field of `--keep-field`, by its name."""


@dataclass(frozen=True, slots=True)
class CutsShard(Unit):
    """A unit of work: the cuts of a shard, with the number of the shard and the file of its cuts."""

    number: int
    file: CutsFile


def write_shard(folder: AnyPath, unit: CutsShard, writer: UnitWriter, suffix: Suffix, kept: Collection[str]) -> None:
    """Write the cuts of a shard of the set in `folder` in their order; see `with_text_context` for the rest."""
    path = unit.file.path
    data = read_cuts(unit.file)
    heads = decode_cuts(data, str(path), CutHead)
    name = f"{TEXT_CONTEXT_CUTS}/{path.name}"
    file = writer.open(name)
    cuts = CutWriter(file) if path.suffix == ".gz" else PlainCutWriter(file)
    lines = cut_lines(data, str(path))

    def write(position: int) -> float:
        try:
            new = with_text_context(lines[position], suffix, kept)
        except (msgspec.DecodeError, ValueError) as error:
            raise UsageError(f"{path}:{position + 1} is not a cut: {error}; repair the set first") from None
        cuts.add_cut(new.line)
        writer.extra[LOST_TEXTS] += new.lost_text
        writer.extra.update(FIELD_COUNT.format(name) for name in new.kept)
        if new.rejected is not None:
            raise new.rejected
        return heads[position].duration

    writer.write_each(
        range(len(lines)),
        write,
        lambda position: (lines[position], Origin(str(path), position + 1)),
        writer.advance,
        lambda position: heads[position].duration,
    )
    cuts.close()
    if isinstance(cuts, PlainCutWriter):
        place = index_name(folder, path, writer.workspace.out, name)
        if place is not None:
            writer.add_after(place, cuts.index)
