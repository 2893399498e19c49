"""The work for one bundle of voices: embeds the utterances in batches, selects their contexts, and writes the lines.

The similarities are not sorted, and the matrix of all pairs is computed in parts. For 10,000 utterances of 192
dimensions, this takes less than a tenth of the time and a fortieth of the memory of sorting the full matrix
(`benchmarks/context.py`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.limits import SAME_SECONDS
from prepcli.commands.extend_context_audio.bundle_lines import COLUMNS, DIGITS, ContextLines
from prepcli.commands.extend_context_audio.kept import KeptEmbeddings
from prepcli.commands.extend_context_audio.plan import ContextLayout
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.run.unit import Advance
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.npy import npy_bytes
from prepcli.jobs.embedding import EmbeddingWork
from prepcli.jobs.merging import PartWriter
from prepcli.jobs.record_job import each_record
from prepcli.jobs.records import Records
from prepcli.models.protocols import SpeakerEncoder
from prepcli.planning.hashing import mix64
from prepcli.planning.split import Indices
from prepcli.storage.paths import real_path

if TYPE_CHECKING:
    from torch import Tensor


_TOLERANCE = SAME_SECONDS + 1e-6  # 4.0 - 3.98 is a little more than 0.02
_STEPS = tuple((of_start, of_end) for of_start in (-1, 0, 1) for of_end in (-1, 0, 1))


class Segments(NamedTuple):
    """The audio segment of each row: a number of its file, and its start and end in seconds."""

    files: NDArray[np.uint64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def at(self, rows: NDArray[np.int64]) -> "Segments":
        """The segments of some rows."""
        return Segments(self.files[rows], self.start[rows], self.end[rows])

    def are_near(self, rows: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each pair of rows has the same start and end, within `_TOLERANCE`; their files are not compared."""
        near: NDArray[np.bool_] = (np.abs(self.start[rows] - self.start[others]) <= _TOLERANCE) & (
            np.abs(self.end[rows] - self.end[others]) <= _TOLERANCE
        )
        return near


def copies_of(segments: Segments, candidates: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find all pairs of a row and a candidate with the same segment; a candidate is also a pair with itself.

    `candidates` has the row numbers of the candidates, ascending.

    Returns:
        Two arrays with an item for each pair: the number of the row (ascending), and the position of the candidate in
        `candidates`.
    """
    files = np.sort(segments.files)
    if (files[1:] != files[:-1]).all():  # true for nearly all corpora of whole files
        return candidates, np.arange(len(candidates))
    pairs = [_pairs(segments, candidates, steps) for steps in _STEPS]
    rows, positions = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], positions[order]


def _pairs(
    segments: Segments, candidates: NDArray[np.int64], steps: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of `copies_of` in which the candidate is `steps` cells later than the row (negative: earlier).

    Time is divided into cells of `_TOLERANCE` seconds. `steps` has a number for the start and a number for the end.
    """
    of_candidates = _cells(segments.at(candidates), (0, 0))
    order = np.argsort(of_candidates, kind="stable")
    in_order, wanted = of_candidates[order], _cells(segments, steps)
    first = np.searchsorted(in_order, wanted, "left")
    count = np.searchsorted(in_order, wanted, "right") - first
    rows = np.repeat(np.arange(len(wanted)), count)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    positions = order[np.repeat(first, count) + within]
    others = candidates[positions]
    same = (segments.files[rows] == segments.files[others]) & segments.are_near(rows, others)
    return rows[same], positions[same]


def _cells(segments: Segments, steps: tuple[int, int]) -> NDArray[np.uint64]:
    """For each row, a hash of three numbers: its file, the cell of its start, and the cell of its end.

    Time is divided into cells of `_TOLERANCE` seconds. `steps` is added to the cells of start and end.
    """
    start, end = (
        mix64((np.floor(seconds / _TOLERANCE).astype(np.int64) + step).view(np.uint64))
        for seconds, step in zip((segments.start, segments.end), steps, strict=True)
    )
    return mix64(mix64(segments.files ^ start) ^ end)


CHUNK_VALUES = {"cpu": 1 << 20, "cuda": 1 << 27}
"""Number of similarities computed at a time: 4 MB on a CPU, to fit its cache; half a GB on a GPU."""
_MIN_ROWS = 96
"""Minimum number of rows of a chunk. With fewer rows, reading the candidates would take most of the time."""
_BLOCK = 64
"""Number of candidates per block. The maximum of each block is computed first; single candidates are compared only in
blocks whose maximum is near the row's best."""
_PAIRS = 1 << 15


class Chosen(NamedTuple):
    """For each row, the number of the chosen row and the cosine similarity; -1 and NaN if there is no candidate."""

    best: NDArray[np.int64]
    similarity: NDArray[np.float64]


def select_contexts(embeddings: "Tensor", is_candidate: NDArray[np.bool_], segments: Segments) -> Chosen:
    """For each row of `embeddings`, find the most similar candidate row, and the cosine similarity.

    `embeddings` (N, D) are float32 and of length 1. A row is not a candidate for itself, nor for rows with the same
    segment: a model learns nothing from a copy. The first of equally similar candidates is chosen. `is_candidate` must
    be false for rows with NaN; the choice for such rows is meaningless.

    The matrix product is in full float32, and its rounding depends on the shapes. So candidates within the rounding
    error of a row's best are compared again in float64, pair by pair: the choice is that of exact arithmetic, and two
    identical embeddings are a tie.
    """
    import torch

    count, dim = embeddings.shape
    candidates = np.flatnonzero(is_candidate)
    best = np.full(count, -1, np.int64)
    similarity = np.full(count, np.nan)
    if not len(candidates):
        return Chosen(best, similarity)
    device = embeddings.device
    columns = torch.from_numpy(candidates).to(device)
    padding = -len(candidates) % _BLOCK
    right = torch.nn.functional.pad(embeddings[columns], (0, 0, 0, padding)).T
    # Maximum rounding error of a sum of `dim` products of numbers up to 1, each rounded to 24 bits.
    slack = 2 * dim * 2.0**-24
    with_copy, copies = copies_of(segments, candidates)
    num_rows = max(_MIN_ROWS, CHUNK_VALUES[device.type] // len(candidates))
    for start in range(0, count, num_rows):
        stop = min(start + num_rows, count)
        values = embeddings[start:stop] @ right
        lo, hi = np.searchsorted(with_copy, (start, stop))
        rows, hidden = (torch.from_numpy(array).to(device) for array in (with_copy[lo:hi] - start, copies[lo:hi]))
        values[rows, hidden] = -torch.inf
        values[:, len(candidates) :] = -torch.inf
        near_rows, near = _near_best(values, slack)
        exact = _exact(embeddings, near_rows + start, columns[near])
        chosen_rows, chosen_columns, chosen_values = _first_of_greatest(
            near_rows.cpu().numpy(), near.cpu().numpy(), exact
        )
        best[start + chosen_rows] = candidates[chosen_columns]
        similarity[start + chosen_rows] = chosen_values
    return Chosen(best, similarity)


def _near_best(values: "Tensor", slack: float) -> "tuple[Tensor, Tensor]":
    """Find the elements of `values` (R, C) that are less than their row's maximum by at most `slack`.

    Returns the row numbers and the column numbers of these elements. A row of only -inf has no such elements. C must be
    a multiple of `_BLOCK`.
    """
    import torch

    blocks = values.view(len(values), -1, _BLOCK)
    greatest_of_block = blocks.amax(2)
    greatest = greatest_of_block.amax(1, keepdim=True)
    least = torch.where(greatest > -torch.inf, greatest - slack, torch.inf)
    rows, block = (greatest_of_block >= least).nonzero(as_tuple=True)
    row, within = (blocks[rows, block] >= least[rows]).nonzero(as_tuple=True)
    return rows[row], block[row] * _BLOCK + within


def _exact(embeddings: "Tensor", left: "Tensor", right: "Tensor") -> NDArray[np.float64]:
    """The cosines, computed in float64, of pairs of rows: `left[i]` and `right[i]` of `embeddings`."""
    parts = [np.empty(0)]
    for at in range(0, len(left), _PAIRS):
        a = embeddings[left[at : at + _PAIRS]].double()
        b = embeddings[right[at : at + _PAIRS]].double()
        parts.append((a * b).sum(1).cpu().numpy())
    return np.concatenate(parts)


def _first_of_greatest(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Find the maximum value of each row among the elements (row, column, value).

    Returns:
        The row numbers, ascending; for each row, the first column with its maximum; and the maxima.
    """
    order = np.lexsort((columns, -values, rows))
    rows = rows[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    return rows[first], columns[order][first], values[order][first]


BEST_NAME = "parts/{}.best.npy"
EMBEDDINGS_NAME, EMBEDDINGS_INDEX_NAME = "embeddings/{}.npy", "embeddings/{}.jsonl"

REUSED = "embeddings_reused"
"""Key of the number of embeddings that a unit has taken from an earlier run."""

MIN_GPU_ROWS = 1000
"""A voice with fewer utterances is compared on the CPU: launching GPU kernels would take longer."""
_INDEX_FIELDS = ("audio_filepath", "offset", "duration", "speaker")


@dataclass(frozen=True, slots=True)
class Embedded:
    """The results for a bundle of N records: the context chosen for each record, and the embeddings (N, dim)."""

    chosen: Chosen
    embeddings: NDArray[np.float32]


class VoiceSelection(NamedTuple):
    """How contexts are selected, and whether the embeddings are an output as well.

    Attributes:
        min_duration: minimum duration of a context in seconds.
        min_similarity: minimum cosine similarity to the context.
        saves_embeddings: whether the embeddings are kept in OUT.
    """

    min_duration: float
    min_similarity: float
    saves_embeddings: bool


class Bundle(EmbeddingWork[Embedded]):
    """The records of one unit: computes their embeddings and selects their contexts."""

    def __init__(
        self,
        numbers: Indices,
        records: Records,
        layout: ContextLayout,
        selection: VoiceSelection,
        encoder: SpeakerEncoder,
        max_samples: int,
        kept: KeptEmbeddings,
    ) -> None:
        """`numbers`: the unit's records, ascending. `max_samples`: maximum number of samples per batch.

        Records with a `kept` embedding are not decoded.
        """
        super().__init__(numbers, records, encoder, max_samples, kept.is_kept)
        self._selection = selection
        self._groups = layout.groups[numbers]
        start = records.index.offset[numbers]
        self._segments = Segments(layout.files[numbers], start, start + self.durations)
        self._kept = kept
        self.extra[REUSED] = float(kept.is_kept.sum())

    def known(self) -> NDArray[np.float32]:
        """An array for the embeddings (N, dim), which holds the kept embeddings; the others are NaN."""
        return self._kept.load(self._encoder.dim)

    def finish(self, advance: Advance) -> Embedded:
        """Reject the records without an embedding, and select the contexts of the other records."""
        embeddings = self.embedded()
        chosen = self._select(embeddings, self.is_readable())
        return Embedded(chosen, embeddings.cpu().numpy())

    def _select(self, embeddings: "Tensor", readable: NDArray[np.bool_]) -> Chosen:
        """Select the context of each record, the most similar record of the same voice that may be a context.

        Rows of the result are positions of records in the bundle.
        """
        import torch

        best = np.full(len(self.numbers), -1, np.int64)
        similarity = np.full(len(self.numbers), np.nan)
        candidate = readable & (self.durations >= self._selection.min_duration)
        by_group = np.argsort(self._groups, kind="stable")
        on_cpu = embeddings.cpu()
        for members in np.split(by_group, np.flatnonzero(np.diff(self._groups[by_group])) + 1):
            source = on_cpu if len(members) < MIN_GPU_ROWS else embeddings
            own = source[torch.from_numpy(members).to(source.device)]
            segments = self._segments.at(members)
            chosen = select_contexts(own, candidate[members], segments)
            if self._has_linked_copy(members, chosen, segments):
                segments = segments._replace(files=self._resolved(members))
                chosen = select_contexts(own, candidate[members], segments)
            best[members] = np.where(chosen.best >= 0, members[chosen.best], -1)
            similarity[members] = chosen.similarity
        return Chosen(best, similarity)

    def _has_linked_copy(self, members: Indices, chosen: Chosen, segments: Segments) -> bool:
        """Whether the context chosen for any row is the row's own segment, under another path of the same file.

        Such a path is, for example, a symbolic link. If false, the choice is final: candidates that were not chosen do
        not matter, so their paths are not resolved.
        """
        rows = np.flatnonzero(chosen.best >= 0)
        others = chosen.best[rows]
        doubtful = segments.are_near(rows, others) & (segments.files[rows] != segments.files[others])
        return any(
            self._real_path(members[row]) == self._real_path(members[other])
            for row, other in zip(rows[doubtful], others[doubtful], strict=True)
        )

    def _resolved(self, members: Indices) -> NDArray[np.uint64]:
        """A number for the file of each member, equal for all paths of the same file."""
        _, first, inverse = np.unique(self._segments.files[members], return_index=True, return_inverse=True)
        numbers: dict[str, int] = {}
        of_path = [numbers.setdefault(self._real_path(member), len(numbers)) for member in members[first]]
        return np.array(of_path, np.uint64)[inverse]

    def _real_path(self, member: np.int64) -> str:
        number = int(self.numbers[member])
        named = self._records.record(number).audio_filepath
        return real_path(self._records.audio_path(number, named))

    def write(self, computed: Embedded, writer: UnitWriter) -> None:
        """Write the lines of the unit's records, and an index of the lines; reject records without a context."""
        chosen = computed.chosen
        part = PartWriter(writer, *COLUMNS)
        lines = ContextLines(self._records)
        best: list[float] = []
        position_of = {number: position for position, number in enumerate(self.numbers.tolist())}

        def write(number: int) -> float:
            position = position_of[number]
            context = int(chosen.best[position])
            # Rounded as it is written, so that filtering by the written value gives the same result.
            similarity = round(float(chosen.similarity[position]), DIGITS)
            if context >= 0 and position not in self.rejects:
                best.append(similarity)
            rejected = self.rejects.get(position) or self._why_not(context, similarity)
            if rejected is not None:
                raise rejected
            line = lines.line(number, int(self.numbers[context]), similarity)
            part.add(number, line, similarity, float(self.durations[context]))
            return float(self.durations[position])

        each_record(self._records, position_of, write, writer)
        part.close()
        writer.open_part(BEST_NAME.format(writer.unit.id)).write(npy_bytes(np.array(best)))
        writer.extra.update(self.extra)
        readable = self.is_readable()
        self._kept.save(computed.embeddings, readable)
        if self._selection.saves_embeddings:
            self._save_embeddings(computed.embeddings, readable, writer)

    def _why_not(self, context: int, similarity: float) -> RecordRejected | None:
        selection = self._selection
        if context < 0:
            return RecordRejected(
                RejectReason.NO_LONG_CONTEXT,
                f"its group has no other readable utterance of {selection.min_duration:g} s or more",
            )
        if similarity < selection.min_similarity:
            return RecordRejected(
                RejectReason.NO_SIMILAR_CONTEXT,
                f"the most similar other utterance has {similarity:.6f}, less than {selection.min_similarity:g}",
            )
        return None

    def _save_embeddings(
        self, embeddings: NDArray[np.float32], readable: NDArray[np.bool_], writer: UnitWriter
    ) -> None:
        """Write the embeddings (N, dim) of the records that have one, and a manifest of these records."""
        name = writer.unit.id
        writer.open(EMBEDDINGS_NAME.format(name)).write(npy_bytes(embeddings[readable]))
        index = writer.open(EMBEDDINGS_INDEX_NAME.format(name))
        for number in self.numbers[readable].tolist():
            entry = self._records.record(number)
            changes = self._records.merged_changes(number, entry)
            others = [field for field in entry.fields if field not in _INDEX_FIELDS]
            index.write(entry.to_json(changes, others) + b"\n")
