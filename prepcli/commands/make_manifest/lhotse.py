"""Manifests of lhotse as sources: cuts, recordings, or supervisions, each of which is joined to its recording."""

import io
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.source import EntrySource, byte_lines, line_blocks
from prepcli.commands.make_manifest.tables import Table, repeated_lines, spool_table
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.lenient_json import decode_json
from prepcli.gate import fit, text_hash, text_hashes
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.supervisions import SourceCut, SourceSupervision, SupervisionReader
from prepcli.manifest.sources import check_file

RECORDINGS, SUPERVISIONS, CUTS = "recordings", "supervisions", "cuts"
_SUFFIX = re.compile(r"\.jsonl(\.gz)?$")
_TEMPORARY = "_notfixed"
"""Files with this text in their names are ignored: lhotse's recipe of Fisher leaves such a file behind."""


class _AudioSource(msgspec.Struct, gc=False):
    type: str
    source: Any
    channels: list[int] = msgspec.field(default_factory=lambda: [0])


class _Recording(msgspec.Struct, gc=False):
    """A recording of lhotse, from a cut or from a file of recordings."""

    id: str
    sources: list[_AudioSource]
    transforms: Any = None


class _Line(SourceCut, gc=False):
    """A line with a recording or a cut: only a recording has `sources`, only a cut has a `type`."""

    sources: list[_AudioSource] | None = None
    transforms: Any = None
    recording: _Recording | None = None


_recording_decoder = msgspec.json.Decoder(_Recording)
_supervision_decoder = msgspec.json.Decoder(SourceSupervision)


class LhotseFiles(msgspec.Struct, frozen=True):
    """The files of one part of a corpus.

    Attributes:
        name: the name of the part, e.g. `ami-ihm_train`.
        main: the supervisions; without them the cuts or the recordings.
        recordings: the recordings of the supervisions; None if `main` is not supervisions.
    """

    name: str
    main: str
    recordings: str | None = None


def files_in(folder: str, names: Iterable[str]) -> list[LhotseFiles]:
    """The parts of a corpus in `folder`, sorted by name. `names`: the names of the files in the folder.

    Two files are one part if their names differ in nothing but the word `recordings` or `supervisions`. Supervisions
    without recordings are left out.
    """
    parts = (files_of(os.path.join(folder, name)) for name in sorted(names) if _TEMPORARY not in name)
    return sorted({part.main: part for part in parts if part is not None}.values(), key=lambda part: part.name)


def files_of(path: str) -> LhotseFiles | None:
    """The part that a file of recordings, supervisions or cuts belongs to.

    Returns:
        The part; None if the file has another kind of name, or has supervisions without a file of recordings.
    """
    folder, name = os.path.split(path)
    for word, other in ((RECORDINGS, SUPERVISIONS), (SUPERVISIONS, RECORDINGS), (CUTS, CUTS)):
        if word not in name or not _SUFFIX.search(name):
            continue
        before, _, after = name.rpartition(word)
        counterpart = os.path.join(folder, before + other + after)
        part = _SUFFIX.sub("", f"{before.rstrip('_-.')}_{after.lstrip('_-')}").strip("_") or word
        if other == word or not os.path.isfile(counterpart):
            return None if word == SUPERVISIONS else LhotseFiles(part, path)
        return LhotseFiles(part, *_in_order(path, counterpart))
    return None


def _in_order(path: str, counterpart: str) -> tuple[str, str]:
    """Return first the path of the supervisions, then the path of the recordings.

    The content of the files decides, not their names, because one recipe of lhotse gives each the name of the other.
    """
    both = sorted((path, counterpart), key=_holds_recordings)
    return both[0], both[1]


def _holds_recordings(path: str) -> bool:
    _, line = next(byte_lines(path), (0, b"{}"))
    return b'"sources"' in line


def files_named(source: str) -> LhotseFiles | None:
    """The two files of a SOURCE `RECORDINGS,SUPERVISIONS`, in any order; None if it has another form.

    Raises:
        UsageError: one of the files does not exist, or both are of one kind.
    """
    first, comma, second = source.partition(",")
    if not comma or os.path.exists(source):
        return None
    for path in (first, second):
        check_file(path, "source")
    if _holds_recordings(first) == _holds_recordings(second):
        raise UsageError(f"SOURCE {source} must name recordings and supervisions of lhotse, and both are of one kind")
    return LhotseFiles("", *_in_order(first, second))


def files_at(source: str) -> LhotseFiles:
    """The files of lhotse that SOURCE names.

    SOURCE is a file of cuts, two files `RECORDINGS,SUPERVISIONS`, one file of a part of a corpus (such as `ami_train`),
    or a folder with the files of exactly one part.

    Raises:
        UsageError: the folder has the files of no part, or of several; and the errors of `files_named`.
    """
    if not os.path.isdir(source):
        return files_named(source) or files_of(source) or LhotseFiles("", source)
    parts = files_in(source, os.listdir(source))
    if not parts:
        raise UsageError(f"{source} has no recordings and supervisions of lhotse (*_recordings_*.jsonl.gz)")
    if len(parts) > 1:
        names = ", ".join(os.path.basename(part.main) for part in parts[:8])
        raise UsageError(f"{source} has {len(parts)} parts; name a file of one of them as SOURCE: {names}")
    return parts[0]


def lhotse_source(files: LhotseFiles, how: str, base: str, run_commands: bool, folder: Path) -> EntrySource:
    """The source with the entries of a part of a corpus; for `how` and `base` see `EntrySource`.

    `run_commands`: whether audio may come from a command in the files; else its records are rejected. `folder`: for a
    temporary file with the recordings.
    """
    reader = _Reader(files, run_commands, folder)
    return EntrySource(
        path=files.main,
        kind="lhotse",
        how=how,
        base=base,
        entries=reader.entries,
        files=(files.main, *filter(None, (files.recordings,))),
        has_ids=True,
        has_commands=run_commands,
        notes=reader.notes,
        hint="lhotse's relative paths start from the working directory; name another folder with "
        f"{option('--audio-base-dir')}",
    )


@dataclass
class _Reader:
    """Reads the entries of a part. Counts the data that it leaves out, for notes to the user."""

    files: LhotseFiles
    run_commands: bool
    folder: Path
    used: "array[int]" = field(default_factory=lambda: array("q"))  # hashes of ids of recordings
    _recordings: Table | None = None
    _last: _Recording | None = None
    _supervisions: SupervisionReader = field(default_factory=SupervisionReader)

    def entries(self) -> Iterator[SourceEntry]:
        """The entries in the order of the main file, and an entry for each recording whose id was there before."""
        self._supervisions = SupervisionReader()
        if self.files.recordings is None:
            for number, line in byte_lines(self.files.main):
                yield from self._read(self._cut, line, number)
            return
        self.used, self._last = array("q"), None
        recordings = self._recordings = self._recordings or _table_of(self.files.recordings, self.folder)
        read = partial(self._joined, recordings)
        for first, block in line_blocks(self.files.main):
            supervisions = _decoded(block, _supervision_decoder)
            if supervisions is not None:
                yield from self._joined_block(recordings, supervisions, block, first)
                continue
            for number, line in enumerate(io.BytesIO(block), first):
                if not line.isspace():
                    yield from self._read(read, line.removeprefix(b"\xef\xbb\xbf"), number)
        yield from repeated_lines(recordings, _recording_lines(recordings.path))

    def _read(
        self, read: Callable[[bytes, int], Iterable[SourceEntry]], line: bytes, number: int
    ) -> Iterator[SourceEntry]:
        """The entries that `read` makes of a line; a rejected entry if the line cannot be used."""
        try:
            yield from read(line, number)
        except RecordRejected as rejected:
            yield _rejected(rejected, number, line)
        except msgspec.ValidationError as error:
            detail = f"it is not a cut, a recording or a supervision of lhotse: {error}"
            yield rejected_entry(RejectReason.BAD_FIELD, detail, number, _text(line))
        except ValueError as error:
            yield rejected_entry(RejectReason.BROKEN_JSON, f"broken JSON: {error}", number, _text(line))

    def notes(self) -> Iterator[str]:
        """Notes on data that were changed or left out, and on languages for which no code is known."""
        if self._recordings is not None:
            import numpy as np

            left = self._recordings.num_unused(np.array(self.used, np.int64))
            if left:
                yield f"left out: {left:,} of {number_of(len(self._recordings), 'recording')}, without a supervision"
        yield from self._supervisions.notes()

    def audio_of(self, recording: _Recording, channel: Any) -> tuple[str, int | None]:
        """Find the file that holds a channel of a recording.

        Args:
            recording: the recording.
            channel: the number of the channel, or a list with it; None for a recording of which no channel is chosen.

        Returns:
            The path of the file, or `command |`; and the index of the channel in the file, None if the file has only
            one channel or `channel` is None.

        Raises:
            RecordRejected: the audio is not one channel of one file.
        """
        if len(recording.sources) == 1 and not recording.transforms:
            source = recording.sources[0]
            if source.type == "file" and type(channel) is int and source.channels == [channel]:
                return str(source.source), None  # nearly all
        if recording.transforms:
            _refuse("its recording has transforms (resampling, speed, ...); save the audio first")
        if isinstance(channel, list):
            if len(channel) != 1:
                _refuse(f"it is of the channels {', '.join(map(str, channel))}; a record names one channel, or a file")
            channel = channel[0]
        sources = [source for source in recording.sources if channel is None or channel in source.channels]
        if len(sources) != 1:
            what = "its audio" if channel is None else f"its channel {channel}"
            _refuse(f"{what} is in {len(sources)} of the {len(recording.sources)} files of its recording, not in one")
        source = sources[0]
        number = source.channels.index(channel) if channel is not None and len(source.channels) > 1 else None
        if source.type == "command" and self.run_commands:
            return f"{str(source.source).strip().removesuffix('|')} |", number
        if source.type != "file":
            todo = f"give {option('--run-commands')} if you trust it" if source.type == "command" else "save it first"
            _refuse(f"its recording is of type {source.type}, not a file; {todo}")
        return str(source.source), number

    def _cut(self, line: bytes, number: int) -> Iterator[SourceEntry]:
        """The entry of a recording, or those of a cut: one for each supervision."""
        cut: _Line = decode_json(line, _Line)
        if cut.sources is not None:
            path, _ = self.audio_of(_Recording(cut.id, cut.sources, cut.transforms), None)
            yield SourceEntry(path, number, cut.id, {"id": cut.id})
            return
        if not cut.type:
            _refuse("it is neither a cut nor a recording; supervisions need their recordings: RECORDINGS,SUPERVISIONS")
        if cut.type not in ("MonoCut", "MultiCut"):
            _refuse(f"it is a {cut.type}; only cuts of one recording (MonoCut, MultiCut) name a part of one file")
        if cut.recording is None:
            _refuse("the cut has no recording")
        start = cut.start
        if not (0 <= start < inf and 0 < cut.duration < inf):
            start = fit(start, cut.duration, inf, f"the cut {cut.id}", f"its recording {cut.recording.id}").start
        for record in self._supervisions.records(cut):
            if isinstance(record, RecordRejected):
                yield _rejected(record, number, line)
                continue
            try:
                speech = record.supervision if cut.type == "MultiCut" else None
                path, channel = self.audio_of(cut.recording, cut.channel if speech is None else speech.channel)
                begin = start + record.span.start
                # As in lhotse, the sum of two times has eight decimals.
                begin = round(begin, 8) if start and record.span.start else begin
                yield _segment(path, number, record.id, record.fields, channel, begin, record.span.duration)
            except RecordRejected as rejected:
                yield _rejected(rejected, number, line)

    def _joined_block(
        self, table: Table, supervisions: Sequence[SourceSupervision], block: bytes, first: int
    ) -> Iterator[SourceEntry]:
        """The entries of a block of supervisions, whose recordings are looked up together.

        `first`: the number of the first line. Lines of which anything is unusual are read by `_joined`.
        """
        hashes = text_hashes([supervision.recording_id for supervision in supervisions])
        found = table.lines_of(hashes)
        decoded = iter(_recording_decoder.decode_lines(b"\n".join(filter(None, found))))
        lines: list[bytes] = []
        for at, (supervision, text) in enumerate(zip(supervisions, found, strict=True)):
            recording = next(decoded) if text is not None else None
            rejected = None
            if recording is not None and recording.id == supervision.recording_id and recording.id and supervision.id:
                self.used.append(hashes[at])
                try:
                    yield self._segment_of(supervision, recording, first + at)
                    continue
                except RecordRejected as error:
                    rejected = error
            lines = lines or list(io.BytesIO(block))
            if rejected is not None:
                yield _rejected(rejected, first + at, lines[at])
            else:
                yield from self._read(partial(self._joined, table), lines[at], first + at)

    def _segment_of(self, supervision: SourceSupervision, recording: _Recording, number: int) -> SourceEntry:
        start, duration = supervision.start or 0.0, supervision.duration
        if duration is None or not (start >= 0 and 0 < duration < inf):
            start, duration, _ = self._supervisions.span(supervision, inf, "its recording ", recording.id)
        path, channel = self.audio_of(recording, supervision.channel)
        fields = self._supervisions.fields(supervision.id, supervision)
        return _segment(path, number, supervision.id, fields, channel, start, duration)

    def _joined(self, recordings: Table, line: bytes, number: int) -> Iterator[SourceEntry]:
        """The entry of a supervision. Its recording is looked up, unless the previous supervision had the same one."""
        supervision: SourceSupervision = decode_json(line, SourceSupervision)
        id = supervision.recording_id
        if not supervision.id or not id:
            _refuse(f"the supervision has no {'recording_id' if supervision.id else 'id'}")
        if self._last is None or self._last.id != id:
            self.used.append(text_hash(id))
            text = recordings.find(id)
            if text is None:
                _refuse(f"there is no recording {id} in {recordings.path}")
            self._last = msgspec.json.decode(text, type=_Recording)
        yield self._segment_of(supervision, self._last, number)


def _rejected(rejected: RecordRejected, number: int, line: bytes) -> SourceEntry:
    return rejected_entry(rejected.reason, rejected.detail, number, _text(line))


def _segment(
    path: str, number: int, id: str, fields: dict[str, Any], channel: int | None, start: float, duration: float
) -> SourceEntry:
    """The entry of the part of a file that starts at `start` and lasts `duration` (seconds).

    If `start` is 0, the entry has no offset: the header of the file shows later whether the part is the whole file.
    """
    if channel is not None:
        fields["channel"] = channel
    return SourceEntry(path, number, id, fields, start or None, duration)


def _table_of(path: str, folder: Path) -> Table:
    """Index the recordings of a file by their ids; `folder` is for a temporary file."""
    encode = msgspec.json.Encoder().encode_lines

    def key_and_line(line: str) -> tuple[str, str]:
        return msgspec.json.decode(line, type=_Recording).id, line

    blocks = (([recording.id for recording in some], encode(some)) for some, _ in _recordings_of(path))
    return spool_table(path, blocks, key_and_line, folder)


def _recordings_of(path: str) -> Iterator[tuple[list[_Recording], list[int]]]:
    """The recordings of a file in blocks, each with the numbers of their lines."""
    for first, block in line_blocks(path):
        recordings = _decoded(block, _recording_decoder)
        if recordings is not None:
            yield recordings, list(range(first, first + len(recordings)))
            continue
        for number, line in enumerate(io.BytesIO(block), first):
            if line.isspace():
                continue
            try:
                yield [decode_json(line.removeprefix(b"\xef\xbb\xbf"), _Recording)], [number]
            except ValueError as error:  # those of msgspec and of JSON are kinds of it
                detail = f"{path}:{number} is not a recording of lhotse: {error}; make the file again"
                raise UsageError(detail) from None


def _decoded(block: bytes, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    """The objects in a block of whole lines, one per line; None if its lines must be read one by one."""
    from prepcli.manifest.lines import decode_lines, line_ends  # with NumPy, which other sources do not need

    return None if b'"audio_file' in block else decode_lines(block, *line_ends(block), decoder)


def _recording_lines(path: str) -> Iterator[tuple[int, str, str]]:
    """The number of the line, the id and the JSON of each recording."""
    for recordings, numbers in _recordings_of(path):
        for number, recording in zip(numbers, recordings, strict=True):
            yield number, recording.id, msgspec.json.encode(recording).decode()


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _refuse(detail: str) -> NoReturn:
    raise RecordRejected(RejectReason.BAD_FIELD, detail)
