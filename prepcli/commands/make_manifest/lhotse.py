"""Manifests of lhotse as sources: cuts, recordings, or supervisions, each of which is joined to its recording."""

import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from prepcli.commands.make_manifest.entries import SourceEntry, rejected_entry
from prepcli.commands.make_manifest.source import EntrySource, byte_lines
from prepcli.commands.make_manifest.tables import Table, spool_table
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.manifest.languages import language_code
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


class _Supervision(msgspec.Struct, gc=False):
    id: str
    recording_id: str = ""
    start: float = 0.0
    duration: float = 0.0
    channel: int | list[int] = 0
    text: str | None = None
    speaker: str | int | None = None
    language: str | None = None
    gender: str | None = None
    custom: dict[str, Any] | None = None


class _Line(msgspec.Struct, gc=False):
    """A line with a recording or a cut: only a recording has `sources`, only a cut has a `type`."""

    id: str
    type: str = ""
    sources: list[_AudioSource] | None = None
    transforms: Any = None
    start: float = 0.0
    duration: float = 0.0
    channel: int | list[int] = 0
    recording: _Recording | None = None
    supervisions: list[_Supervision] = []


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
        needs_unique_keys=run_commands,
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
    _unknown: Counter[str] = field(default_factory=Counter)
    _arrays: int = 0

    def entries(self) -> Iterator[SourceEntry]:
        """The entries in the order of the main file."""
        self._unknown.clear()
        self._arrays = 0
        read: Callable[[bytes, int], SourceEntry] = self._cut
        if self.files.recordings is not None:
            self.used, self._last = array("q"), None
            self._recordings = self._recordings or _table_of(self.files.recordings, self.folder)
            read = partial(self._joined, self._recordings)
        for number, line in byte_lines(self.files.main):
            try:
                yield read(line, number)
            except RecordRejected as rejected:
                yield rejected_entry(rejected.reason, rejected.detail, number, _text(line))
            except msgspec.ValidationError as error:
                detail = f"it is not a cut, a recording or a supervision of lhotse: {error}"
                yield rejected_entry(RejectReason.BAD_FIELD, detail, number, _text(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                yield rejected_entry(RejectReason.BROKEN_JSON, f"broken JSON: {error}", number, _text(line))

    def notes(self) -> Iterator[str]:
        """Notes on data that were left out, and on languages for which no code is known."""
        if self._recordings is not None:
            import numpy as np

            left = self._recordings.num_unused(np.array(self.used, np.int64))
            if left:
                yield f"{left:,} of {len(self._recordings):,} recordings have no supervision and are left out"
        if self._unknown:
            names = ", ".join(f"{name} ({count:,})" for name, count in self._unknown.most_common(4))
            yield f"languages without a known code are kept as `language`, not as `lang`: {names}"
        if self._arrays:
            yield f"{self._arrays:,} custom fields refer to arrays or recordings of lhotse and are left out"

    def fields(self, id: str, supervision: _Supervision | None) -> dict[str, Any]:
        """The fields of a record: `id`, text, speaker, gender and language, and the `custom` fields of the supervision.

        If `custom` has an `id`, it replaces the argument `id`: in a Shar that prepcli made from a manifest, `custom`
        has the id that the record had in the manifest. Without a supervision there is only `id`.
        """
        found: dict[str, Any] = {"id": id}
        if supervision is None:
            return found
        language = supervision.language
        for name in ("text", "speaker", "gender"):
            value = getattr(supervision, name)
            if value is not None:
                found[name] = value
        if language:
            code = language_code(language)
            found["language" if code is None else "lang"] = code or language
            if code is None:
                self._unknown[language] += 1
        for name, value in (supervision.custom or {}).items():
            if _refers_to_data(value):
                self._arrays += 1
            elif name not in found or name == "id":
                found[name] = value
        return found

    def audio_of(self, recording: _Recording, channel: int | list[int] | None) -> tuple[str, int | None]:
        """Find the file that holds a channel of a recording.

        Returns:
            The path of the file, or `command |`; and the index of the channel in the file, None if the file has only
            one channel or `channel` is None.

        Raises:
            RecordRejected: the audio is not one channel of one file.
        """
        if recording.transforms:
            _refuse("its recording has transforms (resampling, speed, ...); save the audio first")
        if isinstance(channel, list):
            if len(channel) != 1:
                _refuse(f"it is of the channels {', '.join(map(str, channel))}; a record names one channel, or a file")
            channel = channel[0]
        sources = [one for one in recording.sources if channel is None or channel in one.channels]
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

    def _cut(self, line: bytes, number: int) -> SourceEntry:
        cut = _decode_line(line)
        if cut.sources is not None:
            path, _ = self.audio_of(_Recording(cut.id, cut.sources, cut.transforms), None)
            return SourceEntry(path, number, cut.id, {"id": cut.id})
        if cut.type != "MonoCut":
            _refuse(f"it is a {cut.type}; only cuts of one channel of one recording (MonoCut) name a part of one file")
        if cut.recording is None:
            _refuse("the cut has no recording")
        if len(cut.supervisions) > 1:
            _refuse(
                f"the cut has {len(cut.supervisions)} supervisions; cut it with lhotse's trim_to_supervisions first"
            )
        path, channel = self.audio_of(cut.recording, cut.channel)
        fields = self.fields(cut.id, cut.supervisions[0] if cut.supervisions else None)
        return _segment(path, number, cut.id, fields, channel, cut.start, cut.duration)

    def _joined(self, recordings: Table, line: bytes, number: int) -> SourceEntry:
        """The entry of a supervision. Its recording is looked up, unless the previous supervision had the same one."""
        supervision = _decode_supervision(line)
        id = supervision.recording_id
        if self._last is None or self._last.id != id:
            self.used.append(hash(id))
            text = recordings.find(id)
            if text is None:
                _refuse(f"there is no recording {id} in {recordings.path}")
            self._last = _decode_recording(text)
        path, channel = self.audio_of(self._last, supervision.channel)
        fields = self.fields(supervision.id, supervision)
        return _segment(path, number, supervision.id, fields, channel, supervision.start, supervision.duration)


def _segment(
    path: str, number: int, id: str, fields: dict[str, Any], channel: int | None, start: float, duration: float
) -> SourceEntry:
    """The entry of the part of a file that starts at `start` and lasts `duration` (seconds).

    If `start` is 0, the entry has no offset: the header of the file shows later whether the part is the whole file.
    """
    if not 0 <= start < float("inf") or not 0 < duration < float("inf"):
        raise RecordRejected(RejectReason.BAD_OFFSET, f"it begins at {start} s and lasts {duration} s")
    if channel is not None:
        fields["channel"] = channel
    return SourceEntry(path, number, id, fields, start or None, duration)


def _table_of(path: str, folder: Path) -> Table:
    """Index the recordings of a file by their ids; `folder` is for a temporary file."""

    def rows() -> Iterator[tuple[str, bytes]]:
        encode = msgspec.json.Encoder().encode
        for number, line in byte_lines(path):
            try:
                recording = msgspec.json.decode(line, type=_Recording)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise UsageError(
                    f"{path}:{number} is not a recording of lhotse: {error}; make the file again"
                ) from None
            yield recording.id, encode(recording)

    return spool_table(path, rows(), lambda line: (_decode_recording(line).id, line), folder)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _refers_to_data(value: object) -> bool:
    """Whether a custom value refers to an array or a recording of lhotse, which a manifest cannot hold."""
    if not isinstance(value, dict):
        return False
    inner = value.get("array")
    return "storage_type" in value or "sources" in value or (isinstance(inner, dict) and "storage_type" in inner)


def _refuse(detail: str) -> NoReturn:
    raise RecordRejected(RejectReason.BAD_FIELD, detail)


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_recording = msgspec.json.Decoder(_Recording).decode
_decode_supervision = msgspec.json.Decoder(_Supervision).decode
