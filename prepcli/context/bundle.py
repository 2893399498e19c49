"""One bundle of voices: embed its utterances batch by batch, select each one's context, write the lines."""

import os
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prepcli.context.context_entry import DIGITS, ContextLines
from prepcli.context.context_merge import PartWriter
from prepcli.context.copies import Segments
from prepcli.context.options import ContextOptions
from prepcli.context.plan import ContextLayout
from prepcli.context.selection import Chosen, select_contexts
from prepcli.engine.job import Advance
from prepcli.engine.publish import UnitWriter
from prepcli.engine.split import Indices
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.npy import npy_bytes
from prepcli.manifest.record import Record
from prepcli.models.batches import equal_length_batches
from prepcli.models.devices import to_device
from prepcli.models.feed import Batch, Decoded
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.running import ModelRunner, Running
from prepcli.records import Records

if TYPE_CHECKING:
    from torch import Tensor

LINES_NAME, INDEX_NAME = "parts/{}.jsonl", "parts/{}.npy"
EMBEDDINGS_NAME, EMBEDDINGS_INDEX_NAME = "embeddings/{}.npy", "embeddings/{}.jsonl"

COMPUTED, PADDED, BATCHES, WAITED = "computed_seconds", "padded_seconds", "batches", "waited_seconds"
"""What a unit counts: audio given to the model with its padding, the padding, batches, time without audio to embed."""

_GPU_ROWS = 1000
"""A voice of fewer utterances is compared on the processor: starting work on a GPU would take longer."""
_INDEX_FIELDS = ("audio_filepath", "offset", "duration", "speaker")


class Bundle:
    """The records of one unit, and what is known of them so far."""

    def __init__(self, numbers: Indices, records: Records, layout: ContextLayout, options: ContextOptions) -> None:
        """`numbers` are the unit's records, ascending."""
        self.numbers = numbers
        self._records = records
        self._options = options
        self._durations = records.index.duration[numbers]
        self._groups = layout.groups[numbers]
        start = records.index.offset[numbers]
        self._segments = Segments(layout.files[numbers], start, start + self._durations)
        self._batches: list[Indices] = []
        self._rejects: dict[int, RecordRejected] = {}

    def batches(self, encoder: SpeakerEncoder, most_samples: int) -> Iterator[Batch[int]]:
        """What must be decoded, in the order in which `embed` takes it."""
        num_samples = np.rint(self._durations * encoder.sampling_rate).astype(np.int64)
        places = encoder.places(np.maximum(num_samples, encoder.min_samples))
        self._batches = equal_length_batches(places, most_samples)
        for batch in self._batches:
            yield Batch(tuple(self.numbers[batch].tolist()), int(places[batch[0]]))

    def embed(
        self, encoder: SpeakerEncoder, feed: Iterator[Decoded], device: str, writer: UnitWriter, advance: Advance
    ) -> "Tensor":
        """Embeddings (N, dim) of the records, on `device`; those without one are noted as rejects, and hold NaN."""
        import torch

        embeddings = torch.full((len(self.numbers), encoder.dim), torch.nan, device=device)
        under_way: deque[tuple[Indices, Running | None]] = deque()

        def model(audio: "Tensor", lengths: "Tensor") -> "Tensor":
            return encoder.embed(to_device(audio, device), to_device(lengths, device))

        def take() -> None:
            batch, embedded = under_way.popleft()
            if embedded is not None:
                found = embedded.result()
                self._reject_too_large(batch[found.too_large].tolist(), device)
                if found.tensors:
                    fitting = torch.from_numpy(batch[found.fitting(len(batch))])
                    embeddings[to_device(fitting, device)] = found.tensors[0]
            advance(len(batch), float(self._durations[batch].sum()))

        with ModelRunner(device, encoder.rows_on_cpu) as runner:
            for batch in self._batches:
                started = time.monotonic()
                decoded = next(feed)
                writer.extra[WAITED] += time.monotonic() - started  # type: ignore[assignment]
                audio = torch.from_numpy(decoded.audio)
                lengths = torch.from_numpy(np.maximum(decoded.lengths, encoder.min_samples))
                under_way.append((batch, runner.run(model, audio, lengths) if decoded.audio.size else None))
                self._rejects |= {int(batch[row]): rejected for row, rejected in decoded.rejects.items()}
                computed = decoded.audio.size / encoder.sampling_rate
                padded = computed - float(decoded.lengths.sum()) / encoder.sampling_rate
                writer.extra.update({COMPUTED: computed, PADDED: padded, BATCHES: 1})
                if len(under_way) > runner.depth:
                    take()
            while under_way:
                take()
        without = (~torch.isfinite(embeddings).all(1)).cpu().numpy()
        for position in np.flatnonzero(without).tolist():
            detail = "the speaker model has no embedding for it: is it silent?"
            self._rejects.setdefault(position, RecordRejected(RejectReason.UNREADABLE_AUDIO, detail))
        return embeddings

    def _reject_too_large(self, positions: list[int], device: str) -> None:
        for position in positions:
            entry = Record.parse(self._records.line(int(self.numbers[position])))
            detail = (
                f"the speaker model has not enough memory on {device} for the {entry.duration:g} s of "
                f"{entry.audio_filepath}, even alone (no --batch-duration helps); take a device with more memory"
            )
            self._rejects.setdefault(position, RecordRejected(RejectReason.OUT_OF_MEMORY, detail))

    @property
    def is_readable(self) -> NDArray[np.bool_]:
        """Which records have an embedding."""
        readable = np.ones(len(self.numbers), bool)
        readable[list(self._rejects)] = False
        return readable

    def select(self, embeddings: "Tensor") -> Chosen:
        """For each record its context, as a position in the bundle, voice by voice."""
        import torch

        best = np.full(len(self.numbers), -1, np.int64)
        similarity = np.full(len(self.numbers), np.nan)
        candidate = self.is_readable & (self._durations >= self._options.context_min_duration)
        by_group = np.argsort(self._groups, kind="stable")
        on_cpu = embeddings.cpu()
        for members in np.split(by_group, np.flatnonzero(np.diff(self._groups[by_group])) + 1):
            source = on_cpu if len(members) < _GPU_ROWS else embeddings
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
        """Whether a chosen context is the row's own piece, in a file that is named in another way.

        Only then are all files of the voice looked up: hiding more of the others changes no other choice.
        """
        rows = np.flatnonzero(chosen.best >= 0)
        others = chosen.best[rows]
        doubtful = segments.are_near(rows, others) & (segments.files[rows] != segments.files[others])
        return any(
            self._real_path(members[row]) == self._real_path(members[other])
            for row, other in zip(rows[doubtful], others[doubtful], strict=True)
        )

    def _resolved(self, members: Indices) -> NDArray[np.uint64]:
        """A number for each member's file, equal for all paths that lead to it."""
        _, first, inverse = np.unique(self._segments.files[members], return_index=True, return_inverse=True)
        numbers: dict[str, int] = {}
        of_path = [numbers.setdefault(self._real_path(member), len(numbers)) for member in members[first]]
        return np.array(of_path, np.uint64)[inverse]

    def _real_path(self, member: np.int64) -> str:
        number = int(self.numbers[member])
        named = Record.parse(self._records.line(number)).audio_filepath
        return os.path.realpath(self._records.audio_path(number, named))

    def write(self, chosen: Chosen, writer: UnitWriter) -> None:
        """Write the part's lines and its index; reject what has no context."""
        part = PartWriter(writer.open_part(LINES_NAME.format(writer.unit.id)))
        lines = ContextLines(self._records)
        for position, number in enumerate(self.numbers.tolist()):
            context = int(chosen.best[position])
            # As it is written, so that a filter on the written value says the same.
            similarity = round(float(chosen.similarity[position]), DIGITS)
            rejected = self._rejects.get(position) or self._why_not(context, similarity)
            if rejected is not None:
                writer.reject(self._records.reject_source(number), rejected, self._records.origin(number))
                continue
            line = lines.line(number, int(self.numbers[context]), similarity)
            part.add(number, line, similarity, float(self._durations[context]))
            writer.count(1, float(self._durations[position]))
        writer.open_part(INDEX_NAME.format(writer.unit.id)).write(part.index())

    def _why_not(self, context: int, similarity: float) -> RecordRejected | None:
        options = self._options
        if context < 0:
            return RecordRejected(
                RejectReason.NO_LONG_CONTEXT,
                f"its group has no other readable utterance of {options.context_min_duration:g} s or more",
            )
        if similarity < options.context_min_ssim:
            return RecordRejected(
                RejectReason.NO_SIMILAR_CONTEXT,
                f"the most similar other utterance has {similarity:.6f}, less than {options.context_min_ssim:g}",
            )
        return None

    def save_embeddings(self, embeddings: "Tensor", writer: UnitWriter) -> None:
        """Write the embeddings (N, dim) of the records that have one, and a manifest of these records."""
        readable = self.is_readable
        name = writer.unit.id
        writer.open(EMBEDDINGS_NAME.format(name)).write(npy_bytes(embeddings.cpu().numpy()[readable]))
        index = writer.open(EMBEDDINGS_INDEX_NAME.format(name))
        for number in self.numbers[readable].tolist():
            entry = Record.parse(self._records.line(number))
            changes = self._records.merged_changes(number, entry)
            others = [field for field in entry.fields if field not in _INDEX_FIELDS]
            index.write(entry.to_json(changes, others) + b"\n")
