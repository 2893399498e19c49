"""download: convert the utterances of an unpacked corpus to audio and NeMo manifests."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.probe import probe
from prepcli.audio.segments import TargetFormat, convert, whole
from prepcli.commands.download.data_set import CorpusPart, Utterance, workspace_of
from prepcli.commands.download.fetch import read_checksums
from prepcli.commands.download.index import LineIndex, LineRange
from prepcli.commands.download.prepare import (
    FetchOptions,
    check_given,
    ensure_index,
    ensure_unpacked,
    is_ready,
    note_scarce_space,
    plan_fetching,
    was_repaired,
)
from prepcli.commands.download.report import DownloadReport
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.run.job import RunOptions, UnitJob
from prepcli.engine.run.options import run_options
from prepcli.engine.run.report import Report, too_many
from prepcli.engine.run.run import dry_run_report, run_job, with_continuation
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, RecordRejected, TooManyRejectsError, UsageError, option, same_command
from prepcli.interface.calls import current_call
from prepcli.jobs.line_job import LINES_NAME, write_lines
from prepcli.processes.signals import stop_on_signals

CorpusPlan = Plan[LineRange, LineIndex]


class CorpusJob(UnitJob[LineRange, LineIndex]):
    """Makes manifests of a data set, and converts its audio if required. A unit is a batch of utterances.

    Paths in manifests are relative to the manifest's folder, as NeMo, lhotse's reader of NeMo manifests and prepcli
    expect, so the data root can be moved as a whole. Recordings outside of the data root have absolute paths.
    """

    def __init__(self, data_set: CorpusPart, data_root: Path, index_file: Path) -> None:
        self._data_set = data_set
        self._root = data_root
        self._index_file = index_file

    @property
    def command(self) -> str:
        """The name of the command, such as `download librispeech dev_clean`."""
        return self._data_set.command

    def settings(self, plan: CorpusPlan) -> dict[str, Any]:
        """Every option that shapes the output."""
        return self._data_set.settings

    def output_patterns(self, plan: CorpusPlan) -> Sequence[str]:
        """The names of the manifests, and of the files derived from them."""
        return (*self._data_set.manifests, *self._data_set.derived)

    def plan(self, workspace: Workspace) -> CorpusPlan:
        """Divide the index into units."""
        index = LineIndex(self._index_file)
        inputs = [InputFile(str(self._index_file), index.sha256)]
        return Plan(index.batches, index.records, index, inputs, index.rejects)

    def planned_rejects(self, plan: CorpusPlan) -> Iterator[bytes]:
        """The lines of rejects for the utterances that were unusable when the index was made."""
        for number, line in plan.contents.unusable():
            yield reject_line(line.original(), line.rejected(), Origin(str(self._index_file), number))

    def prepare(self, plan: CorpusPlan) -> None:
        """Raise `UsageError` if an unpacked folder no longer exists."""
        for tree in self._data_set.trees:
            if not (self._root / tree).is_dir():
                raise UsageError(
                    f"{self._root / tree} was unpacked before, but is gone, and not all of it has been converted; "
                    f"put it back, or give {option('--overwrite')} to fetch it again"
                )

    def process(self, plan: CorpusPlan, unit: LineRange, writer: UnitWriter, advance: Advance) -> None:
        """Convert the audio of a batch of utterances if required, and make their manifest lines."""
        index, folder = plan.contents, os.path.dirname(unit.manifest) or "."
        writer.advance = advance

        def make(item: tuple[int, Utterance]) -> tuple[bytes, float]:
            line = item[1]
            source = str(self._root / line.source)
            try:
                info = probe(source)
                if line.target is not None:
                    writer.add(line.target, convert(whole(source, info, line.source), TargetFormat("wav")).data)
            except RecordRejected as rejected:
                raise line.rejected(rejected) from None
            audio = line.target or line.source
            path = audio if os.path.isabs(audio) else os.path.relpath(audio, folder)
            record = {"audio_filepath": path, "duration": info.duration, **line.fields}
            return msgspec.json.encode(record), info.duration

        def original(item: tuple[int, Utterance]) -> tuple[bytes, Origin]:
            return item[1].original(), Origin(str(index.file), item[0])

        write_lines(writer, index.lines(unit), make, original)

    def finish(self, plan: CorpusPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the units' lines into the manifests, in the order of the index, and write the files derived from them.

        Returns the path of each manifest, by its file name without `.json`.
        """
        parts = [(unit, writer.part(LINES_NAME.format(unit.id))) for unit in plan.units]
        if self._data_set.derive is not None:
            for name, lines in self._data_set.derive(_records(parts)):
                derived = writer.open(name)
                for line in lines:
                    derived.write(f"{line}\n".encode())
        details = {}
        for manifest in self._data_set.manifests:
            writer.join(manifest, (LINES_NAME.format(unit.id) for unit in plan.units if unit.manifest == manifest))
            details[Path(manifest).stem] = self._root / manifest
        return details


def _records(parts: Sequence[tuple[LineRange, Path]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for unit, part in parts:
        for line in part.read_bytes().splitlines():
            yield unit.manifest, msgspec.json.decode(line)


def make_manifests(data_sets: Sequence[CorpusPart]) -> DownloadReport:
    """Fetch, unpack and convert each data set as the current call asks for; in a dry run, only plan that.

    Raises:
        TooManyRejectsError: some data sets have too many rejects; the others are prepared too.
        PrepcliError: errors of fetching and of the engine.
    """
    asked = current_call().options
    engine, data_root = run_options(asked), asked.data_root
    names = [one.name for one in fields(FetchOptions) if hasattr(asked, one.name)]
    fetch = FetchOptions(**{name: getattr(asked, name) for name in names})
    if fetch.extracted is not None:
        data_sets = [one.extracted(fetch.extracted, data_root) for one in data_sets]
    checksums = read_checksums(fetch.checksums) if fetch.checksums else {}
    data_sets = [replace(one, archive=one.archive and one.archive.at(fetch.base_url, checksums)) for one in data_sets]
    check_given(data_sets, fetch)
    if engine.dry_run:
        return DownloadReport({data_set.name: _plan(data_set, fetch, engine) for data_set in data_sets})
    alone = engine.rank.world_size == 1
    waiting = [one.name for one in data_sets if not is_ready(one, data_root)]
    if waiting and not alone:
        raise UsageError(
            f"{', '.join(waiting)}: one process must fetch and unpack them first. Run {same_command()} once without "
            f"ranks and with {option('--fetch-only')}, then this one"
        )
    if alone:
        note_scarce_space(data_sets, fetch)
    report = DownloadReport()
    for data_set in data_sets:
        try:
            with stop_on_signals():  # for signals between fetching and converting, which have own handlers
                if alone:
                    ensure_unpacked(data_set, fetch, engine)
                report.data_sets[data_set.name] = _convert(data_set, data_root, fetch.fetch_only, engine)
        except IncompleteError as error:
            raise with_continuation(error, data_set.command, workspace_of(data_set.state_name, data_root)) from None
    return checked(report, engine)


def _convert(data_set: CorpusPart, data_root: Path, fetch_only: bool, engine: RunOptions) -> Report:
    if fetch_only:
        return Report(data_set.command, "fetched", str(data_root))
    workspace = workspace_of(data_set.state_name, data_root)
    repaired = engine.retry_rejects and was_repaired(data_set, data_root)
    if repaired:
        engine = replace(engine, overwrite=True)  # for recordings that are used unchanged, only manifests are replaced
    index = ensure_index(data_set, data_root, workspace.root, engine.overwrite, again=repaired)
    try:
        return run_job(CorpusJob(data_set, data_root, index), workspace, engine)
    except TooManyRejectsError as error:  # the other data sets are prepared too
        report: Report = error.report
        return report


def checked(report: DownloadReport, engine: RunOptions) -> DownloadReport:
    """Return `report`, or raise `TooManyRejectsError` if a data set has more rejects than allowed."""
    problems = [too_many(one, engine.budget) for one in report.data_sets.values() if one.status == "too_many_rejects"]
    if problems:
        raise TooManyRejectsError("; ".join(problems), report)
    return report


def _plan(data_set: CorpusPart, options: FetchOptions, engine: RunOptions) -> Report:
    """Return the report of a dry run: the plan of converting, or of fetching if the data set is not unpacked yet."""
    data_root = options.data_root
    if not is_ready(data_set, data_root):
        archive = plan_fetching(data_set, options)
        plan = {"command": data_set.command, "status": "dry_run", "fetch": archive}
        return Report(data_set.command, "dry_run", str(data_root), details=plan)
    with tempfile.TemporaryDirectory(prefix="prepcli-") as scratch:
        job = CorpusJob(data_set, data_root, ensure_index(data_set, data_root, Path(scratch)))
        return dry_run_report(job, data_root, engine.rank)
