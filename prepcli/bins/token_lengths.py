"""The lengths of texts, pairs and conversations in tokens: the input and the output of a model."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from prepcli.errors import RecordRejected
from prepcli.manifest.text_inputs import TextSet
from prepcli.manifest.texts import Turn, examples_of
from prepcli.tokenizers.counting import TokenizerSpec, load_tokenizers

Ints = npt.NDArray[np.int32]
_BLOCK_LINES = 1000


@dataclass(frozen=True)
class Piece:
    """A text to count, and whether it belongs to the input or the output; `audio`: a number of tokens to add."""

    text: str
    lang: str | None = None
    is_output: bool = False
    audio: int = 0


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
    """Read a file and count its tokens; unusable lines are counted, and the first is named.

    Raises `UsageError` for files of a pair that do not have equally many lines, and `WordsDiffer`.
    """
    found = FileLengths()
    inputs: list[int] = []
    outputs: list[int] = []
    examples = enumerate(examples_of(task.data, task.path, task.target_path), start=1)
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
    """Input and output tokens of each example, with the prompt format if one was given; raises `RecordRejected`."""
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
    """The pieces to count without a prompt: the last turn is the output, all earlier turns the input.

    Consecutive turns of one role are joined by spaces, as in NeMo's prompts; audio counts as its tokens only.
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
    """The number of tokens that a piece of audio counts as (NeMo's `_compute_num_audio_tokens`)."""
    return math.ceil(duration / seconds_per_token)
