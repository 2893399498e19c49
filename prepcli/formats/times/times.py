"""Finds the texts with times of recordings, in a folder with a file for each, or in a file of one or many."""

import contextlib
import hashlib
import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prepcli.engine.state.plan import InputFile, input_file
from prepcli.errors import InputChangedError, RecordRejected, RejectReason, UsageError, naming, option, same_command
from prepcli.formats.audio_names import is_audio_name
from prepcli.formats.times.cues import note_on_repeated, read_cues
from prepcli.formats.times.documents import timed_of
from prepcli.formats.times.named_lines import NamedLines, stripped
from prepcli.formats.times.recognition import FORMS, Form, decoded, form_of
from prepcli.formats.times.rows import Row, by_channel, ctm_row, read_audacity, rttm_row, segments_row
from prepcli.formats.times.textgrid import read_textgrid
from prepcli.formats.times.timed import Timed, check_unit, damaged
from prepcli.gate import repeated_hashes, text_hash
from prepcli.interface.printing import number_of
from prepcli.storage.addresses import is_address

_HEAD_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"
_NAME_COLUMNS = {"ctm": 0, "rttm": 1, "kaldi": 1}
"""The column with the name of the recording, in forms that are made for many recordings."""
_CHANNEL_COLUMNS = {"ctm": 1, "rttm": 2}
_ROWS = {"ctm": ctm_row, "rttm": rttm_row, "kaldi": segments_row}
_SEGMENTS = "segments"
_REPEATED, _OF_OTHERS = "repetitions", "rows_of_others"
"""Keys of what `Times.of` leaves out."""
_ALIKE: tuple[frozenset[str], ...] = (frozenset(("srt", "vtt")), frozenset(("ctm", "kaldi")))
"""Forms that content does not always distinguish; the user may say which it is."""


class _Names(NamedTuple):
    """The names of a recording by which its times are found; those by which others are called too are left out."""

    exact: tuple[str, ...]
    stems: tuple[str, ...]
    id: str | None = None

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys((*self.exact, *self.stems)))


class Times:
    """The texts with times of the recordings of an input.

    Attributes:
        path: the folder or file.
        form: the form of the file; `auto` for a folder in which each file shows its own.
        left_out: what `of` has left out, for `notes_on_left_out`: the number of cues of which lines were left out
            (`Cues`), and of rows of other recordings in files of one.
        read_from: the file from which `of` has read last.
    """

    def __init__(self, path: str, format: str, recordings: Iterable[str]) -> None:
        """Open a folder or a file.

        Args:
            path: a folder with a file for each recording, a data directory of Kaldi, or a file of one or of many.
            format: one of `FORMS`, or `auto`, which decides by content.
            recordings: the paths of all audio files of the input; they may repeat. They show which names are of
                several files and so match nothing, and whether there is only one.

        Raises:
            UsageError: nothing is there, or it is not in this form, or in none.
        """
        if is_address(path):
            raise UsageError(f"{path} lies in a store; copy it to this machine first")
        if not os.path.exists(path):
            raise UsageError(f"{option('--times', path)} does not exist; give a folder or a file with times")
        self.path, self.form = path, format
        self.left_out = Counter[str]()
        self.read_from = path
        paths = np.unique(np.array([_hashes(path) for path in recordings], np.int64).reshape(-1, 3), axis=0)
        self._is_only = len(paths) == 1
        self._stems = np.unique(paths[:, 1:])
        self._ambiguous, self._ambiguous_stems = (
            repeated_hashes(array("q", paths[:, column].tobytes())) for column in (1, 2)
        )
        self._files: _Folder | None = None
        self._lines: NamedLines | None = None
        self._tables: dict[str, NamedLines] = {}
        if os.path.isdir(path) and not (format in ("auto", "kaldi") and os.path.isfile(os.path.join(path, "segments"))):
            self._files = _Folder(path, format)
            return
        if os.path.isdir(path):
            self.path, self.form = os.path.join(path, "segments"), "kaldi"
        self.form = self._form_of_file()
        if self.form in _NAME_COLUMNS or (self.form == "json" and _has_keys(self.path)):
            self._lines = NamedLines(self.path, _NAME_COLUMNS.get(self.form), _CHANNEL_COLUMNS.get(self.form))
            folder = os.path.dirname(self.path)
            if self.form == "kaldi":
                beside = {name: os.path.join(folder, name) for name in ("text", "utt2spk")} | {_SEGMENTS: self.path}
                self._tables = {name: NamedLines(file, 0) for name, file in beside.items() if os.path.isfile(file)}

    def _form_of_file(self) -> str:
        head = _head(self.path)
        if head.startswith(_GZIP):
            raise UsageError(f"{self.path} is compressed; unpack it first, because its lines are read in any order")
        form = _form_of_head(head, self.path)
        asked = self.form
        if asked == "auto" and form is None:
            raise UsageError(
                f"{self.path} has no times in a form that is known ({', '.join(FORMS)}); name its form with "
                f"{option('--times-format')}"
            )
        if asked != "auto" and form not in (None, asked) and not any({asked, form} <= alike for alike in _ALIKE):
            raise UsageError(f"{self.path} is {form}, not {asked}; leave out {option('--times-format')}")
        if (form if asked == "auto" else asked) in _NAME_COLUMNS and b"\0" in head:
            raise UsageError(f"{self.path} is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {self.path} > NEW")
        return asked if asked != "auto" else str(form)

    def of(
        self,
        relative_path: str,
        id: str | None = None,
        channel: int | None = None,
        seconds: Callable[[], float] | None = None,
    ) -> list[Timed]:
        """The lines and words of a recording, sorted by their start; those with equal starts as in the file.

        Args:
            relative_path: the path of the audio below the folder of the audio.
            id: the id of the record, if it has one.
            channel: the channel of the audio, from 0, to which a CTM, an RTTM or `segments` with channels is limited;
                None: all.
            seconds: gives the length of the audio file, which may show that times do not count in seconds from its
                start; None: this is not checked.

        Raises:
            RecordRejected: MISSING_FIELD if there are no times for it, BAD_FIELD if they are damaged, or if two
                files may be meant, or if times do not fit the length of the audio at all, NOT_UTF8.
        """
        names = self._names(relative_path, id)
        if self._lines is not None:
            place, form, timed = self._lines.path, self.form, self._from_lines(self._lines, names, channel)
        else:
            place, form = self._file_of(names)
            names = names._replace(id=id)
            timed = self._read(place, form, names, channel, seconds)
        self.read_from = place
        if seconds is not None and form not in ("srt", "vtt"):  # their times say what is hours, minutes and seconds
            check_unit(timed, seconds, place)
        return sorted(timed, key=lambda item: item.start)

    def look_up(self, relative_path: str, id: str | None = None) -> None:
        """Find the times of a recording without reading them, for `inputs` and `unused`."""
        names = self._names(relative_path, id)
        with contextlib.suppress(RecordRejected):
            if self._lines is None:
                self._file_of(names)
            else:
                self._lines.mark((*names.exact, *names.stems))

    def unused(self) -> Iterator[str]:
        """The names in the times that no recording has asked for, by calls of `of` in this process."""
        if self._files is not None:
            return self._files.unused()
        return iter(()) if self._lines is None else self._lines.unused()

    @property
    def inputs(self) -> list[InputFile]:
        """The files that were read, for the digest of a plan; a folder stands for those that `of` has read."""
        if self._files is not None:
            return [self._files.input]
        if self._lines is None:
            return [input_file(self.path)]
        tables = (lines for name, lines in self._tables.items() if name != _SEGMENTS)
        return [InputFile(lines.path, lines.sha256, lines.state) for lines in (self._lines, *tables)]

    def _names(self, relative_path: str, id: str | None) -> _Names:
        _, whole, stem = _hashes(relative_path)
        name = os.path.basename(relative_path)
        if id is not None and (self._files is not None or self._is_of_another(id, whole, stem)):
            id = None
        exact = [] if id is None else [id]
        exact += [] if whole in self._ambiguous else [os.path.splitext(relative_path)[0]]
        stems = () if stem in self._ambiguous_stems else (os.path.splitext(name)[0], name)
        return _Names((*exact, relative_path), stems, id)

    def _is_of_another(self, id: str, whole: int, stem: int) -> bool:
        """Whether another recording is called so: ids that number records, and names that number files, differ."""
        name = text_hash(id)
        at = np.searchsorted(self._stems, name)
        return name not in (whole, stem) and bool(at < len(self._stems) and self._stems[at] == name)

    def _file_of(self, names: _Names) -> tuple[str, Form]:
        if self._files is not None:
            return self._files.file_of(names)
        stem = os.path.splitext(os.path.basename(self.path))[0]
        if not self._is_only and stem not in (*names.exact, *names.stems):
            raise _missing(names, f"{self.path} has the times of one recording")
        return self.path, self.form  # type: ignore[return-value]

    def _from_lines(self, lines: NamedLines, names: _Names, channel: int | None) -> list[Timed]:
        first, *others = dict.fromkeys((*names.exact, *names.stems))
        for name in (first, *others):
            if not (blocks := lines.blocks(name)):
                continue
            if name == names.id and (other := next(filter(lines.blocks, others), None)):
                raise damaged(lines.path, f"{name}, the id, and {other}, the audio, have times, and one is needed")
            if self.form == "json":
                if len(blocks) > 1:
                    raise damaged(lines.path, f"several objects have the key {name}")
                place = f"{lines.path}:{blocks[0].number}"
                return timed_of(_parsed(decoded(stripped(blocks[0].data), place), place), place)
            row_of = self._segment if self.form == "kaldi" else _ROWS[self.form]
            rows = [
                row
                for block in blocks
                for number, line in enumerate(_decoded_lines(block.data, lines.path), block.number)
                if (row := row_of(line, f"{lines.path}:{number}")) is not None and row.recording == name
            ]
            return list(by_channel(rows, channel, lines.path, lines.channels))
        raise _missing(names, f"looked for in {lines.path}")

    def _segment(self, line: str, place: str) -> Row | None:
        if columns := line.split():
            self._value(_SEGMENTS, columns[0])
        return segments_row(line, place, self._value)

    def _value(self, table: str, utterance: str) -> str | None:
        """The text or the speaker of an utterance of Kaldi, or the rest of its line in `segments`; None if it has none.

        Raises:
            RecordRejected: BAD_FIELD if there are two: it is not known which is meant.
        """
        if table not in self._tables:
            return None
        path, values = self._tables[table].path, dict[int, str]()
        for block in self._tables[table].blocks(utterance):
            for number, line in enumerate(_decoded_lines(block.data, path), block.number):
                if (words := line.split()) and words[0] == utterance:
                    values[number] = " ".join(words[1:])
        if len(values) > 1:
            first, second, *_ = values
            raise damaged(
                f"{path}:{second}", f"the utterance {utterance} has a line before, {first}, and one is needed"
            )
        return next(iter(values.values()), None)

    def _read(
        self, path: str, form: Form, names: _Names, channel: int | None, seconds: Callable[[], float] | None
    ) -> list[Timed]:
        """The items of a file of one recording. If its lines name recordings, those of this one."""
        with naming(path):
            text = decoded(Path(path).read_bytes(), path)
        if form in ("srt", "vtt"):
            lines, num_repeated = read_cues(text, path, is_vtt=form == "vtt")
            self.left_out[_REPEATED] += num_repeated
            return lines
        if form == "textgrid":
            return read_textgrid(text, path, seconds)
        if form == "audacity":
            return read_audacity(text, path)
        if form == "json":
            return timed_of(_parsed(text, path), path)
        rows: list[Row] = []
        for number, line in enumerate(text.split("\n"), start=1):
            if (row := _ROWS[form](line, f"{path}:{number}")) is not None:
                rows.append(row)
        channels = {row.channel for row in rows}
        stem = os.path.splitext(os.path.basename(path))[0]
        wanted = {*names.exact, *names.stems, names.id, stem, "_".join(stem.split())}  # rows have no blanks in names
        its_own = [row for row in rows if row.recording in wanted or _stem(row.recording) in wanted]
        if rows and not its_own:
            raise _missing(names, f"{path} names {rows[0].recording}, and none of these")
        self.left_out[_OF_OTHERS] += len(rows) - len(its_own)
        return list(by_channel(its_own, channel, path, channels))


def notes_on_left_out(left_out: Mapping[str, float]) -> dict[str, str]:
    """The notes on what was left out (`Times.left_out`), by their names in a report; `left_out` may have other keys."""
    notes = {}
    if count := int(left_out.get(_REPEATED, 0)):
        notes[_REPEATED] = note_on_repeated(count)
    if count := int(left_out.get(_OF_OTHERS, 0)):
        rows = number_of(count, "row", "name")
        notes[_OF_OTHERS] = f"{rows} another recording than the file: left out"
    return notes


class _Folder:
    """A folder with a file of times for each recording; other files may lie there too."""

    def __init__(self, path: str, format: str) -> None:
        self._path, self._format = path, format
        self._by_path: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        self._used = set[str]()
        self._digests = dict[str, str]()
        walked = set[str]()
        for folder, folders, files in os.walk(path, onerror=_stop, followlinks=True):
            real = os.path.realpath(folder)
            folders[:] = [] if real in walked else sorted(name for name in folders if not _is_left_out(name))
            for name in [] if real in walked else sorted(files):
                if not (is_audio_name(name) or _is_left_out(name)):
                    relative = os.path.relpath(os.path.join(folder, name), path)
                    self._by_path.setdefault(os.path.splitext(relative)[0], []).append(relative)
                    self._by_stem.setdefault(os.path.splitext(name)[0], []).append(relative)
            walked.add(real)
        if not self._by_path:
            raise UsageError(f"{path} has no files with times; give another folder with {option('--times')}")

    def file_of(self, names: _Names) -> tuple[str, Form]:
        """The file with the times of a recording, and its form."""
        others = list[str]()
        for index, keys in ((self._by_path, names.exact), (self._by_stem, names.stems)):
            files = [file for key in keys for file in index.get(key, ())]
            found = [(file, form) for file in files if (form := self._form(file))]
            if len(found) > 1:
                both = " and ".join(os.path.join(self._path, file) for file, _ in found)
                raise damaged(names.exact[0], f"{both} both have its times, and one is needed: {self._remedy(found)}")
            if found:
                ((file, form),) = found
                self._used.add(file)
                path = os.path.join(self._path, file)
                digest = input_file(path).sha256
                if self._digests.setdefault(file, digest) != digest:
                    raise InputChangedError(f"{path} was changed during the run; run {same_command()} again")
                return path, form
            others += files
        form_asked = "a form that is known" if self._format == "auto" else f"the form {self._format}"
        odd = "".join(f"; {file} has no times in {form_asked}" for file in dict.fromkeys(others))
        raise _missing(names, f"looked for in {self._path}{odd}")

    def _remedy(self, found: list[tuple[str, Form]]) -> str:
        forms = dict.fromkeys(form for _, form in found)
        if len(forms) < len(found):
            return "move one away"
        return f"give {' or '.join(option('--times-format', form) for form in forms)}"

    def _form(self, file: str) -> Form | None:
        path = os.path.join(self._path, file)
        try:
            form = _form_of_head(_head(path), path)
        except FileNotFoundError:  # a link that leads nowhere
            return None
        return form if self._format in ("auto", form) else None

    def unused(self) -> Iterator[str]:
        """The files with times that no recording has asked for."""
        files = (file for files in self._by_path.values() for file in files if file not in self._used)
        return (file for file in files if self._has_times(file))

    def _has_times(self, file: str) -> bool:
        try:
            return self._form(file) is not None
        except OSError:  # no recording asks for it
            return False

    @property
    def input(self) -> InputFile:
        """The files that were read, as one."""
        content = json.dumps(sorted(self._digests.items())).encode()
        return InputFile(self._path, hashlib.sha256(content).hexdigest())


def _is_left_out(name: str) -> bool:
    """Whether a file or folder is hidden, or holds the state of runs."""
    return name.startswith(".") or name.endswith(".prepcli")


def _stop(error: OSError) -> None:
    raise error


def _stem(path: str) -> str:
    """The name of audio without its folder and suffix."""
    name = os.path.basename(path)
    return os.path.splitext(name)[0] if is_audio_name(name) else name


def _parsed(text: str, place: str) -> object:
    try:
        document = json.loads(text)
        if "\\u" in text:  # half of a character cannot be written
            json.dumps(document, ensure_ascii=False).encode()
        return document
    except (ValueError, RecursionError) as error:
        raise damaged(place, f"it is not JSON ({error})") from None


def _decoded_lines(data: bytes, path: str) -> list[str]:
    return decoded(data, path).split("\n")


def _head(path: str) -> bytes:
    """The first bytes of a file, which show its form."""
    with naming(path), Path(path).open("rb") as file:
        return file.read(_HEAD_BYTES)


def _form_of_head(head: bytes, path: str) -> Form | None:
    """The form of a file by its first bytes, the last of which may be a part of a character."""
    for num_bytes in range(len(head), max(len(head) - 4, -1), -1):
        try:
            return form_of(decoded(head[:num_bytes], path), path)
        except RecordRejected:
            continue
    # Each form shows in ASCII. Reading the file is a reject with the remedy; without a form it would not be found.
    return form_of(head.decode("latin-1"), path)


def _has_keys(path: str) -> bool:
    """Whether JSON is a list or lines of objects with keys, as FunASR gives them for many recordings."""
    return _head(path).lstrip(b"\xef\xbb\xbf \t\r\n[{").startswith(b'"key"')


def _hashes(path: str) -> tuple[int, int, int]:
    """The hashes of the path of an audio file, of the path without its suffix, and of its stem."""
    whole = os.path.splitext(path)[0]
    return text_hash(path), text_hash(whole), text_hash(os.path.basename(whole))


def _missing(names: _Names, where: str) -> RecordRejected:
    return RecordRejected(RejectReason.MISSING_FIELD, f"there are no times for {names}: {where}")
