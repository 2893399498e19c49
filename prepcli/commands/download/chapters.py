"""download hifitts2: fetch long recordings one by one, and cut each into the utterances of a published manifest."""

import contextlib
import hashlib
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio.encode import encode, to_float32
from prepcli.audio.probe import probe
from prepcli.audio.resample import resample
from prepcli.audio.segments import decode, whole
from prepcli.commands.download.corpus_unpack import fetch_bar
from prepcli.commands.download.data_set import Archive, may_lie_outside, speaker_name
from prepcli.commands.download.fetch import fetch
from prepcli.commands.download.prepare import exclusive_lock, output_of
from prepcli.commands.download.report import DownloadReport
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.function import Output, run
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import continuable
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, naming, option
from prepcli.formats.names import normal_path
from prepcli.gate import FirstPlaces
from prepcli.interface.calls import current_call
from prepcli.jobs.record_job import RecordContents, RecordUnit, units_of
from prepcli.jobs.records import Records
from prepcli.jobs.source import items
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.index import content_digest
from prepcli.manifest.record import Record, Value
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.split import seconds_of
from prepcli.storage.input_files import state_of
from prepcli.storage.transfer import BusyError, FetchError

_SETS = ("train", "dev_seen", "dev_unseen", "test_seen", "test_unseen")
"""The values of the field `set`; each has a manifest."""
_RATES = {"22khz": 22050, "44khz": 44100}
_HUB = "https://huggingface.co/datasets/nvidia/hifitts-2/resolve/main"
CHAPTERS_PER_UNIT = 4
MAX_DIFFERENCE = 0.1
"""Seconds by which a chapter may differ from its published duration; if it differs more, LibriVox has replaced it.

The end of an utterance may also be this many seconds after the end of its chapter.
"""


class _Utterance(msgspec.Struct):
    audio_filepath: str
    offset: float
    duration: float


class _Chapter(msgspec.Struct):
    url: str
    chapter_filepath: str
    utterances: list[_Utterance]
    duration: float | None = None


def cut_corpus() -> DownloadReport:
    """Cut the chapters of HiFiTTS-2 into utterances, as the current call asks; fetch its published lists before.

    Raises:
        UsageError: lists are missing, and this is a dry run or a run with several ranks, or they are not in
            `--metadata`; or the address is not valid.
        FetchError: no server has a list.
        IncompleteError: the servers cannot be reached; the same command continues.
    """
    asked = current_call().options
    name = f"hifitts2_{asked.sampling_rate}"
    output = output_of(asked.data_root, name, *(f"{name}/{one}.json" for one in _SETS))
    names = [f"{kind}_{asked.sampling_rate}.json" for kind in ("manifest", "chapters")]
    lists = [Archive(one, (f"{_HUB}/{one}",)).at(asked.base_url, {}) for one in names]
    folder = asked.metadata or _fetch_lists(lists, name, output)
    if asked.fetch_only:
        return DownloadReport({name: Report(current_call().command, "fetched", str(folder))})
    manifest, chapters = (str(folder / one) for one in names)
    return DownloadReport({name: _cut(name, manifest, chapters, output)})


def _fetch_lists(lists: Sequence[Archive], name: str, output: Output) -> Path:
    """Return the folder with the published lists, which are fetched if they are not there."""
    workspace, engine = output.workspace, output.engine
    folder = workspace.root / "metadata"
    missing = [one for one in lists if not (folder / one.name).exists()]
    if missing and (engine.dry_run or engine.rank.world_size > 1):
        raise UsageError(
            f"{missing[0].name} is not here yet; run the command once without ranks and with {option('--fetch-only')}, "
            f"or give {option('--metadata')}"
        )
    if missing:
        with continuable(current_call().command, workspace), exclusive_lock(workspace, name):
            for one in missing:
                with fetch_bar(one.name) as show:
                    fetch(one, folder, show)
    return folder


@dataclass(frozen=True, slots=True)
class ChapterContents(RecordContents):
    """The records of the published manifest, and their chapters.

    Attributes:
        chapter: the number of each record's chapter, from 0; -1 if no chapter has the record, -2 if several have it.
        first: the number of the first record with the same `audio_filepath`, for each record.
        lines: for each chapter, the offset (bytes) of its line in the published list of chapters.
    """

    chapter: NDArray[np.int64]
    first: NDArray[np.int64]
    lines: NDArray[np.int64]


def _cut(name: str, manifest: str, chapters: str, output: Output) -> Report:
    """Cut chapters into utterances, and write manifests of these in the folder `name` of the data root `output`.

    A record is a line of the published `manifest`; a unit is a few chapters of the published list `chapters`, and their
    records.
    """
    for path in (manifest, chapters):
        if not os.path.isfile(path):
            raise UsageError(f"{path} does not exist: {option('--metadata')} holds the published manifests")
    asked, settings = current_call().options, {"corpus": name}

    def plan(workspace: Workspace) -> Plan[RecordUnit, ChapterContents]:
        keys = {"path": normal_path}
        records = Records([manifest], keys=keys, workspace=workspace, num_workers=output.engine.num_workers)
        state = state_of(chapters)
        values = records.layout(
            [current_call().command, settings, repr(state)], partial(_by_chapter, records, chapters)
        )
        units = units_of("chapters", values["bounds"].tolist(), values["seconds"].tolist(), make=RecordUnit)
        arrays = {name: values[name] for name in ("chapter", "first", "lines", "order")}
        made = records.plan(units, ChapterContents(records, **arrays))
        made.inputs.append(InputFile(chapters, values["sha256"], state, content_digest))
        return replace(made, missing_sample=lambda: None)  # the manifest names files that this command makes

    def write(contents: ChapterContents, unit: RecordUnit, writer: UnitWriter) -> None:
        cutter = _Cutter(name, chapters, asked, contents, writer)
        for item in items(contents, unit, writer):
            with item:
                item.seconds = cutter.add(item.number, item.record)

    def join(made: Plan[RecordUnit, ChapterContents], markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        for one in _SETS:
            parts = (f"parts/{marker.unit}.{one}.jsonl" for marker in markers)
            writer.join(f"{name}/{one}.json", (part for part in parts if writer.part(part).exists()))
        return {one: output.path / name / f"{one}.json" for one in _SETS}

    return run(output, plan, write, join, settings=settings)


def _by_chapter(records: Records, chapters: str, scratch: Scratch) -> Values:
    """The values of the plan; `chapters`: the path of the published list."""
    hashes, owners, lines, digest, offset = bytearray(), array("q"), array("q"), hashlib.sha256(), 0
    decoder = msgspec.json.Decoder(_Chapter)
    with naming(chapters), Path(chapters).open("rb") as file:
        for line in file:
            digest.update(line)
            with contextlib.suppress(msgspec.DecodeError):  # then the records of this line have no chapter
                for utterance in decoder.decode(line).utterances:
                    hashes += key_bytes(normal_path(utterance.audio_filepath or "."))
                    owners.append(len(lines))
                lines.append(offset)
            offset += len(line)
    known, owner = np.frombuffer(bytes(hashes), "<u8"), np.array(owners, np.int64)
    by_hash = np.argsort(known)
    wanted = records.index.keys["path"]
    start, end = (np.searchsorted(known, wanted, side, by_hash) for side in ("left", "right"))
    chapter = np.append(owner[by_hash], -1)[start]
    chapter[end == start] = -1
    chapter[end > start + 1] = -2
    _, first, numbers = np.unique(wanted, return_index=True, return_inverse=True)
    order = np.argsort(chapter, kind="stable")
    firsts = np.arange(0, len(lines) + CHAPTERS_PER_UNIT, CHAPTERS_PER_UNIT)
    bounds = np.unique([0, *np.searchsorted(chapter[order], firsts), len(records)])
    return {
        "order": order,
        "bounds": bounds,
        "seconds": seconds_of(records.index.duration, order, bounds),
        "chapter": chapter,
        "first": first[numbers],
        "lines": np.array(lines, np.int64),
        "sha256": digest.hexdigest(),
    }


class _Cutter:
    """Cuts the utterances of a unit, chapter by chapter."""

    def __init__(self, name: str, chapters: str, asked: Any, contents: ChapterContents, writer: UnitWriter) -> None:
        self._name, self._chapters, self._asked, self._contents = name, chapters, asked, contents
        self._writer, self._rate = writer, _RATES[asked.sampling_rate]
        self._number: int | None = None
        self._problem: RecordRejected | None = None
        self._samples: NDArray[np.float32] = np.empty(0, np.float32)
        self._spans: dict[str, tuple[float, float]] = {}
        self._lines: dict[str, Any] = {}

    def add(self, number: int, record: Record) -> float:
        """Write an utterance and its line; returns its seconds of audio."""
        path, part, speaker = record.audio_filepath, record.text("set"), record.get("speaker")
        if may_lie_outside(path) or not path.endswith(".flac"):
            raise RecordRejected(RejectReason.BAD_FIELD, f"audio_filepath {path!r} is not a FLAC file of the corpus")
        if part is None or part not in _SETS:
            raise RecordRejected(RejectReason.BAD_FIELD, f"set is {part!r}, not one of {', '.join(_SETS)}")
        if speaker is None:
            raise RecordRejected(RejectReason.MISSING_FIELD, "there is no speaker")
        self._check_first(number)
        self._open(int(self._contents.chapter[number]))
        samples = self._cut(path)
        self._writer.add(f"{self._name}/{path}", encode(samples, self._rate, "flac"))
        seconds = len(samples) / self._rate
        changes: dict[str, Value] = {"duration": seconds, "speaker": speaker_name("en", "HiFiTTS2", str(speaker))}
        if part not in self._lines:
            self._lines[part] = self._writer.open_part(f"parts/{self._writer.unit.id}.{part}.jsonl")
        self._lines[part].write(record.to_json(changes) + b"\n")
        return seconds

    def _check_first(self, number: int) -> None:
        """Raise `RecordRejected` if an earlier record has the same path."""
        places, records = FirstPlaces(), self._contents.records
        first = int(self._contents.first[number])
        for record in (first, number) if first != number else ():
            path = normal_path(records.record(record).audio_filepath)
            places.check(path, "{}:{}".format(*records.origin(record)))

    def _cut(self, path: str) -> NDArray[np.float32]:
        """The samples of an utterance; its start and end are rounded down to samples, as the publisher does.

        Raises:
            RecordRejected: the utterance is empty, or ends more than `MAX_DIFFERENCE` after its chapter.
        """
        offset, seconds = self._spans[normal_path(path)]
        rate = self._rate
        samples = self._samples[max(int(offset * rate), 0) : max(int((offset + seconds) * rate), 0)]
        lost = seconds - len(samples) / rate
        if not len(samples) or lost > MAX_DIFFERENCE:
            detail = f"it ends {lost:.3f} s after the end of its chapter, {len(self._samples) / rate:.3f} s"
            raise RecordRejected(RejectReason.BEYOND_AUDIO, detail)
        return samples

    def _open(self, number: int) -> None:
        """Read chapter `number`, unless it is the open one.

        Raises:
            RecordRejected: the chapter cannot be used. Each call for this chapter raises the error.
        """
        if number == -2:
            raise RecordRejected(RejectReason.BAD_FIELD, f"{self._chapters} has it several times: which one is meant?")
        if number < 0:
            raise RecordRejected(RejectReason.MISSING_AUDIO, f"no chapter of {self._chapters} has it")
        if number != self._number:
            self._number, self._problem, self._samples = number, None, np.empty(0, np.float32)
            with Path(self._chapters).open("rb") as file:
                file.seek(int(self._contents.lines[number]))
                chapter = msgspec.json.decode(file.readline(), type=_Chapter)
            self._spans = {normal_path(one.audio_filepath): (one.offset, one.duration) for one in chapter.utterances}
            try:
                self._samples = self._read(chapter)
            except RecordRejected as rejected:
                self._problem = RecordRejected(rejected.reason, f"{chapter.chapter_filepath}: {rejected.detail}")
        if self._problem is not None:
            raise self._problem

    def _read(self, chapter: _Chapter) -> NDArray[np.float32]:
        """The samples of a chapter, as the mean of its channels, and at the sampling rate of the edition."""
        rate = self._rate
        with self._file(chapter) as path:
            segment = whole(path, probe(path, chapter.chapter_filepath), chapter.chapter_filepath)
            samples = to_float32(decode(segment)).mean(axis=1, dtype=np.float32)
        samples = resample(samples, segment.info.sampling_rate, rate)
        if chapter.duration is not None and abs(len(samples) / rate - chapter.duration) > MAX_DIFFERENCE:
            detail = f"it has {len(samples) / rate:.3f} s, and had {chapter.duration:.3f} s when it was published"
            raise RecordRejected(RejectReason.DURATION_MISMATCH, detail)
        return samples

    @contextlib.contextmanager
    def _file(self, chapter: _Chapter) -> Iterator[str]:
        """Yield the path of a chapter: in the user's copy, or a fetched file, which is removed afterwards."""
        name = chapter.chapter_filepath
        if may_lie_outside(name):
            raise RecordRejected(RejectReason.BAD_FIELD, "the path of the chapter may lie outside of the corpus")
        if self._asked.chapters is not None:
            yield str(self._asked.chapters / name)
            return
        archive = Archive(os.path.basename(name), (chapter.url,))
        if self._asked.base_url is not None:
            archive = Archive(archive.name, (f"{self._asked.base_url.rstrip('/')}/{name}",))
        try:
            path = fetch(archive, self._writer.folder / "chapter", lambda *_: None)
        except (FetchError, BusyError) as error:
            raise RecordRejected(RejectReason.MISSING_AUDIO, str(error)) from None
        yield str(path)
        path.unlink()
