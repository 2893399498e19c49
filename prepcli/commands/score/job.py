"""score: measures the audio and the text of records, and writes the records with the results."""

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from prepcli.audio.probe import Probes
from prepcli.audio.segments import SCORE, locate, with_channel
from prepcli.commands.score.audio import audio_measures
from prepcli.commands.score.options import Score
from prepcli.commands.score.text import language_of, text_measures
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import run_job
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import FileWorkspace, Workspace, real_file
from prepcli.errors import UsageError
from prepcli.formats.names import absolute_folder
from prepcli.gate import rate_changes
from prepcli.jobs.inputs.named import NAMES_NOTE, manifests_of
from prepcli.jobs.line_job import LINES_NAME
from prepcli.jobs.record_job import RecordContents, RecordJob, RecordUnit, RecordWriter, units_of
from prepcli.jobs.records import Records, base_directories
from prepcli.manifest.output_name import check_manifest_name
from prepcli.manifest.record import Record, Value
from prepcli.models.silero import model_file
from prepcli.planning.split import by_seconds
from prepcli.storage.containers import Catalogue

_UNIT_SECONDS, _UNIT_RECORDS = 3600.0, 250
"""Size of a unit in seconds of audio, and in records of mean duration; the smaller size counts.

Measuring a unit takes a few seconds."""
_PACKAGES = {
    "basic": ("scipy", "pyloudnorm"),
    "bandwidth_sdp": ("scipy",),
    "speech": ("onnxruntime", "silero_vad"),
    "text": ("py3langid",),
}

ScorePlan = Plan[RecordUnit, RecordContents]


class ScoreJob(RecordJob[RecordUnit, RecordContents]):
    """Writes one manifest. A unit is a range of records in the order of the input."""

    command: ClassVar[str] = "score"

    def __init__(self, manifests: Sequence[str], options: Score, num_workers: int) -> None:
        """`manifests` are the files or containers that `options.manifest` names.

        Raises:
            UsageError: an option is wrong, or a package is missing.
        """
        check_manifest_name(options.out, self.command)
        self.groups = options.groups()
        self.policy = with_channel(SCORE, options.channel)
        self.reads_audio_files = self.groups != ["text"]
        self.manifests, self.options, self.num_workers = manifests, options, num_workers
        folders = set(base_directories(manifests, options.audio_base_dir))
        self.paths_stay = folders == {absolute_folder(str(options.out.parent))}
        _check_packages(self.groups)

    def plan(self, workspace: Workspace) -> ScorePlan:
        """Index the manifests, and cut the records into units with about the same seconds of audio."""
        records = self.read(workspace)
        duration, units = records.index.duration, []
        if len(records):
            of_records = _UNIT_RECORDS * float(duration.mean())
            bounds = by_seconds(duration, min(_UNIT_SECONDS, of_records))
            seconds = np.add.reduceat(duration, bounds[:-1])
            units = units_of("records", bounds.tolist(), seconds.tolist(), make=RecordUnit)
        return records.plan(units, RecordContents(records))

    def own_settings(self) -> dict[str, Any]:
        """The options, the audio folders, and whether the paths of the output are absolute."""
        paths = {} if self.paths_stay else {"paths": "absolute"}
        return super().own_settings() | {"--fields": ",".join(self.groups)} | paths

    def open_unit(self, contents: RecordContents, unit: RecordUnit, writer: UnitWriter) -> "_Scored":
        """Return the object that measures the records of a unit."""
        return _Scored(contents.records, writer, self)

    def finish(self, plan: ScorePlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the lines of the units; returns the path of the manifest."""
        writer.join(self.options.out.name, (LINES_NAME.format(marker.unit) for marker in markers))
        sources = plan.contents.records.index.sources
        note = {"containers": NAMES_NOTE} if any(isinstance(one.path, Catalogue) for one in sources) else {}
        return {"manifest": self.options.out, **note}


def _check_packages(groups: Sequence[str]) -> None:
    for group in groups:
        for name in _PACKAGES[group]:
            if importlib.util.find_spec(name) is None:
                raise UsageError(f"the fields of {group} need {name}: pip install 'prepcli[score]'")
    if "speech" in groups:
        model_file()


class _Scored(RecordWriter):
    """Measures the records of a unit, and writes their lines."""

    def __init__(self, records: Records, writer: UnitWriter, job: ScoreJob) -> None:
        self._records, self._writer, self._job = records, writer, job
        self._probes = Probes(1)
        self._lines: list[bytes] = []

    def add(self, number: int, record: Record) -> float:
        """Measure a record; returns its seconds of audio."""
        groups = self._job.groups
        changes: dict[str, Value] = {}
        seconds = record.duration
        if self._job.reads_audio_files:
            path = self._records.audio_path(number, record.audio_filepath)
            place = record.offset, record.duration, record.get("channel")
            segment = locate(path, self._probes(path), *place, self._job.policy, path)
            changes, seconds = audio_measures(segment, groups), segment.duration
            changes |= rate_changes(record.fields, segment.info.sampling_rate)
        text = record.text("text")
        if "basic" in groups:
            changes |= text_measures(text, record.duration)
        if "text" in groups:
            changes |= language_of(text)
        if not self._job.paths_stay:
            changes |= self._records.absolute_paths(number, record)
        self._lines.append(record.to_json(changes))
        return seconds

    def close(self) -> None:
        """Write the lines."""
        part = self._writer.open_part(LINES_NAME.format(self._writer.unit.id))
        if self._lines:
            part.write(b"\n".join(self._lines) + b"\n")


def score(options: Score) -> Report:
    """Measure the audio and the text of records.

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest with the fields.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or a package that is missing.

    Examples:
        >>> import prepcli
        >>> report = prepcli.score("manifest.json", "scored.json")
        >>> report.records_out
        48
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    job = ScoreJob(manifests_of(options.manifest, options), options, engine.num_workers)
    return run_job(job, FileWorkspace(options.out), engine)
