"""Reads lines of texts, text pairs and conversations as turns: the input and output of a model."""

import gzip
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.manifest.conversations import values_of
from prepcli.manifest.datasets import TextSet
from prepcli.manifest.fields import parse_fields
from prepcli.manifest.sources import is_gzip
from prepcli.storage.containers import UNUSABLE, Catalogue
from prepcli.storage.paths import absolute


@dataclass(frozen=True)
class Turn:
    """A turn of a conversation. For audio, `duration` is in seconds, and `text` is the tag that stands for audio."""

    role: str
    text: str
    duration: float | None = None


def examples_of(data: TextSet, path: str, target_path: str | None) -> Iterator[list[Turn] | RecordRejected | None]:
    """Yield a list of turns for each line of the file `path`; the last turn is the output of the model.

    A line to skip gives None, an unusable line gives its reject. `target_path`: for pairs of texts, the file with the
    targets; None for other kinds. Raises `UsageError` if the two files have different numbers of lines.
    """
    if data.kind not in ("txt", "txt_pair"):
        yield from _conversations(data, path)
        return
    with _open(path) as lines:
        if target_path is None:
            # Lines keep their line end, as in NeMo; the tokenizer determines its number of tokens.
            for line in lines:
                yield [Turn("assistant", line)]
            return
        questions = _questions(data)
        with _open(target_path) as targets:
            for number, (source, target) in enumerate(itertools.zip_longest(lines, targets)):
                if source is None or target is None:
                    longer = path if target is None else target_path
                    raise UsageError(f"{path} and {target_path} do not belong together: {longer} has more lines")
                # NeMo draws a question at random for each line; round-robin gives the same shares.
                asked = [Turn("user", questions[number % len(questions)])] if questions else []
                yield [*asked, Turn("user", source.strip()), Turn("assistant", target.strip())]


def _questions(data: TextSet) -> list[str]:
    if data.questions_path is None:
        return []
    with _open(data.questions_path) as lines:
        return [line.strip() for line in lines]


def _open(path: str) -> IO[str]:
    # Bytes that are not UTF-8 become lone surrogates; lines with them are rejected when tokens are counted.
    if is_gzip(path):
        return gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape")
    return Path(path).open(encoding="utf-8", errors="surrogateescape")


def _conversations(data: TextSet, path: str) -> Iterator[list[Turn] | RecordRejected | None]:
    for line in _lines(path):
        try:
            yield _conversation(line, data) if line.strip() else None
        except RecordRejected as rejected:
            yield rejected


def _lines(path: str) -> Iterator[bytes]:
    """The lines of a file; of a catalogue those in NeMo's form that it makes."""
    if isinstance(path, Catalogue):
        yield from path.read(absolute(path))
        return
    with gzip.open(path, "rb") if is_gzip(path) else Path(path).open("rb") as lines:
        yield from lines


def _conversation(line: bytes, data: TextSet) -> list[Turn] | None:
    """The turns of a line as NeMo's `NeMoMultimodalConversationJsonlAdapter` reads them; None for a line to skip.

    Raises `RecordRejected`.
    """
    fields = values_of(parse_fields(line))
    custom = fields.get("custom")
    if isinstance(custom, dict) and custom.get("_skipme"):
        return None
    if UNUSABLE in fields:
        raise RecordRejected(RejectReason.BAD_FIELD, str(fields[UNUSABLE]).partition(": ")[2])
    conversation = fields.get("conversations")
    if not isinstance(conversation, list) or not conversation:
        raise RecordRejected(RejectReason.MISSING_FIELD, "the field conversations is missing")
    turns = [_turn(turn, data.settings.audio_locator_tag or "") for turn in conversation]
    tags = dict(data.settings.tags)
    context, system = tags.get("context"), tags.get("system_prompt")
    if context is not None and turns[0].role == "user" and turns[0].duration is not None:
        turns.insert(0, Turn("user", str(context)))
    if system is not None and turns[0].role != "system":
        turns.insert(0, Turn("system", str(system)))
    return turns


def _turn(turn: Any, audio_tag: str) -> Turn:
    try:
        role, kind, value = turn["from"].lower(), turn["type"], turn["value"]
        text = msgspec.convert(value, str)
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError):
        raise RecordRejected(RejectReason.BAD_FIELD, "a turn needs from, type and value, all of them text") from None
    if kind == "text":
        return Turn(role, text)
    duration = turn.get("duration")
    if kind != "audio" or isinstance(duration, bool) or not isinstance(duration, int | float) or not duration > 0:
        raise RecordRejected(RejectReason.BAD_DURATION, "a turn that is not text needs the type audio and a duration")
    return Turn(role, audio_tag, float(duration))
