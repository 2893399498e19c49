"""download: convert the utterances of an unpacked corpus to audio and NeMo manifests."""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.probe import probe
from prepcli.audio.segments import TargetFormat, convert, whole
from prepcli.commands.download.data_set import CorpusPart, Utterance
from prepcli.commands.download.index import LineIndex, LineRange
from prepcli.commands.download.prepare import (
    INDEX_NAME,
    as_asked,
    ensure_index,
    ensure_unpacked,
    is_ready,
    make_index,
    note_scarce_space,
    output_of,
    plan_fetching,
)
from prepcli.commands.download.report import DownloadReport
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.run.function import Output, run
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.options import run_options
from prepcli.engine.run.report import Report, too_many
from prepcli.engine.run.run import continuable
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, TooManyRejectsError, UsageError, option, same_command
from prepcli.interface.calls import current_call
from prepcli.jobs.line_job import LINES_NAME, write_lines

CorpusPlan = Plan[LineRange, LineIndex]


def _run_of(data_set: CorpusPart, output: Output, index_file: Path | None) -> Report:
    """Make the manifests of a data set, and convert its audio if required. A unit is a batch of utterances.

    Paths in manifests are relative to the manifest's folder, as NeMo, lhotse's reader of NeMo manifests and prepcli
    expect, so the data root can be moved as a whole. Recordings outside of the data root have absolute paths.
    `index_file`: the index of the utterances; None: it is made for the plan of a dry run.
    """
    root = output.workspace.folder

    def plan(workspace: Workspace) -> CorpusPlan:
        file = index_file or workspace.root / INDEX_NAME
        if index_file is None:
            make_index(data_set, root, file)
        index = LineIndex(file)

        def reject_lines() -> Iterator[bytes]:
            for number, line in index.unusable():
                yield reject_line(line.original(), line.rejected(), Origin(str(file), number))

        inputs = [InputFile(str(file), index.sha256)]
        return Plan(index.batches, index.records, index, inputs, index.rejects, reject_lines=reject_lines)

    def write(index: LineIndex, unit: LineRange, writer: UnitWriter) -> None:
        folder = os.path.dirname(unit.manifest) or "."

        def make(item: tuple[int, Utterance]) -> tuple[bytes, float]:
            line = item[1]
            source = str(root / line.source)
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

    def join(made: CorpusPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        parts = [(unit, LINES_NAME.format(unit.id)) for unit in made.units]
        records = _records((unit, writer.part(part)) for unit, part in parts)
        for name, lines in data_set.derive(records) if data_set.derive is not None else ():
            derived = writer.open(name)
            derived.write("".join(f"{line}\n" for line in lines).encode())
        for manifest in data_set.manifests:
            writer.join(manifest, (part for unit, part in parts if unit.manifest == manifest))
        return {Path(manifest).stem: root / manifest for manifest in data_set.manifests}

    settings, prepare = data_set.settings, partial(_check_trees, data_set, root)
    return run(output, plan, write, join, settings=settings, command=data_set.command, prepare=prepare)


def _check_trees(data_set: CorpusPart, root: Path) -> None:
    for tree in data_set.trees:
        if not (root / tree).is_dir():
            raise UsageError(
                f"{root / tree} was unpacked before, but is gone, and not all of it has been converted; "
                f"put it back, or give {option('--overwrite')} to fetch it again"
            )


def _records(parts: Iterable[tuple[LineRange, Path]]) -> Iterator[tuple[str, dict[str, Any]]]:
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
    data_sets = as_asked(data_sets)
    if engine.dry_run:
        return DownloadReport({data_set.name: _planned(data_set, data_root) for data_set in data_sets})
    alone = engine.rank.world_size == 1
    waiting = [one for one in data_sets if not is_ready(one, data_root)]
    if waiting and not alone:
        raise UsageError(
            f"{', '.join(one.name for one in waiting)}: one process must fetch and unpack them first. Run "
            f"{same_command()} once without ranks and with {option('--fetch-only')}, then this one"
        )
    if waiting:
        note_scarce_space(waiting, data_root, asked.keep_archives)
    report = DownloadReport()
    for data_set in data_sets:
        with continuable(data_set.command, _output_of(data_set, data_root).workspace):
            if alone and data_set.archive is not None:
                ensure_unpacked(data_set, data_root, asked.keep_archives, engine)
            report.data_sets[data_set.name] = _convert(data_set, data_root)
    return checked(report, engine)


def _output_of(data_set: CorpusPart, data_root: Path) -> Output:
    return output_of(data_root, data_set.state_name, *data_set.manifests, *data_set.derived)


def _convert(data_set: CorpusPart, data_root: Path) -> Report:
    if data_set.archive is not None and current_call().options.fetch_only:
        return Report(data_set.command, "fetched", str(data_root))
    output = _output_of(data_set, data_root)
    index = ensure_index(data_set, output)
    try:
        return _run_of(data_set, output, index)
    except TooManyRejectsError as error:  # the other data sets are prepared too
        report: Report = error.report
        return report


def checked(report: DownloadReport, engine: RunOptions) -> DownloadReport:
    """Return `report`, or raise `TooManyRejectsError` if a data set has more rejects than allowed."""
    problems = [too_many(one, engine.budget) for one in report.data_sets.values() if one.status == "too_many_rejects"]
    if problems:
        raise TooManyRejectsError("; ".join(problems), report)
    return report


def _planned(data_set: CorpusPart, data_root: Path) -> Report:
    """Return the report of a dry run: the plan of converting, or of fetching if the data set is not unpacked yet."""
    if data_set.archive is None or is_ready(data_set, data_root):
        output = _output_of(data_set, data_root)
        return _run_of(data_set, output, output.workspace.root / INDEX_NAME if data_set.archive else None)
    plan = {"command": data_set.command, "status": "dry_run", "fetch": plan_fetching(data_set.archive, data_root)}
    return Report(data_set.command, "dry_run", str(data_root), details=plan)
