"""The lengths of texts, pairs and conversations in tokens: what goes into a model, and what comes out of it."""

import gzip
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import numpy.typing as npt

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.sources import is_gzip
from prepcli.manifest.text_inputs import TextSet
from prepcli.tokenizers.counting import TokenizerSpec, load_tokenizers

Ints = npt.NDArray[np.int32]
_BLOCK_LINES = 1000


@dataclass(frozen=True)
class Piece:
    """A text to count, and whether it belongs to the input or to the output; `audio`: so many tokens besides."""

    text: str
    lang: str | None = None
    is_output: bool = False
    audio: int = 0


@dataclass(frozen=True)
class Turn:
    """A turn of a conversation; `duration` in seconds for one of audio, whose text is the tag that stands for it."""

    role: str
    text: str
    duration: float | None = None


@dataclass(frozen=True)
class FileTask:
    """One file of a data set, and for pairs the one with the targets."""

    data: TextSet
    path: str
    target_path: str | None
    spec: TokenizerSpec
    seconds_per_token: float


@dataclass
class FileLengths:
    """The lengths of a file's examples in tokens; shape (examples,)."""

    inputs: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    outputs: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    num_lines: int = 0
    num_skipped: int = 0
    num_rejected: int = 0
    first_rejected: str | None = None


def count_file(task: FileTask) -> FileLengths:
    """Read a file and count; lines that cannot be used are counted, and the first is named.

    Raises `UsageError` for files of a pair that do not have equally many lines, and `WordsDiffer`.
    """
    found = FileLengths()
    inputs: list[int] = []
    outputs: list[int] = []
    examples = enumerate(_examples(task), start=1)
    while block := list(itertools.islice(examples, _BLOCK_LINES)):
        found.num_lines += len(block)
        usable = []
        for line, example in block:
            if isinstance(example, RecordRejected):
                _reject(found, task, line, example)
            elif example is None:
                found.num_skipped += 1
            else:
                usable.append((line, example))
        try:
            counted = _lengths(task, [example for _, example in usable])
        except RecordRejected:
            counted = []
            for line, example in usable:
                try:
                    counted += _lengths(task, [example])
                except RecordRejected as rejected:
                    _reject(found, task, line, rejected)
        inputs += [one for one, _ in counted]
        outputs += [one for _, one in counted]
    found.inputs, found.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
    return found


def _reject(found: FileLengths, task: FileTask, line: int, rejected: RecordRejected) -> None:
    found.num_rejected += 1
    found.first_rejected = found.first_rejected or f"{task.path}:{line}: {rejected.detail}"


def _lengths(task: FileTask, examples: Sequence[list[Turn]]) -> list[tuple[int, int]]:
    """Input and output tokens of each example, in a prompt where one is asked for; raises `RecordRejected`."""
    if task.spec.prompt_format is not None:
        from prepcli.models.prompts import load_prompt

        prompt = load_prompt(task.spec)
        return [prompt.lengths(task.data.kind, example, task.seconds_per_token) for example in examples]
    pieces = [_pieces(task, example) for example in examples]
    flat = [piece for of_one in pieces for piece in of_one]
    counts = iter(load_tokenizers(task.spec).counts([piece.text for piece in flat], [piece.lang for piece in flat]))
    lengths = []
    for of_one in pieces:
        sums = [0, 0]
        for piece in of_one:
            sums[piece.is_output] += next(counts) + piece.audio
        lengths.append((sums[0], sums[1]))
    return lengths


def _pieces(task: FileTask, turns: list[Turn]) -> list[Piece]:
    """What is counted without a prompt: the last turn is the output, all before it the input.

    Turns of one role in a row are one text with spaces between, as in NeMo's prompts; audio is its tokens alone.
    """
    data = task.data
    pieces = []
    for is_output, some in ((False, turns[:-1]), (True, turns[-1:])):
        lang = data.target_language if is_output and data.kind == "txt_pair" else data.language
        for (_, is_audio), group in itertools.groupby(some, key=lambda turn: (turn.role, turn.duration is not None)):
            if is_audio:
                audio = sum(num_audio_tokens(turn.duration or 0.0, task.seconds_per_token) for turn in group)
                pieces.append(Piece("", lang, is_output, audio))
            else:
                pieces.append(Piece(" ".join(turn.text for turn in group), lang, is_output))
    return pieces


def num_audio_tokens(duration: float, seconds_per_token: float) -> int:
    """How many tokens a piece of audio counts as (NeMo's `_compute_num_audio_tokens`)."""
    return math.ceil(duration / seconds_per_token)


def _examples(task: FileTask) -> Iterator[list[Turn] | RecordRejected | None]:
    """The turns of each line, the last of them the output; None for a line to pass over."""
    if task.data.kind == "multimodal_conversation":
        yield from _conversations(task)
        return
    with _open(task.path) as lines:
        if task.target_path is None:
            # With its line end, as NeMo has it; the tokenizer decides what that counts.
            for line in lines:
                yield [Turn("assistant", line)]
            return
        questions = _questions(task.data)
        with _open(task.target_path) as targets:
            for number, (source, target) in enumerate(itertools.zip_longest(lines, targets)):
                if source is None or target is None:
                    longer = task.path if target is None else task.target_path
                    raise UsageError(f"{task.path} and {task.target_path} are no pair: {longer} has more lines")
                # NeMo draws a question for each line; taking them in turn gives as many of each.
                asked = [questions[number % len(questions)]] if questions else []
                yield [Turn("user", " ".join([*asked, source.strip()])), Turn("assistant", target.strip())]


def _questions(data: TextSet) -> list[str]:
    if data.questions_path is None:
        return []
    with _open(data.questions_path) as lines:
        return [line.strip() for line in lines]


def _open(path: str) -> IO[str]:
    # Bytes that are no UTF-8 become lone surrogates, which counting then rejects line by line.
    if is_gzip(path):
        return gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape")
    return Path(path).open(encoding="utf-8", errors="surrogateescape")


def _conversations(task: FileTask) -> Iterator[list[Turn] | RecordRejected | None]:
    with gzip.open(task.path, "rb") if is_gzip(task.path) else Path(task.path).open("rb") as lines:
        for line in lines:
            try:
                yield _conversation(line, task.data) if line.strip() else None
            except RecordRejected as rejected:
                yield rejected


def _conversation(line: bytes, data: TextSet) -> list[Turn] | None:
    """Turns as NeMo's `NeMoMultimodalConversationJsonlAdapter` reads them; raises `RecordRejected`."""
    fields = {name: decode_value(raw) for name, raw in parse_fields(line).items()}
    custom = fields.get("custom")
    if isinstance(custom, dict) and custom.get("_skipme"):
        return None
    conversation = fields.get("conversations")
    if not isinstance(conversation, list) or not conversation:
        raise RecordRejected(RejectReason.MISSING_FIELD, "there are no conversations")
    turns = [_turn(one, data.audio_locator_tag or "") for one in conversation]
    context, system = data.tags.get("context"), data.tags.get("system_prompt")
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
        raise RecordRejected(RejectReason.BAD_DURATION, "a turn that is no text needs type audio and a duration")
    return Turn(role, audio_tag, float(duration))
