"""Survey transcribed conversations for planning: lines, seconds of speech, recordings that cannot be decoded."""

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prepcli.audio import shorten
from prepcli.commands.download.conversations import Conversation, Corpus, decode_line, parse_span
from prepcli.commands.download.recording import undecodable_coding
from prepcli.engine.state.plan import InputFile
from prepcli.errors import RecordRejected, UsageError
from prepcli.processes.pools import map_in_order
from prepcli.storage.input_files import state_of

_CHUNK = 128
"""Conversations per task of a worker."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A conversation as planning needs it; `seconds` of speech, from the transcript."""

    conversation: Conversation
    num_lines: int
    seconds: float
    transcript: InputFile
    undecodable: str | None


def survey(corpus: Corpus, conversations: Sequence[Conversation], num_workers: int) -> list[Surveyed]:
    """Read all transcripts, and check that the recordings can be decoded.

    Raises:
        UsageError: recordings are compressed with shorten, and this machine has no decoder.
    """
    chunks = [conversations[at : at + _CHUNK] for at in range(0, len(conversations), _CHUNK)]
    surveyed = [one for chunk in map_in_order(partial(_survey_some, corpus), chunks, num_workers) for one in chunk]
    _refuse_undecodable(surveyed)
    return surveyed


def _survey_some(corpus: Corpus, conversations: Sequence[Conversation]) -> list[Surveyed]:
    return [_survey_one(corpus, conversation) for conversation in conversations]


def _survey_one(corpus: Corpus, conversation: Conversation) -> Surveyed:
    transcript = input_file(conversation.transcript)
    num_lines, seconds = 0, 0.0
    for _, line in corpus.lines(conversation):
        num_lines += 1
        words = line.split(maxsplit=max(corpus.times) + 1)
        with contextlib.suppress(RecordRejected, IndexError):
            start, end = (decode_line(words[at]) for at in corpus.times)
            start_seconds, end_seconds = parse_span(start, end)
            seconds += end_seconds - start_seconds
    undecodable = None
    with contextlib.suppress(RecordRejected):  # its lines become rejects in their turn
        undecodable = undecodable_coding(conversation.audio)
    return Surveyed(conversation, num_lines, seconds, transcript, undecodable)


def input_file(path: str) -> InputFile:
    """An input whose content shapes the output."""
    state = state_of(path)
    return InputFile(path, _digest_of(path), state, _digest_of)


def _digest_of(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _refuse_undecodable(surveyed: Sequence[Surveyed]) -> None:
    codings = [(one.undecodable, one.conversation.audio) for one in surveyed if one.undecodable is not None]
    if codings:
        coding, path = codings[0]
        raise UsageError(
            f"{len(codings):,} recordings are compressed with shorten ({coding}; the first is {path}), which nothing "
            f"on this machine decodes: {shorten.how_to_decode(coding)}"
        )
