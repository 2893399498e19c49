"""extend-context-audio: for each record, the most similar other utterance of its voice becomes its context audio."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

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
from prepcli.interface.calls import current_call
from prepcli.interface.options import shown_defaults
from prepcli.interface.plotting import new_figure
from prepcli.jobs.embedding import BATCHES, COMPUTED, PADDED, SpeakerJob
from prepcli.jobs.merging import index_of, write_merged
from prepcli.jobs.model_job import WAITED, WALL, Begin, Tick
from prepcli.jobs.prefetch import DecodingPool
from prepcli.jobs.record_job import RecordContents, RecordUnit, units_of
from prepcli.jobs.records import extended_name
from prepcli.jobs.source import RecordSource
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.speakers import notes_on_speakers
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.speakers import notes_on_speaker_model
from prepcli.planning.arrays import Scratch, Values, values_of

BATCH_SECONDS = {"cpu": 120.0, "cuda": 600.0}
"""Maximum seconds of audio in a batch, by kind of device. A GPU gets larger batches: for 120 s of audio, launching its
kernels takes as long as running them."""


@dataclass(frozen=True, slots=True)
class ContextContents(RecordContents):
    """The records, their division into bundles of voices, and the store of kept embeddings."""

    layout: ContextLayout
    store: EmbeddingStore
    root: Path
    """The workspace, which contains the store of embeddings."""


ContextPlan = Plan[RecordUnit, ContextContents]


class ContextJob(SpeakerJob[ContextContents]):
    """Writes one manifest of the records of all manifests, with contexts. A unit is a bundle of whole voices."""

    command: ClassVar[str] = "extend-context-audio"
    telemetry = ("hours_embedded", "real_time_factor", "padding", "mean_batch_seconds", "waited_for_audio")
    results_to_host = False

    def __init__(
        self,
        source: RecordSource,
        speaker_model: str,
        group_by: str,
        selection: VoiceSelection,
        *,
        batch_duration: float | None = None,
        reuse_embeddings: Path | None = None,
        device: str = "cpu",
        num_workers: int = 1,
    ) -> None:
        """The arguments are as in the command.

        Raises:
            UsageError: `group_by` is invalid, there is no such model, or the name of the output is too long.
        """
        group_key(group_by)
        super().__init__(source.manifests, current_call().options, speaker_model, device, num_workers)
        self.defaults = shown_defaults(type(self.options))
        self._group_by, self._selection, self._reused = group_by, selection, reuse_embeddings
        self.batch_duration = batch_duration or BATCH_SECONDS["cpu" if device == "cpu" else "cuda"]
        self.kept_by_overwrite = (
            "embeddings of the same model and audio are used again; in another directory with "
            f"{option('--reuse-embeddings')} OUT"
        )
        suffix = f"_withContextAudioMinDur{selection.min_duration}MinSSIM{selection.min_similarity}.json"
        self._file_name = extended_name(source.manifests, suffix)
        self._planned: ContextPlan | None = None

    @property
    def file_name(self) -> str:
        """The name of the extended manifest."""
        return self._file_name

    def plan(self, workspace: Workspace) -> ContextPlan:
        """Index the manifests and pack their voices into bundles."""
        keys: dict[str, KeyFunction] = {"path": normal_path, "group": group_key(self._group_by)}
        records = self.read(workspace, keys)

        def make(scratch: Scratch) -> Values:
            return values_of(plan_bundles(records.index, self.audio_base_dir, scratch))

        layout = ContextLayout(**self.layout(records, make))
        units = units_of("bundle", layout.bounds.tolist(), layout.seconds.tolist(), make=RecordUnit)
        note = (
            f"{layout.num_groups:,} voices with two utterances or more "
            f"({option('--group-by', self._group_by)}), the one with most audio "
            f"{format_seconds(layout.largest_group)}"
        )
        store = EmbeddingStore(self.model_identity, self.device, records.base_dirs, self._reused)
        contents = ContextContents(records, layout, store, workspace.root, order=layout.order, left_out=layout.left_out)
        notes = [note, *notes_on_speaker_model(self.speaker_model)]
        notes += notes_on_speakers(record for _, record in records.sample())
        self._planned = records.plan(units, contents, layout.left_out, notes)
        return self._planned

    def load_model(self) -> SpeakerEncoder:
        """Load the speaker model; if the embeddings of all records are kept, return a `NothingToEmbedEncoder`."""
        plan = self._planned
        if plan is not None and all(self._kept(plan.contents, unit).is_kept.all() for unit in plan.units):
            return NothingToEmbedEncoder()
        return super().load_model()

    def _kept(self, contents: ContextContents, unit: RecordUnit) -> KeptEmbeddings:
        records, layout = contents.records, contents.layout
        keys = keys_of(records, layout.order[unit.lo : unit.hi], layout.files)
        return contents.store.find(contents.root, unit.id, keys)

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

    def finish(self, plan: ContextPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Merge the units' lines in the order of the input; returns the path of the manifest, and statistics."""
        out = writer.workspace.out
        write_merged(self.file_name, markers, writer)
        counts = totals(markers)
        wall = counts[WALL]
        embedded = counts[COMPUTED] - counts[PADDED]
        best = [writer.part(BEST_NAME.format(marker.unit)) for marker in markers]
        return {
            "manifest": out / self.file_name,
            **plan.contents.records.merged_details(out),
            "kept_by_min_ssim": kept_at(best, self._selection.min_similarity),
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
