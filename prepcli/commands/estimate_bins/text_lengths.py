"""The lengths in tokens of the examples in files of texts and conversations; worker processes count a file each."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prepcli.errors import RecordRejected
from prepcli.manifest.datasets import TextSet
from prepcli.manifest.texts import Turn, examples_of
from prepcli.tokenizers.counting import TokenizerSpec, load_tokenizers

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
_BLOCK_LINES = 1000


@dataclass(frozen=True)
class TextPiece:
    """A piece of an example: a text whose tokens are to be counted, or audio, which counts as `audio` tokens.

    `is_output`: whether the piece belongs to the output of the model. `audio` is 0 for a text.
    """

    text: str
    lang: str | None = None
    is_output: bool = False
    audio: int = 0


@dataclass(frozen=True)
class FileTask:
    """The task to count the tokens of the file `path` of `data`.

    `target_path`: the file with the target texts, if `data` are a `txt_pair`; else None.
    """

    data: TextSet
    path: str
    target_path: str | None
    spec: TokenizerSpec
    seconds_per_token: float


class Length(NamedTuple):
    """The length of an example in tokens.

    Attributes:
        inputs: tokens of the input.
        outputs: tokens of the output.
        ratio: tokens of text in the output per token of text in the input, which NeMo's `max_tpt` limits.
        seconds: seconds of audio.
    """

    inputs: int
    outputs: int
    ratio: float
    seconds: float


@dataclass
class FileLengths:
    """The lengths of the examples in one or several files, in arrays of shape (examples,), and counts of lines.

    `inputs`, `outputs`, `ratios` and `seconds`: see `Length`. Records of audio have the ratio nan, because `max_tpt`
    limits texts only.
    """

    inputs: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    outputs: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    ratios: Floats = field(default_factory=lambda: np.empty(0))
    seconds: Floats = field(default_factory=lambda: np.empty(0))
    num_lines: int = 0
    num_skipped: int = 0
    num_rejected: int = 0
    first_rejected: str | None = None
    num_discarded: int = 0
    """Number of examples that filters leave out."""


def count_file(task: FileTask) -> FileLengths:
    """Count the tokens of each example in a file, and the unusable lines; `first_rejected` names the first of them.

    Raises `UsageError` if the source file and the target file of a `txt_pair` have different numbers of lines, and
    `WordsDiffer` if a text that was counted word by word has another number of tokens as a whole.
    """
    counts = FileLengths()
    lengths: list[Length] = []
    examples = enumerate(examples_of(task.data, task.path, task.target_path), start=1)
    while block := list(itertools.islice(examples, _BLOCK_LINES)):
        counts.num_lines += len(block)
        usable = []
        for line, example in block:
            if isinstance(example, RecordRejected):
                _reject(counts, task, line, example)
            elif example is None:
                counts.num_skipped += 1
            else:
                usable.append((line, example))
        try:
            lengths += _lengths(task, [example for _, example in usable])
        except RecordRejected:
            for line, example in usable:
                try:
                    lengths += _lengths(task, [example])
                except RecordRejected as rejected:
                    _reject(counts, task, line, rejected)
    columns = list(zip(*lengths, strict=True)) or [()] * len(Length._fields)
    counts.inputs, counts.outputs = (np.array(column, np.int32) for column in columns[:2])
    counts.ratios, counts.seconds = (np.array(column, np.float64) for column in columns[2:])
    return counts


def _reject(lengths: FileLengths, task: FileTask, line: int, rejected: RecordRejected) -> None:
    lengths.num_rejected += 1
    lengths.first_rejected = lengths.first_rejected or f"{task.path}:{line}: {rejected.detail}"


def _lengths(task: FileTask, examples: Sequence[list[Turn]]) -> list[Length]:
    """The length of each example; with a prompt format, the tokens of the prompt count too.

    Raises `RecordRejected` if an example cannot be used.
    """
    seconds = [sum(turn.duration or 0.0 for turn in example) for example in examples]
    if task.spec.prompt_format is not None:
        from prepcli.models.prompts import load_prompt

        prompt = load_prompt(task.spec)
        counted = [prompt.lengths(task.data, example, task.seconds_per_token) for example in examples]
        return [Length(*of_one, of_audio) for of_one, of_audio in zip(counted, seconds, strict=True)]
    pieces = [_pieces(task, example) for example in examples]
    flat = [piece for of_one in pieces for piece in of_one]
    counts = iter(load_tokenizers(task.spec).counts([piece.text for piece in flat], [piece.lang for piece in flat]))
    lengths = []
    for of_one, of_audio in zip(pieces, seconds, strict=True):
        audio, texts = [0, 0], [0, 0]
        for piece in of_one:
            audio[piece.is_output] += piece.audio
            texts[piece.is_output] += next(counts)
        ratio = texts[1] / max(texts[0], 1)
        lengths.append(Length(texts[0] + audio[0], texts[1] + audio[1], ratio, of_audio))
    return lengths


def _pieces(task: FileTask, turns: list[Turn]) -> list[TextPiece]:
    """The pieces to count without a prompt format: the last turn is the output, all earlier turns are the input.

    Consecutive turns of one role are joined by spaces, as in NeMo's prompts. A turn of audio counts only by its
    duration. If the config entry of the data names no language, the entry's tag `lang` is the language.
    """
    data = task.data
    pieces = []
    for is_output, some in ((False, turns[:-1]), (True, turns[-1:])):
        lang = data.target_language if is_output and data.kind == "txt_pair" else data.language
        lang = dict(data.settings.tags).get("lang") if lang is None else lang
        for (_, is_audio), group in itertools.groupby(some, key=lambda turn: (turn.role, turn.duration is not None)):
            if is_audio:
                audio = sum(num_audio_tokens(turn.duration or 0.0, task.seconds_per_token) for turn in group)
                pieces.append(TextPiece("", lang, is_output, audio))
            else:
                pieces.append(TextPiece(" ".join(turn.text for turn in group), lang, is_output))
    return pieces


def num_audio_tokens(duration: float, seconds_per_token: float) -> int:
    """The number of tokens that a piece of audio counts as (NeMo's `_compute_num_audio_tokens`)."""
    return math.ceil(duration / seconds_per_token)
