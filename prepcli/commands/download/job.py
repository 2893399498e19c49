"""download: convert the utterances of an unpacked corpus to audio and NeMo manifests."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from prepcli.audio.probe import probe
from prepcli.audio.segments import TargetFormat, convert, whole
from prepcli.commands.download.data_set import CorpusPart, Utterance, workspace_of
from prepcli.commands.download.fetch import read_checksums
from prepcli.commands.download.index import LineIndex, LineRange
from prepcli.commands.download.options import (
    DownloadAishell,
    DownloadAishell2,
    DownloadAn4,
    DownloadCommonVoice,
    DownloadFisher,
    DownloadHifitts,
    DownloadHifitts2,
    DownloadHub5,
    DownloadLibrispeech,
    DownloadLibritts,
    DownloadLibrittsR,
    DownloadLjspeech,
    DownloadMls,
    DownloadVctk,
    FetchOptions,
)
from prepcli.commands.download.prepare import (
    check_given,
    ensure_index,
    ensure_unpacked,
    is_ready,
    note_scarce_space,
    plan_fetching,
    was_repaired,
)
from prepcli.commands.download.published import (
    aishell,
    aishell2,
    an4,
    common_voice,
    hifitts,
    hifitts2,
    librispeech,
    libritts,
    ljspeech,
    mls,
    vctk,
)
from prepcli.commands.download.published.fisher import Fisher
from prepcli.commands.download.published.hub5 import Hub5
from prepcli.commands.download.report import DownloadReport
from prepcli.commands.download.slices import SlicingJob, has_new_transcripts
from prepcli.commands.download.spoken_text import Noises
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report, too_many
from prepcli.engine.run.run import dry_run_report, run_job, with_continuation
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, RecordRejected, TooManyRejectsError, UsageError, option, same_command
from prepcli.jobs.line_job import LINES_NAME, LineJob, LineWriter
from prepcli.processes.signals import stop_on_signals

CorpusPlan = Plan[LineRange, LineIndex]


class CorpusJob(LineJob[LineRange, LineIndex]):
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

    def prepare(self) -> None:
        """Raise `UsageError` if an unpacked folder no longer exists."""
        for tree in self._data_set.trees:
            if not (self._root / tree).is_dir():
                raise UsageError(
                    f"{self._root / tree} was unpacked before, but is gone, and not all of it has been converted; "
                    f"put it back, or give {option('--overwrite')} to fetch it again"
                )

    def open_unit(self, plan: CorpusPlan, unit: LineRange, writer: UnitWriter) -> "_Utterances":
        """Return the writer that converts the utterances of a batch, and makes their manifest lines."""
        return _Utterances(plan.contents, unit, writer, self._root)

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


class _Utterances(LineWriter[tuple[int, Utterance]]):
    """Converts the audio of a batch of utterances if required, and makes their manifest lines."""

    def __init__(self, index: LineIndex, unit: LineRange, writer: UnitWriter, root: Path) -> None:
        self.items = index.lines(unit)
        self._source, self._writer, self._root = str(index.file), writer, root
        self._folder = os.path.dirname(unit.manifest) or "."

    def make(self, item: tuple[int, Utterance]) -> tuple[bytes, float]:
        line = item[1]
        source = str(self._root / line.source)
        try:
            info = probe(source)
            if line.target is not None:
                self._writer.add(line.target, convert(whole(source, info, line.source), TargetFormat("wav")).data)
        except RecordRejected as rejected:
            raise line.rejected(rejected) from None
        audio = line.target or line.source
        path = audio if os.path.isabs(audio) else os.path.relpath(audio, self._folder)
        return msgspec.json.encode({"audio_filepath": path, "duration": info.duration, **line.fields}), info.duration

    def original(self, item: tuple[int, Utterance]) -> tuple[bytes, Origin]:
        """The record with the published recording as its audio, and its line in the index."""
        return item[1].original(), Origin(self._source, item[0])


def _records(parts: Sequence[tuple[LineRange, Path]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for unit, part in parts:
        for line in part.read_bytes().splitlines():
            yield unit.manifest, msgspec.json.decode(line)


def _prepare(data_sets: Sequence[CorpusPart], options: FetchOptions | DownloadAishell2) -> DownloadReport:
    """Fetch, unpack and convert each data set; in a dry run, only plan that.

    Raises:
        TooManyRejectsError: some data sets have too many rejects; the others are prepared too.
        PrepcliError: errors of fetching and of the engine.
    """
    engine, data_root = options.engine(), options.data_root
    fetch = options if isinstance(options, FetchOptions) else FetchOptions(data_root=data_root)
    if fetch.extracted is not None:
        data_sets = [one.extracted(fetch.extracted, data_root) for one in data_sets]
    checksums = read_checksums(fetch.checksums) if fetch.checksums else {}
    data_sets = [replace(one, archive=one.archive and one.archive.at(fetch.base_url, checksums)) for one in data_sets]
    check_given(data_sets, fetch)
    if options.dry_run:
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


Function = TypeVar("Function", bound=Callable[..., Any])

_SECTIONS = """

Returns:
    {returns}

Raises:
    UsageError: {wrong_use}

Examples:
    >>> import prepcli
    >>> report = prepcli.{call}
    >>> report.outputs["{output}"]
    {path!r}
"""


def _documented(call: str, output: str, path: str, *, returns: str, wrong_use: str) -> Callable[[Function], Function]:
    """Return a decorator that adds the sections Returns, Raises and Examples to the docstring of a command.

    Args:
        call: the call in the example, without `prepcli.`.
        output: a key of the report's `outputs` in the example.
        path: the value for this key.
        returns: the text of the section Returns.
        wrong_use: the causes of a `UsageError`.
    """

    def complete(function: Function) -> Function:
        sections = _SECTIONS.format(returns=returns, wrong_use=wrong_use, call=call, output=output, path=path)
        function.__doc__ = f"{function.__doc__}{sections}"
        return function

    return complete


_makes_manifests = partial(
    _documented,
    returns="The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.",
    wrong_use="the data set is unknown, other files are in its place, or the given archive is damaged.",
)
_makes_slices = partial(
    _documented,
    returns='The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.',
    wrong_use="options that do not go together, or inputs that cannot be read.",
)


@_makes_manifests('download_librispeech("data", data_sets="mini")', "dev_clean_2", "/.../data/dev_clean_2.json")
def download_librispeech(options: DownloadLibrispeech) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare(librispeech.data_sets(options.data_sets, options.audio_format), options)


@_makes_manifests('download_an4("data")', "train_manifest", "/.../data/an4/train_manifest.json")
def download_an4(options: DownloadAn4) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare([an4.data_set()], options)


@_makes_manifests('download_aishell("data")', "train", "/.../data/data_aishell/train.json")
def download_aishell(options: DownloadAishell) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare([aishell.data_set()], options)


@_makes_manifests('download_aishell2("AISHELL-2", "data")', "train", "/.../data/train.json")
def download_aishell2(options: DownloadAishell2) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare([aishell2.data_set(options.audio_folder)], options)


@_makes_manifests(
    'download_ljspeech("data", val_size=1, test_size=1)', "val_manifest", "/.../data/LJSpeech-1.1/val_manifest.json"
)
def download_ljspeech(options: DownloadLjspeech) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare([ljspeech.data_set(options.val_size, options.test_size, options.split_seed)], options)


@_makes_manifests('download_libritts("data", data_sets="dev_clean")', "dev_clean", "/.../data/LibriTTS/dev_clean.json")
def download_libritts(options: DownloadLibritts) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare(libritts.data_sets(options.data_sets, libritts.LIBRITTS), options)


@_makes_manifests(
    'download_libritts_r("data", data_sets="dev_clean")', "dev_clean", "/.../data/LibriTTS_R/dev_clean.json"
)
def download_libritts_r(options: DownloadLibrittsR) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare(libritts.data_sets(options.data_sets, libritts.LIBRITTS_R), options)


@_makes_manifests('download_hifitts("data")', "clean_train", "/.../data/hi_fi_tts_v0/audio/clean_train.json")
def download_hifitts(options: DownloadHifitts) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare([hifitts.data_set()], options)


@_makes_manifests(
    'download_hifitts2("data", metadata="hifitts2", chapters="chapters")',
    "train",
    "/.../data/hifitts2_22khz/train.json",
)
def download_hifitts2(options: DownloadHifitts2) -> DownloadReport:
    """Fetch the chapters, cut them into utterances, and make manifests of these."""
    from prepcli.commands.download.chapters import ChapterJob, metadata_of

    engine, name = options.engine(), hifitts2.folder_of(options.sampling_rate)
    workspace = workspace_of(name, options.data_root)
    metadata = options.metadata or metadata_of(options, workspace, engine)
    if options.fetch_only:
        return DownloadReport({name: Report(hifitts2.COMMAND, "fetched", str(metadata))})
    return DownloadReport({name: run_job(ChapterJob(options, metadata, engine.num_workers), workspace, engine)})


@_makes_manifests('download_vctk("data")', "mic2", "/.../data/VCTK-Corpus-0.92/mic2.json")
def download_vctk(options: DownloadVctk) -> DownloadReport:
    """Make manifests of the corpus."""
    return _prepare([vctk.data_set(options.mic)], options)


@_makes_manifests('download_mls("data", "polish")', "train_9hr", "/.../data/mls_polish_opus/train_9hr.json")
def download_mls(options: DownloadMls) -> DownloadReport:
    """Make manifests of a language."""
    return _prepare([mls.data_set(options.language, options.archive_format)], options)


@_makes_manifests('download_common_voice("data", "en")', "train", "/.../data/cv-corpus-25.0-2026-03-09/en/train.json")
def download_common_voice(options: DownloadCommonVoice) -> DownloadReport:
    """Make manifests of a language."""
    return _prepare([common_voice.data_set(options.language, options.release, options.data_sets)], options)


@_makes_slices(
    'download_fisher("LDC", "fisher", remove_noises=True)', "manifest_train", "/.../fisher/manifest_train.json"
)
def download_fisher(options: DownloadFisher) -> Report:
    """Slice a licensed copy of the corpus."""
    if options.remove_noises and options.noises_to_emoji:
        raise UsageError(f"{option('--remove-noises')} and {option('--noises-to-emoji')} exclude each other")
    noises = Noises.REMOVE if options.remove_noises else Noises.EMOJI if options.noises_to_emoji else Noises.KEEP
    return _slice(Fisher(options.ldc_root, options.keep_low_conf, noises), options)


@_makes_slices('download_hub5("LDC", "hub5")', "manifest_hub5", "/.../hub5/manifest_hub5.json")
def download_hub5(options: DownloadHub5) -> Report:
    """Slice a licensed copy of the test set."""
    return _slice(Hub5(options.data_root), options)


def _slice(corpus: Fisher | Hub5, options: DownloadFisher | DownloadHub5) -> Report:
    engine, workspace = options.engine(), Workspace(options.dest_root)
    if engine.retry_rejects and has_new_transcripts(corpus, workspace):
        engine = replace(engine, overwrite=True)  # the parts of the corpus have other conversations now
    return run_job(SlicingJob(corpus, options, engine.num_workers), workspace, engine)
