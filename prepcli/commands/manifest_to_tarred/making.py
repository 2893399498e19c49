"""Makes a tarred set, or adds shards to one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from prepcli.audio.channels import SEVERAL_CHANNELS, channels_note
from prepcli.commands.manifest_to_tarred.merge import bucketing, merge_set
from prepcli.commands.manifest_to_tarred.options import TarForm
from prepcli.commands.manifest_to_tarred.planning import TarredContents, TarredPlan, TarShard, plan_set, settings_of_set
from prepcli.commands.manifest_to_tarred.sections import uneven_after_rejects, write_sections
from prepcli.commands.manifest_to_tarred.shards import NO_TEXT, write_shard
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.run.function import Output, run
from prepcli.engine.run.report import Report
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import option
from prepcli.formats.indexes import indexes_of
from prepcli.formats.tarred import MARKS_FILE, OUTPUT_PATTERNS, ExistingSet, names_of_version
from prepcli.interface.printing import number_of
from prepcli.jobs.row_names import BY_ID
from prepcli.jobs.source import RecordSource
from prepcli.planning.arrays import Growing
from prepcli.storage.paths import NUMBER, path_of


def make_set(output: Output, source: RecordSource, form: TarForm, base: ExistingSet | None = None) -> Report:
    """Turn the manifests into a tarred set; with `base`, add shards to an existing set. A unit is a shard.

    `form`: the options, decided and checked.
    """
    output.patterns = [*OUTPUT_PATTERNS, *(f"bucket{NUMBER}/{pattern}" for pattern in OUTPUT_PATTERNS)]

    def plan(workspace: Workspace) -> TarredPlan:
        made = plan_set(source, workspace, form, base, output.engine.num_workers)
        if base is not None:  # only its new shards and version
            output.patterns = names_of_version(base.version + 1, base.num_shards, len(made.units))
        return made

    def settings(made: TarredPlan) -> dict[str, Any]:
        return settings_of_set(source, form, base) | (BY_ID if made.contents.by_id else {})

    def write(contents: TarredContents, unit: TarShard, writer: UnitWriter) -> None:
        write_shard(contents, unit, writer, form)

    def finish(made: TarredPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        created = max(path_of(path).stat().st_mtime for path in source.manifests)
        details: dict[str, Any] = {}
        bins: dict[str, Any] = {}
        durations = Growing(writer.folder, np.float64)
        units: dict[int, list[str]] = {}
        for unit in made.units:
            units.setdefault(unit.set_number, []).append(unit.id)
        for number, tar_set in enumerate(made.contents.layout.sets):
            paths, bins = merge_set(writer, tar_set, units.get(number, ()), form, base, created, durations)
            details |= paths
        if form["buckets_num"] > 1:  # the Lhotse loader mixes the buckets, and makes buckets from the bins
            bins = bucketing(durations, form)
        if details:
            details |= uneven_after_rejects(made.contents.layout, base, markers)
            if not form["only_manifests"]:  # no loader can read a set without tars
                details["train_ds"] = write_sections(
                    writer, "manifest-to-tarred", made.contents.layout, base, markers, details, bins
                )
        if num_without := totals(markers)[NO_TEXT]:
            details[NO_TEXT] = (
                f"{number_of(num_without, 'record')}; a model that learns to write text needs one for each"
            )
        if (output.workspace.main_root / MARKS_FILE).is_file():
            details["marks"] = "shards that were made now have no marks of filter --skipme: run that again"
        return details | channels_note(totals(markers)[SEVERAL_CHANNELS], "files")

    return run(
        output,
        plan,
        write,
        finish,
        settings=settings,
        reads_audio_files=not form["only_manifests"],
        made_of=indexes_of,
        adding="" if base is not None else f"To add records to it, give {option('--concat-to')} instead. ",
    )
