"""Recognize a file or directory and summarize its content: the work of `inspect`."""

from collections.abc import Sequence

from prepcli.commands.inspect.audio import look_at_files
from prepcli.commands.inspect.conversations import look_at_conversations
from prepcli.commands.inspect.examples import Examples
from prepcli.commands.inspect.exports import look_at_export
from prepcli.commands.inspect.groups import groups_of, shares_by
from prepcli.commands.inspect.kinds import Subject, check_regular, line_kind, what_is
from prepcli.commands.inspect.report import Inspection, PartOfMix, largest
from prepcli.commands.inspect.runs import runs_of
from prepcli.commands.inspect.tally import COUNTS, NUMBERS, Share, Tally, column, tally_files
from prepcli.commands.inspect.tars import look_at_codes, look_at_tars
from prepcli.errors import UsageError
from prepcli.formats.names import path_in
from prepcli.formats.shar_set import SharSet
from prepcli.formats.tarred import TAR_NAME, TarredSet, metadata_name, read_metadata
from prepcli.interface.reports import percentiles
from prepcli.jobs.inputs.conversations import conversation_file
from prepcli.jobs.records import base_directories
from prepcli.manifest.conversations import PLACEHOLDERS
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.mixing import leaves_of
from prepcli.manifest.seconds import notes_on_seconds
from prepcli.manifest.sources import check_file, expand_paths
from prepcli.storage.paths import AnyPath, path_of


def look_at(path: str, num_audio_files: int, num_workers: int, audio_base_dir: AnyPath | None) -> Inspection:
    """Recognize a path (see `prepcli.commands.inspect.kinds.what_is`) and summarize its content.

    Reads all lines once, and the headers of at most `num_audio_files` in each part; audio is decoded only if its header
    is not enough.

    Raises:
        UsageError: the path does not exist, is of no known kind, or its lines cannot be read. Damaged tars and Parquet
            files raise no error; the damage is noted in the result.
        IncompleteError: a worker process died.
    """
    subject = what_is(path)
    report = Inspection(path, subject.kind, subject.title, notes=list(subject.notes))
    if subject.out is not None:
        report.runs = runs_of(subject.out, subject.codes_folder)
    if subject.data is not None:
        try:
            _read_lines(subject, num_audio_files, num_workers, audio_base_dir, report)
        except UsageError as error:
            if subject.kind != "tars":
                raise
            report.notes.append(str(error))
    if subject.kind == "conversations" and subject.export is None:
        base = audio_base_dir or base_of_runs(report)
        files = [conversation_file(file, base, PLACEHOLDERS) for file in expand_paths(path)]
        look_at_conversations(files, num_audio_files, report)
    if subject.kind == "audio":
        report.audio = [look_at_files([(path, 0.0, 0.0)])]
    if subject.export is not None:
        look_at_export(subject.export, num_audio_files, report)
    for name, tars in subject.tars.items():
        facts, audio = look_at_tars(name, tars, num_audio_files)
        report.tars.append(facts)
        report.audio += [audio] if audio.looked_at else []
    report.codes = [look_at_codes(name, tars, num_audio_files) for name, tars in subject.codes.items()]
    if subject.folder is not None:
        _look_at_folder(subject, subject.folder, report)
    return report


def _read_lines(
    subject: Subject, num_audio_files: int, num_workers: int, audio_base_dir: AnyPath | None, report: Inspection
) -> None:
    assert subject.data is not None
    leaves = leaves_of(subject.data)
    paths = [path for leaf in leaves for path in leaf.paths]
    for path in paths:
        check_regular(path_of(check_file(path)))
    # A file without a readable line, such as an empty shard, does not determine the kind.
    kinds = list(dict.fromkeys(kind for path in paths if (kind := line_kind(path_of(path)))))
    kinds = kinds or ["cuts" if leaves[0].cuts else "manifest"]
    if len(kinds) > 1:
        raise UsageError(f"{report.path} mixes {' and '.join(sorted(kinds))}; inspect them one by one")
    total = Tally(kinds[0], num_audio_files)
    sizes: list[Share] = []
    examples = Examples()
    tallies = tally_files(paths, kinds[0], num_audio_files, num_workers)
    bases = base_directories(paths, audio_base_dir or base_of_runs(report))
    for path, base, tally in zip(paths, bases, tallies, strict=True):
        if tally.first_problem is not None and report.first_unusable is None:
            line, detail = tally.first_problem
            report.first_unusable = f"{path}:{line}: {detail}"
        sizes.append(Share(tally.records, tally.seconds))
        tally.named.items = [(path_in(base, path), at, seconds) for path, at, seconds in tally.named.items]
        examples.merge(tally.examples, file=path)
        total.merge(tally)
    report.files = len(paths)
    report.parts = _parts(subject.data, sizes)
    if subject.kind == "input":
        report.kind = kinds[0]
    _copy_counts(total, report)
    if report.kind != "rejects":
        report.outliers, report.sample = examples.outliers(), examples.sample.chosen()
    if report.kind == "manifest" and total.records and total.fields["shard_id"] == total.records:
        report.notes.append("its lines have a shard_id: their audio is in the tars of a tarred data set, not in files")
    elif report.kind in ("manifest", "cuts", "parquet") and num_audio_files and total.named.items:
        report.audio = [look_at_files(total.named.chosen())]


def base_of_runs(report: Inspection) -> AnyPath | None:
    """The base folder of relative audio paths that the runs of a set used; None if they used none, or several."""
    bases = {base for run in report.runs for base in run.audio_base_dirs}
    return path_of(bases.pop()) if len(bases) == 1 else None


def _copy_counts(total: Tally, report: Inspection) -> None:
    for name in NUMBERS:
        setattr(report, name, getattr(total, name))
    for name in COUNTS:
        setattr(report, name, dict(getattr(total, name)))
    report.hours = total.seconds / 3600
    for name, parts in total.columns.items():
        report.columns[name] = column(parts)
        parts.clear()
        report.columns[name].sort()
        setattr(report, name, percentiles(report.columns[name]))
    report.with_context_similarity = len(report.columns["context_similarity"])
    if report.duration:
        speed = report.chars_per_second["p50"] if report.chars_per_second else None
        report.notes += notes_on_seconds(report.duration["p50"], speed)
    report.groups = groups_of(total.groups)
    speakers, languages = (shares_by(report.groups, name) for name in ("speaker", "language"))
    report.speakers, report.top_speakers = len(speakers), largest(speakers)
    report.num_languages, report.languages = len(languages), largest(languages)
    report.first_records = total.first_records


def _parts(data: DataSet | Mix, sizes: Sequence[Share]) -> list[PartOfMix]:
    """The data sets of a mix, each with its files, records and hours; an empty list for a single data set."""
    if isinstance(data, DataSet):
        return []
    parts, rest = [], list(sizes)
    for part, weight in zip(data.parts, data.weights, strict=True):
        paths = [path for leaf in leaves_of(part) for path in leaf.paths]
        own, rest = rest[: len(paths)], rest[len(paths) :]
        more = f" ... {paths[-1]}" if len(paths) > 1 else ""
        hours = sum(share.seconds for share in own) / 3600
        parts.append(PartOfMix(paths[0] + more, len(paths), weight, sum(share.records for share in own), hours))
    return parts


def _look_at_folder(subject: Subject, folder: AnyPath, report: Inspection) -> None:
    if subject.kind == "shar" and (folder / "cuts").is_dir():
        report.notes += SharSet(folder).gaps()
    if subject.kind == "tarred":
        tarred = TarredSet(folder)
        if missing := sorted(set(range(max(tarred.shards, default=-1) + 1)) - set(tarred.shards)):
            report.notes.append(f"{', '.join(map(TAR_NAME.format, missing[:10]))}: missing")
        metadata = folder / metadata_name(tarred.version)
        if metadata.is_file():
            try:
                report.metadata = read_metadata(metadata)
            except UsageError as error:
                report.notes.append(f"{error}; it is treated as missing")
    if subject.kind == "codes" and not report.runs:
        report.notes.append("no run of prepcli is known that made these codes; verify needs the Shar they belong to")
