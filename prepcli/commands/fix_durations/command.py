"""fix-durations: measures the audio of each record, and corrects its duration."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from prepcli.engine.run.options import JobArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.shared_options import AudioFolder, ManifestsOnly, OutFile

if TYPE_CHECKING:
    from prepcli.commands.fix_durations.durations import DurationLines
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.manifest.line_slices import LineSlice

_CHANGED, _WITHOUT = "changed", "without"
_DIFFERENCES_NAME = "parts/{}.f64"


@command("fix-durations")
def fix_durations(
    manifest: ManifestsOnly, out: OutFile, *, audio_base_dir: AudioFolder = None, **more: Unpack[JobArguments]
) -> "Report":
    """Measure the durations of a manifest again, and change nothing else.

    Every other field keeps its text byte for byte, and a record whose duration is right keeps its whole line. A record
    with an offset is a segment: its duration changes only if it is missing, or reaches beyond the end of the file. The
    summary says how many durations differed by more than 20 ms, and by how much. Audio that cannot be read is a reject.

    Run the same command again to continue after an interruption.

    Example: prepcli fix-durations old.json fixed.json --audio-base-dir audio/

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest, `details["more_than_20_ms"]` the number of
        durations that were wrong by more than 20 ms.

    Raises:
        UsageError: options that do not go together, or a manifest that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.fix_durations("manifest.json", "fixed.json")
        >>> report.records_out, report.details["more_than_20_ms"]
        (48, 0)
    """
    import os

    import numpy as np

    from prepcli.audio.limits import SAME_SECONDS
    from prepcli.audio.probe import Probes
    from prepcli.commands.fix_durations.durations import corrected, missing_sample, read_lines
    from prepcli.engine.publishing.publish import totals
    from prepcli.engine.run.function import OutputFile, run
    from prepcli.engine.state.plan import Plan
    from prepcli.interface.calls import current_call
    from prepcli.jobs.line_job import LINES_NAME, write_from_lines
    from prepcli.jobs.records import base_directories, settings_over
    from prepcli.manifest.output_name import check_manifest_name
    from prepcli.manifest.sources import expand_paths

    output = OutputFile(out)
    manifests = expand_paths(str(manifest))
    check_manifest_name(output.path, "fix-durations")
    base_dirs = base_directories(manifests, audio_base_dir)

    def plan(workspace: "Workspace") -> "Plan[LineSlice, DurationLines]":
        if len(set(base_dirs)) > 1:
            raise UsageError(
                "the manifests are in several folders, and relative paths of one manifest must start from one folder: "
                f"give {option('--audio-base-dir')}, or fix them one by one"
            )
        lines = read_lines(manifests, base_dirs[0], workspace)
        slices = lines.slices
        return Plan(
            slices.units,
            slices.num_records,
            lines,
            slices.inputs,
            knows_seconds=False,
            missing_sample=lambda: missing_sample(lines),
        )

    def correct(lines: "DurationLines", unit: "LineSlice", writer: "UnitWriter") -> None:
        probe, differences = Probes(1), list[float]()

        def make(line: bytes) -> tuple[bytes, float]:
            new, before, duration = corrected(line, lines, probe)
            if before is None:
                writer.extra[_WITHOUT] += 1
            elif abs(before - duration) > SAME_SECONDS:
                differences.append(abs(before - duration))
            writer.extra[_CHANGED] += before != duration
            return new, duration

        write_from_lines(lines.slices, unit, writer, make)
        writer.open_part(_DIFFERENCES_NAME.format(unit.id)).write(np.array(differences, "<f8").tobytes())

    def join(
        made: "Plan[LineSlice, DurationLines]", markers: "Sequence[Marker]", writer: "UnitWriter"
    ) -> dict[str, Any]:
        writer.join(output.name, (LINES_NAME.format(marker.unit) for marker in markers))
        parts = (np.fromfile(writer.part(_DIFFERENCES_NAME.format(marker.unit)), "<f8") for marker in markers)
        differences = np.concatenate([np.empty(0), *parts])
        details: dict[str, Any] = {"manifest": output.path}
        if os.path.realpath(base_dirs[0]) != os.path.realpath(output.path.parent):
            details["audio_base_dir"] = base_dirs[0]
        counts = totals(markers)
        details |= {"changed": int(counts[_CHANGED]), "more_than_20_ms": len(differences)}
        if counts[_WITHOUT]:
            details["without_duration"] = int(counts[_WITHOUT])
        if len(differences):
            median, most = float(np.median(differences)), float(differences.max())
            details["off_by"] = f"median {median:.3f} s, maximum {most:.3f} s"
        return details

    return run(output, plan, correct, join, settings=settings_over(manifests, audio_base_dir, current_call().options))
