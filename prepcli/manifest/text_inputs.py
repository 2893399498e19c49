"""Data of texts and conversations, from NeMo's `input_cfg`: what token bins are estimated from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prepcli.errors import UsageError
from prepcli.manifest.datasets import DataSet, Mix, Notes
from prepcli.manifest.input_cfg import config_entries, in_file, weighted_mix
from prepcli.manifest.sources import check_file, expand_paths

TEXT_TYPES = ("txt", "txt_pair", "multimodal_conversation", "group")


@dataclass(frozen=True)
class TextSet(DataSet):
    """Files of one `kind` (of `TEXT_TYPES`): `paths` are texts, sources of pairs, or conversations in JSON lines.

    `token_equivalent_duration`: seconds of audio that count as one token, None where the entry does not say.
    """

    kind: str = "txt"
    target_paths: tuple[str, ...] = ()
    questions_path: str | None = None
    language: str | None = None
    target_language: str | None = None
    audio_locator_tag: str | None = None
    token_equivalent_duration: float | None = None


def parse_text_cfg(
    value: Any, seen: tuple[str, ...] = (), notes: Notes | None = None, outer: Mapping[str, Any] | None = None
) -> DataSet | Mix:
    """The data of an `input_cfg` of texts: a list of entries, or the path of a YAML file that holds one.

    As `prepcli.manifest.input_cfg.parse_input_cfg`, for the types of `TEXT_TYPES`. Groups hand down `outer`, their
    `audio_locator_tag` and `token_equivalent_duration`. Raises `UsageError`.
    """
    parts, weights = [], []
    for entry, kind, within, entry_notes in config_entries(value, TEXT_TYPES, seen, notes or Notes()):
        weights.append(entry.get("weight"))
        inherited = {
            name: entry.get(name, (outer or {}).get(name))
            for name in ("audio_locator_tag", "token_equivalent_duration")
        }
        if kind == "group":
            parts.append(parse_text_cfg(entry.get("input_cfg"), within, entry_notes, inherited))
        else:
            parts.append(_parse_entry(entry, kind, within, entry_notes, inherited))
    return weighted_mix(parts, weights, seen)


def _parse_entry(
    entry: dict[str, Any], kind: str, seen: tuple[str, ...], notes: Notes, inherited: Mapping[str, Any]
) -> TextSet:
    tags = dict(notes.tags)
    key = {"txt": "paths", "txt_pair": "source_paths"}.get(kind, "manifest_filepath")
    paths = _paths(entry, key, kind, seen)
    seconds = inherited["token_equivalent_duration"]
    if seconds is not None and (not isinstance(seconds, int | float) or not seconds > 0):
        raise UsageError(f"token_equivalent_duration{in_file(seen)} must be a number of seconds above 0, not {seconds}")
    targets: tuple[str, ...] = ()
    if kind == "txt_pair":
        targets = _paths(entry, "target_paths", kind, seen)
        if len(targets) != len(paths):
            raise UsageError(
                f"an entry{in_file(seen)} of type {kind} has {len(paths)} source_paths and {len(targets)} target_paths"
            )
    questions = entry.get("questions_path")
    return TextSet(
        paths=paths,
        notes=notes,
        kind=kind,
        target_paths=targets,
        questions_path=None if questions is None else check_file(str(questions), "questions_path"),
        language=entry.get("source_language" if kind == "txt_pair" else "language", tags.get("lang")),
        target_language=entry.get("target_language", tags.get("lang")),
        audio_locator_tag=inherited["audio_locator_tag"],
        token_equivalent_duration=seconds,
    )


def _paths(entry: dict[str, Any], key: str, kind: str, seen: tuple[str, ...]) -> tuple[str, ...]:
    value = entry.get(key)
    if not value:
        raise UsageError(f"an entry{in_file(seen)} of type {kind} has no {key}")
    return tuple(path for one in (value if isinstance(value, list) else [value]) for path in expand_paths(str(one)))
