"""extend-context-audio: for each record, the most similar other utterance of its voice becomes its context audio."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prepcli.commands.extend_context_audio.bundle import BEST_NAME, REUSED, Bundle, VoiceSelection
from prepcli.commands.extend_context_audio.bundle_lines import histogram_of_all, histograms, kept_at
from prepcli.commands.extend_context_audio.kept import (
    EmbeddingStore,
    KeptEmbeddings,
    NothingToEmbedEncoder,
    keys_of,
)
from prepcli.commands.extend_context_audio.plan import ContextLayout, plan_bundles
from prepcli.commands.extend_context_audio.voices import group_key
from prepcli.engine.publishing.plots import save_figure
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.ranks.progress import format_seconds
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import InputChangedError, option, same_command
from prepcli.formats.names import normal_path
from prepcli.interface.plotting import new_figure
from prepcli.interface.printing import number_of
from prepcli.jobs.embedding import BATCHES, COMPUTED, PADDED, SpeakerOnDevice
from prepcli.jobs.merging import index_of, write_merged
from prepcli.jobs.model_job import WAITED, WALL, Begin, Tick
from prepcli.jobs.prefetch import DecodingPool
from prepcli.jobs.record_job import RecordContents, RecordUnit, units_of
from prepcli.jobs.source import RecordSource
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.speakers import notes_on_speakers
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.speakers import notes_on_speaker_model
from prepcli.planning.arrays import Scratch, Values, values_of

BATCH_SECONDS = {"cpu": 120.0, "cuda": 600.0}
"""Maximum seconds of audio in a batch, by kind of device. A GPU gets larger batches: for 120 s of audio, launching its
kernels takes as long as running them."""


TELEMETRY = ("hours_embedded", "real_time_factor", "padding", "mean_batch_seconds", "waited_for_audio")
"""The facts of a report that are figures about the run."""


@dataclass(frozen=True, slots=True)
class ContextContents(RecordContents):
    """The records, and their division into bundles of voices."""

    layout: ContextLayout


ContextPlan = Plan[RecordUnit, ContextContents]


class ContextsOnDevice(SpeakerOnDevice[ContextContents]):
    """A speaker model on a device, and the embeddings that are kept of it."""

    results_to_host = False

    def __init__(
        self,
        device: str,
        speaker_model: str,
        known_as: str,
        selection: VoiceSelection,
        batch_duration: float | None = None,
        reused: Path | None = None,
    ) -> None:
        """The arguments are as in the command; `known_as`: the identity of the model; `reused`: `reuse_embeddings`."""
        super().__init__(device, speaker_model, batch_duration or BATCH_SECONDS[device.partition(":")[0]])
        self._known_as, self._selection, self._reused = known_as, selection, reused
        self._store: EmbeddingStore
        self._root: Path

    def planned(self, plan: ContextPlan, workspace: Workspace) -> None:
        """Find the kept embeddings; raises `UsageError` if those that the user has named cannot be used."""
        bases = plan.contents.records.base_dirs
        self._store = EmbeddingStore(self._known_as, self.device, bases, self._reused)
        self._root = workspace.root

    def load(self, plan: ContextPlan) -> SpeakerEncoder:
        """Load the speaker model; if the embeddings of all records are kept, return a `NothingToEmbedEncoder`."""
        if all(self._kept(plan.contents, unit).is_kept.all() for unit in plan.units):
            return NothingToEmbedEncoder()
        return super().load(plan)

    def _kept(self, contents: ContextContents, unit: RecordUnit) -> KeptEmbeddings:
        layout = contents.layout
        keys = keys_of(contents.records, layout.order[unit.lo : unit.hi], layout.files)
        return self._store.find(self._root, unit.id, keys)

    def read_ahead(self, contents: ContextContents, unit: RecordUnit, workers: DecodingPool[int]) -> Begin:
        """Return the function that begins the unit; nothing is read ahead."""

        def begin(tick: Tick) -> Bundle:
            numbers, kept = contents.layout.order[unit.lo : unit.hi], self._kept(contents, unit)
            if isinstance(self.model, NothingToEmbedEncoder) and not kept.is_kept.all():
                raise InputChangedError(f"audio was changed during the run; run {same_command()} again")
            return Bundle(
                numbers, contents.records, contents.layout, self._selection, self.model, self.max_batch_samples, kept
            )

        return begin


def plan_contexts(source: RecordSource, workspace: Workspace, group_by: str, speaker_model: str) -> ContextPlan:
    """Index the manifests and pack their voices into bundles, the units.

    Raises:
        UsageError: `group_by` is invalid, or the records cannot be read.
    """
    keys: dict[str, KeyFunction] = {"path": normal_path, "group": group_key(group_by)}
    records = source.read(workspace, keys)

    def make(scratch: Scratch) -> Values:
        return values_of(plan_bundles(records.index, source.audio_base_dir, scratch))

    layout = ContextLayout(**source.layout(records, make))
    units = units_of("bundle", layout.bounds.tolist(), layout.seconds.tolist(), make=RecordUnit)
    note = (
        f"{number_of(layout.num_groups, 'voice')} with two utterances or more ({option('--group-by', group_by)}), the "
        f"one with most audio {format_seconds(layout.largest_group)}"
    )
    contents = ContextContents(records, layout, order=layout.order, left_out=layout.left_out)
    notes = [note, *notes_on_speaker_model(speaker_model)]
    notes += notes_on_speakers(record for _, record in records.sample())
    return records.plan(units, contents, layout.left_out, notes)


def join_contexts(
    file_name: str, plan: ContextPlan, markers: Sequence[Marker], writer: UnitWriter, min_similarity: float
) -> dict[str, Any]:
    """Merge the units' lines in the order of the input; returns the path of the manifest, and statistics."""
    out = writer.workspace.out
    write_merged(file_name, markers, writer)
    counts = totals(markers)
    wall = counts[WALL]
    embedded = counts[COMPUTED] - counts[PADDED]
    best = [writer.part(BEST_NAME.format(marker.unit)) for marker in markers]
    return {
        "manifest": out / file_name,
        **plan.contents.records.merged_details(out),
        "kept_by_min_ssim": kept_at(best, min_similarity),
        "embeddings_reused": f"{counts[REUSED]:,.0f} of {sum(unit.num_records for unit in plan.units):,}",
        "hours_embedded": round(embedded / 3600, 4),
        "real_time_factor": round(embedded / wall, 1) if wall else 0.0,
        "padding": round(counts[PADDED] / max(counts[COMPUTED], 1e-9), 4),
        "mean_batch_seconds": round(counts[COMPUTED] / max(counts[BATCHES], 1), 1),
        "waited_for_audio": round(counts[WAITED] / wall, 3) if wall else 0.0,
        **histograms(index_of(marker, writer) for marker in markers),
        "similarity_histogram_of_all": histogram_of_all(best),
    }


def plot_contexts(report: Report, path: Path, selection: VoiceSelection) -> None:
    """Draw the histograms in the report of a finished run, and add the plot to the report.

    The suffix selects the format. Raises `UsageError` without matplotlib, or if the file cannot be written.
    """
    figure = new_figure()
    details = report.details
    kept = details["similarity_histogram"]
    every = details.get("similarity_histogram_of_all", kept)  # missing in runs of earlier versions
    durations = details["duration_histogram"]
    similarity, duration = (figure.add_subplot(1, 2, number) for number in (1, 2))
    similarity.stairs(every["counts"], every["edges"], fill=True, color="tab:gray", label="left out")
    similarity.stairs(kept["counts"], kept["edges"], fill=True, color="tab:blue", label="kept")
    duration.stairs(durations["counts"], durations["edges"], fill=True, color="tab:blue")
    for axes, limit, label, flag in (
        (similarity, selection.min_similarity, "cosine similarity to the best other utterance", "--context-min-ssim"),
        (duration, selection.min_duration, "duration of the context (s)", "--context-min-duration"),
    ):
        axes.axvline(limit, color="tab:red", label=f"{flag} {limit:g}")
        axes.set_xlabel(label)
        axes.set_ylabel("records")
        axes.legend(loc="upper left" if axes is similarity else "upper right")
    save_figure(figure, path)
    report.details["plot"] = report.outputs["plot"] = os.path.abspath(path)
