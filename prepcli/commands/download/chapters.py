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
from prepcli.commands.download.prepare import exclusive_lock
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.function import Output, run
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import with_continuation
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import IncompleteError, RecordRejected, RejectReason, UsageError, naming, option
from prepcli.formats.names import normal_path
from prepcli.gate import FirstPlaces, text_hash
from prepcli.interface.calls import current_call
from prepcli.jobs.record_job import RecordContents, RecordUnit, units_of
from prepcli.jobs.records import Records
from prepcli.jobs.source import items
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.index import content_digest
from prepcli.manifest.record import Record, Value
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.split import seconds_of
from prepcli.processes.signals import stop_on_signals
from prepcli.storage.input_files import read_at, state_of
from prepcli.storage.transfer import BusyError, FetchError

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


def fetch_lists(lists: Sequence[Archive], name: str, output: Output) -> Path:
    """Return the folder with the published lists of an edition, which are fetched if they are not there.

    `name`: the name of the edition, for messages.

    Raises:
        UsageError: lists are missing, and this is a dry run or a run with several ranks.
        FetchError: no server has a list.
        IncompleteError: the servers cannot be reached; the same command continues.
    """
    workspace, engine = output.workspace, output.engine
    folder = workspace.root / "metadata"
    missing = [one for one in lists if not (folder / one.name).exists()]
    if missing and (engine.dry_run or engine.rank.world_size > 1):
        raise UsageError(
            f"{missing[0].name} is not here yet; run the command once without ranks and with {option('--fetch-only')}, "
            f"or give {option('--metadata')}"
        )
    try:
        with stop_on_signals(), exclusive_lock(workspace, name) if missing else contextlib.nullcontext():
            for one in missing:
                with fetch_bar(one.name) as show:
                    fetch(one, folder, show)
    except IncompleteError as error:
        raise with_continuation(error, current_call().command, workspace) from None
    return folder


@dataclass(frozen=True, slots=True)
class ChapterContents(RecordContents):
    """The records of the published manifest, and their chapters.

    Attributes:
        chapter: the number of each record's chapter, from 0; -1 if no chapter has the record, -2 if several have it.
        repeated: pairs of a record and the first record with the same `audio_filepath`, ascending; shape (n, 2).
        lines: for each chapter, the offset (bytes) of its line in the published list of chapters. The last item is the
            size of the list.
    """

    chapter: NDArray[np.int64]
    repeated: NDArray[np.int64]
    lines: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Edition:
    """An edition of a corpus whose long recordings are fetched one by one, and cut.

    Attributes:
        name: its name, such as `hifitts2_22khz`; also that of its folder in the data root.
        corpus: the name of the corpus in the field `speaker`.
        sets: the values of the field `set`; each has a manifest.
        rate: the sampling rate of the utterances (Hz).
        manifest: the path of the published manifest of utterances.
        list: the path of the published list of chapters.
        copies: a folder with copies of the chapters; None: they are fetched.
        base_url: the address below which they are fetched; None: the publishers'.
    """

    name: str
    corpus: str
    sets: Sequence[str]
    rate: int
    manifest: str
    list: str
    copies: Path | None
    base_url: str | None


def cut_chapters(edition: Edition, output: Output) -> Report:
    """Cut chapters into utterances, and write manifests of these in the data root `output`.

    A record is a line of the published manifest; a unit is a few chapters and their records.

    Raises:
        UsageError: the published manifest or the list of chapters does not exist.
    """
    for path in (edition.manifest, edition.list):
        if not os.path.isfile(path):
            raise UsageError(f"{path} does not exist: {option('--metadata')} holds the published manifests")
    settings = {"corpus": edition.name}

    def plan(workspace: Workspace) -> Plan[RecordUnit, ChapterContents]:
        keys = {"path": normal_path}
        records = Records([edition.manifest], keys=keys, workspace=workspace, num_workers=output.engine.num_workers)
        state = state_of(edition.list)
        values = records.layout(
            [current_call().command, settings, repr(state)], partial(_by_chapter, records, edition.list)
        )
        units = units_of("chapters", values["bounds"].tolist(), values["seconds"].tolist(), make=RecordUnit)
        arrays = {name: values[name] for name in ("chapter", "repeated", "lines", "order")}
        made = records.plan(units, ChapterContents(records, **arrays))
        made.inputs.append(InputFile(edition.list, values["sha256"], state, content_digest))
        return replace(made, missing_sample=lambda: None)  # the manifest names files that this command makes

    def write(contents: ChapterContents, unit: RecordUnit, writer: UnitWriter) -> None:
        cutter = _Cutter(edition, contents, writer)
        for item in items(contents, unit, writer):
            with item:
                item.seconds = cutter.add(item.number, item.record)

    def join(made: Plan[RecordUnit, ChapterContents], markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        for one in edition.sets:
            parts = (f"parts/{marker.unit}.{one}.jsonl" for marker in markers)
            writer.join(f"{edition.name}/{one}.json", (part for part in parts if writer.part(part).exists()))
        return {one: output.path / edition.name / f"{one}.json" for one in edition.sets}

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
    known = np.frombuffer(bytes(hashes), "<u8")
    by_hash = np.argsort(known, kind="stable")
    wanted = records.index.keys["path"]
    chapter = np.full(len(records), -1, np.int64)
    if len(known):
        at = np.minimum(np.searchsorted(known, wanted, sorter=by_hash), len(known) - 1)
        is_known = known[by_hash[at]] == wanted
        chapter[is_known] = np.array(owners, np.int64)[by_hash[at[is_known]]]
        in_order = known[by_hash]
        chapter[np.isin(wanted, in_order[1:][in_order[1:] == in_order[:-1]])] = -2
    _, firsts_of, numbers = np.unique(wanted, return_index=True, return_inverse=True)
    first = firsts_of[numbers]
    again = np.flatnonzero(first != np.arange(len(first)))
    order = np.argsort(chapter, kind="stable")
    firsts = np.arange(0, len(lines) + CHAPTERS_PER_UNIT, CHAPTERS_PER_UNIT)
    bounds = np.unique([0, *np.searchsorted(chapter[order], firsts), len(records)])
    return {
        "order": order,
        "bounds": bounds,
        "seconds": seconds_of(records.index.duration, order, bounds),
        "chapter": chapter,
        "repeated": np.stack([again, first[again]], axis=1),
        "lines": np.array([*lines, offset], np.int64),
        "sha256": digest.hexdigest(),
    }


class _Cutter:
    """Cuts the utterances of a unit, chapter by chapter."""

    def __init__(self, edition: Edition, contents: ChapterContents, writer: UnitWriter) -> None:
        self._edition, self._contents, self._writer = edition, contents, writer
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
        if part is None or part not in self._edition.sets:
            raise RecordRejected(RejectReason.BAD_FIELD, f"set is {part!r}, not one of {', '.join(self._edition.sets)}")
        if speaker is None:
            raise RecordRejected(RejectReason.MISSING_FIELD, "there is no speaker")
        self._check_first(number, path)
        self._open(int(self._contents.chapter[number]))
        samples = self._cut(path)
        rate = self._edition.rate
        self._writer.add(f"{self._edition.name}/{path}", encode(samples, rate, "flac"))
        changes: dict[str, Value] = {
            "duration": len(samples) / rate,
            "speaker": speaker_name("en", self._edition.corpus, str(speaker)),
        }
        if part not in self._lines:
            self._lines[part] = self._writer.open_part(f"parts/{self._writer.unit.id}.{part}.jsonl")
        self._lines[part].write(record.to_json(changes) + b"\n")
        return len(samples) / rate

    def _check_first(self, number: int, path: str) -> None:
        """Raise `RecordRejected` if an earlier record has the same path."""
        repeated, records = self._contents.repeated, self._contents.records
        at = int(np.searchsorted(repeated[:, 0], number))
        if at < len(repeated) and repeated[at, 0] == number:
            first = int(repeated[at, 1])
            places = FirstPlaces(frozenset({text_hash(normal_path(path))}))
            for record in (first, number):
                name = normal_path(records.record(record).audio_filepath)
                places.check(name, "{}:{}".format(*records.origin(record)))

    def _cut(self, path: str) -> NDArray[np.float32]:
        """The samples of an utterance; its start and end are rounded down to samples, as the publisher does.

        Raises:
            RecordRejected: the utterance is empty, or ends more than `MAX_DIFFERENCE` after its chapter.
        """
        offset, seconds = self._spans[normal_path(path)]
        rate = self._edition.rate
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
            raise RecordRejected(
                RejectReason.BAD_FIELD, f"{self._edition.list} has it several times: which one is meant?"
            )
        if number < 0:
            raise RecordRejected(RejectReason.MISSING_AUDIO, f"no chapter of {self._edition.list} has it")
        if number != self._number:
            self._number, self._problem, self._samples = number, None, np.empty(0, np.float32)
            first, end = self._contents.lines[number : number + 2].tolist()
            with Path(self._edition.list).open("rb") as file:
                lines = read_at(file.fileno(), end - first, first)  # damaged lines may follow
            chapter = msgspec.json.decode(lines.partition(b"\n")[0], type=_Chapter)
            self._spans = {normal_path(one.audio_filepath): (one.offset, one.duration) for one in chapter.utterances}
            try:
                self._samples = self._read(chapter)
            except RecordRejected as rejected:
                self._problem = RecordRejected(rejected.reason, f"{chapter.chapter_filepath}: {rejected.detail}")
        if self._problem is not None:
            raise self._problem

    def _read(self, chapter: _Chapter) -> NDArray[np.float32]:
        """The samples of a chapter, as the mean of its channels, and at the sampling rate of the edition."""
        rate = self._edition.rate
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
        if self._edition.copies is not None:
            yield str(self._edition.copies / name)
            return
        archive = Archive(os.path.basename(name), (chapter.url,))
        if self._edition.base_url is not None:
            archive = Archive(archive.name, (f"{self._edition.base_url.rstrip('/')}/{name}",))
        try:
            path = fetch(archive, self._writer.folder / "chapter", lambda *_: None)
        except (FetchError, BusyError) as error:
            raise RecordRejected(RejectReason.MISSING_AUDIO, str(error)) from None
        yield str(path)
        path.unlink()
