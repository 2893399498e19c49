"""Finds the format of a source: the one that the user names, or the one that its content shows."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path

from prepcli.commands.make_manifest.columns import (
    metadata_files,
    rows_of_metadata,
    rows_of_objects,
    rows_of_table,
    table_layout,
)
from prepcli.commands.make_manifest.entries import SourceEntry
from prepcli.commands.make_manifest.kaldi import WAV_SCP, kaldi_source
from prepcli.commands.make_manifest.lhotse import files_at, files_in, files_named, lhotse_source
from prepcli.commands.make_manifest.settings import MakeSettings
from prepcli.commands.make_manifest.source import EntrySource, other_entries, stem_of, text_lines
from prepcli.errors import UsageError, option
from prepcli.formats.audio_names import AUDIO_SUFFIXES, headerless_advice
from prepcli.formats.audiofolder import METADATA, is_metadata
from prepcli.formats.names import absolute_folder
from prepcli.formats.tarred import BUCKET
from prepcli.formats.wenet import list_kind
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.arrow import ARROW_SUFFIXES, is_arrow
from prepcli.manifest.json_kinds import OTHER, RECORDINGS, RECORDS, ROWS, SUPERVISIONS, decoded, kind_of_object
from prepcli.manifest.kinds import first_lines, is_fairseq, kind_of
from prepcli.manifest.remedies import make_manifest_of
from prepcli.manifest.sources import check_file

_WORK = ".prepcli"
_YIELDED_AT_ONCE = 1024
_SET_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip", ".parquet")
_SET_LISTS = ("shards.list", "data.list")
_CUTS = re.compile(r"cuts$|cuts\.\d+\.jsonl")
"""Matches the names by which a Lhotse Shar is recognized: a folder `cuts`, or files such as `cuts.000000.jsonl`."""


@dataclass
class Walk:
    """A walk through a folder, which follows symbolic links.

    `left_out` counts, by suffix, the files that are not audio; `loops` counts links to a folder above; `unreadable`
    lists folders that cannot be read. Files with the suffix `used_suffix` are transcripts, neither audio nor left out.
    """

    root: str
    used_suffix: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    loops: int = 0
    unreadable: list[str] = field(default_factory=list)

    def files(self) -> Iterator[str]:
        """Paths of audio files relative to the root, sorted as strings.

        Leaves out hidden files and folders, and the state of prepcli's runs. Does not follow a link to a folder above
        itself. Each call begins to count what is left out.
        """
        self.left_out.clear()
        self.loops, self.unreadable = 0, []
        status = os.stat(self.root)
        return chain.from_iterable(self._below("", ((status.st_dev, status.st_ino),)))

    def notes(self) -> Iterator[str]:
        """Notes for the user on files that were left out, links that were not followed, and unreadable folders."""
        others = sum(self.left_out.values())
        if others:
            common = ", ".join(
                f"{count:,} {suffix or 'without suffix'}" for suffix, count in self.left_out.most_common(4)
            )
            advice = next(filter(None, map(headerless_advice, self.left_out)), None)
            hint = f"; audio without a header is not read: {advice}" if advice else ""
            their = "its" if others == 1 else "their"
            yield f"{number_of(others, 'file', 'are')} not audio by {their} name ({common}){hint}"
        if self.loops:
            yield f"links to a folder above themselves were not followed: {self.loops:,}"
        if self.unreadable:
            yield f"{number_of(len(self.unreadable), 'folder')} cannot be read, the first is {self.unreadable[0]}"

    def _below(self, folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[list[str]]:
        files: list[str] = []
        for name in self._names(folder):
            path = folder + name
            if name[-1] != "/":
                files.append(path)
                if len(files) == _YIELDED_AT_ONCE:
                    yield files
                    files = []
                continue
            yield files
            files = []
            try:
                status = os.stat(os.path.join(self.root, path))
            except OSError as error:
                self._leave_out_folder(path, error)
                continue
            identity = status.st_dev, status.st_ino
            if identity in above:
                self.loops += 1
            else:
                yield from self._below(path, (*above, identity))
        yield files

    def _leave_out_folder(self, folder: str, error: OSError) -> None:
        """Handle a folder that could not be read: add it to `unreadable`, or raise `error`.

        `error` is raised for the root of the walk. It is also raised if permission is denied, because recordings may be
        in the folder; `lost+found` is an exception.
        """
        if not folder or (isinstance(error, PermissionError) and os.path.basename(folder[:-1]) != "lost+found"):
            raise error
        self.unreadable.append(folder)

    def _names(self, folder: str) -> list[str]:
        """Sorted names of audio files and folders; folders end in a slash, so that the walk is in path order."""
        names: list[str] = []
        try:
            entries = os.scandir(os.path.join(self.root, folder))
        except OSError as error:
            self._leave_out_folder(folder, error)
            return names
        is_audio: dict[str, bool] = {}
        with entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                dot = name.rfind(".")
                suffix = name[dot:] if dot > 0 else ""
                if suffix not in is_audio:
                    is_audio[suffix] = suffix.lower() in AUDIO_SUFFIXES
                if is_audio[suffix] and not _is_folder(entry):
                    names.append(name)
                elif _is_folder(entry):
                    if suffix != _WORK:
                        names.append(name + "/")
                elif suffix != self.used_suffix:
                    self.left_out[suffix] += 1
        names.sort()
        return names


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link may lead to itself
        return False


def listed_paths(path: str, is_fairseq: bool = False) -> Iterator[SourceEntry]:
    """The entries of a list with one path per line; blanks in a line belong to the path.

    `is_fairseq`: the first line is the folder of the paths, and each path is followed by a tab and a number of samples.
    """
    for number, line in islice(text_lines(path), is_fairseq, None):
        name = line.rpartition("\t")[0] if is_fairseq else line
        yield SourceEntry(name, number, stem_of(name))


_MAX_LOOKED_AT = 20
_FILES = ("list", "csv", "filelist", "jsonl")
TABLES = ("csv", "filelist", "jsonl", "audiofolder", "set")
"""Formats with columns or fields that have names."""


def source_of(asked: MakeSettings, folder: Path) -> EntrySource:
    """The source, with its format recognized; `folder` is for temporary files.

    Raises:
        UsageError: the source is missing, is a pipe, has no known format, or has another format than the user named.
    """
    path = asked.source
    is_pair = "," in path and asked.format in ("auto", "lhotse") and files_named(path) is not None
    if not os.path.exists(path) and not is_pair:
        raise UsageError(f"there is no file or folder {path}" + ("" if os.path.isabs(path) else f" in {Path.cwd()}"))
    if not is_pair and not os.path.isdir(path):
        check_file(path, "source")
    kind, how = ("lhotse", "it names two files") if is_pair else ("", "")
    if asked.format != "auto":
        kind, how = asked.format, "--format"
    elif not is_pair:
        kind, how = _kind_of(path, asked)
    is_file = kind in _FILES or (kind == "audiofolder" and is_metadata(path))
    if kind not in ("lhotse", "set") and os.path.isdir(path) == is_file:
        wanted = "a file" if is_file else "a folder"
        raise UsageError(f"{option('--format', kind)} reads {wanted}, and {path} is not one")
    columns = asked.audio_column, asked.text_column, asked.speaker_column, asked.lang_column
    if any(name is not None for name in columns) and kind not in TABLES:
        names = ", ".join(option(f"--{role}-column") for role in ("audio", "text", "speaker"))
        raise UsageError(f"{names} and {option('--lang-column')} are for tables; {path} is read as {kind}")
    if asked.columns is not None and kind not in ("csv", "filelist") and asked.transcripts is None:
        raise UsageError(f"{option('--columns')} is for tables without a header; {path} is read as {kind}")
    for name, value in (
        ("--input-format", asked.input_format),
        ("--split", asked.split),
        ("--name-encoding", asked.name_encoding),
    ):
        if value is not None and kind != "set":
            raise UsageError(f"{option(name, value)} is for data sets in containers; {path} is read as {kind}")
    if asked.run_commands and kind not in ("kaldi", "lhotse"):
        raise UsageError(
            f"{option('--run-commands')} is for the commands of Kaldi and lhotse; {path} is read as {kind}"
        )
    if asked.audio_base_dir is not None and kind == "folder":
        raise UsageError(
            f"{option('--audio-base-dir')} is for sources that name their audio; {path} is a folder of audio"
        )
    return _open(path, kind, how, asked, folder)


def _open(path: str, kind: str, how: str, asked: MakeSettings, folder: Path) -> EntrySource:
    given = asked.audio_base_dir
    own = path if os.path.isdir(path) else os.path.dirname(path) or "."
    base = absolute_folder(str(given or ("." if kind in ("kaldi", "lhotse") else own)))
    if kind == "set":
        from prepcli.commands.make_manifest.sets import set_source  # most sources are not data sets

        return set_source(path, how, asked)
    if kind == "kaldi":
        if not os.path.isfile(os.path.join(path, WAV_SCP)):
            raise UsageError(f"{path} is not a Kaldi data directory: it has no {WAV_SCP}")
        return kaldi_source(Path(path), how, base, asked.run_commands)
    if kind == "folder":
        walk = Walk(path, used_suffix=asked.text_suffix)
        return EntrySource(
            path, kind, how, absolute_folder(path), lambda: map(SourceEntry, walk.files()), notes=walk.notes
        )
    if kind == "audiofolder":
        return _audiofolder(path, how, base, asked)
    if kind == "lhotse":
        return lhotse_source(files_at(path), how, base, asked.run_commands, folder)
    reader: Callable[[], Iterator[SourceEntry]]
    if kind == "jsonl":
        reader = partial(rows_of_objects, path, asked)
    elif kind == "list":
        lines = first_lines(path)
        reader = partial(listed_paths, path, is_fairseq(lines))
        if is_fairseq(lines) and given is None:
            base = absolute_folder(os.path.join(own, lines[0]))
    else:
        layout = table_layout(path, asked, "|" if kind == "filelist" else None)
        reader = partial(rows_of_table, path, layout, asked)
        how = f"{how}; {layout.how}" if layout.how else how
    hint = f"relative paths start from the folder of SOURCE; name another one with {option('--audio-base-dir')}"
    return EntrySource(path, kind, how, base, reader, (path,), hint=hint)


def _audiofolder(path: str, how: str, base: str, asked: MakeSettings) -> EntrySource:
    top, names = (path, metadata_files(path, asked)) if os.path.isdir(path) else os.path.split(path)
    names = [names] if isinstance(names, str) else names
    if not names:
        raise UsageError(f"{path} is not a Hugging Face audiofolder: it has no {', '.join(METADATA)}")
    paths = [os.path.join(top, name) for name in names]
    layouts = [table_layout(file, asked) if file.endswith(".csv") else None for file in paths]
    num_rows = 0

    def entries() -> Iterator[SourceEntry]:
        nonlocal num_rows
        num_rows = 0
        for name, file, layout in zip(names, paths, layouts, strict=True):
            for row in rows_of_metadata(file, layout, asked, os.path.dirname(name)):
                num_rows += 1
                yield row

    def notes() -> Iterator[str]:
        yield from (
            f"{name}: {layout.how}" for name, layout in zip(names, layouts, strict=True) if layout and layout.how
        )
        if len(names) > 1:
            yield f"{len(names):,} metadata files are read ({', '.join(names[:4])}); a split is the folder of one"
        left_out = sum(1 for _ in Walk(top or ".").files()) - num_rows if os.path.isdir(path) else 0
        if left_out > 0:
            yield f"{left_out:,} audio files in the folder are left out: its metadata do not name them"

    return EntrySource(path, "audiofolder", how, base, entries, tuple(paths), notes=notes)


def holds_set(names: Iterable[str]) -> bool:
    """Whether a folder with these names in it is a data set with audio."""
    names, suffixes = list(names), (*_SET_SUFFIXES, *_SET_LISTS)
    return is_arrow(names) or any(
        name.lower().endswith(suffixes) or _CUTS.match(name) or BUCKET.fullmatch(name) for name in names
    )


def _kind_of(path: str, asked: MakeSettings) -> tuple[str, str]:
    """The format of a source by its content, and a text for the user that says how it was recognized."""
    if os.path.isdir(path):
        return _kind_of_folder(path, asked)
    name = os.path.basename(path).removesuffix(".gz")
    if name in (WAV_SCP, "segments"):
        raise UsageError(f"{path} is a file of a Kaldi data directory; give the directory")
    is_rows = is_metadata(path) and path.endswith(".parquet")
    if not is_rows and (name.lower().endswith((*_SET_SUFFIXES, *ARROW_SUFFIXES)) or list_kind(Path(path)) is not None):
        return "set", "it is a container of audio, or a list of such"
    kind = None if is_rows else kind_of(path)
    if is_rows or (is_metadata(path) and kind is not None and kind.source in ("csv", "jsonl")):
        return "audiofolder", "it has the name of the metadata of an audiofolder"
    if kind is not None and kind.lines == SUPERVISIONS and files_at(path).recordings is None:
        raise UsageError(f"{path} has no recordings with it ({kind.name}); {kind.advice}")
    if kind is not None and kind.source is not None:
        return kind.source, f"it holds {kind.name}"
    lines = first_lines(path)
    if not lines:
        raise UsageError(f"{path} is empty")
    if kind is None:
        return _kind_of_json(path, lines[0], asked)
    if kind.lines in (ROWS, OTHER):
        base = str(asked.audio_base_dir or os.path.dirname(path))
        if asked.columns is not None and asked.transcripts is None:
            return "csv", option("--columns")
        if any("::" in line or os.path.exists(os.path.join(base, line)) for line in lines[:100]):
            return "list", "it has one path per line"
    raise UsageError(f"{path} is not a source ({kind.name}); {kind.advice}")


def _kind_of_folder(path: str, asked: MakeSettings) -> tuple[str, str]:
    if os.path.isfile(os.path.join(path, WAV_SCP)):
        return "kaldi", f"it holds {WAV_SCP}"
    names = [entry.name for entry in other_entries(path)]
    if metadata := metadata_files(path, asked):
        return "audiofolder", f"it holds {metadata[0]}"
    if any(part.recordings for part in files_in(path, names)):
        return "lhotse", "it holds recordings and supervisions of lhotse"
    if holds_set(names):
        return "set", "it is a data set with audio in containers"
    return "folder", f"it is a folder without {WAV_SCP} and {', '.join(METADATA)}"


def advice_on_files(source: EntrySource) -> str:
    """The end of a message that a source names no audio: a command for a file that is a source, if a folder has one."""
    if source.kind != "folder":
        return ""
    paths = sorted(entry.path for entry in other_entries(source.path) if entry.is_file())[:_MAX_LOOKED_AT]
    kinds = {path: kind for path in paths if (kind := kind_of(path)) is not None and kind.source is not None}
    named = {kind.lines: path for path, kind in reversed(kinds.items())}
    if RECORDINGS in named and SUPERVISIONS in named:
        pair = f"{named[RECORDINGS]},{named[SUPERVISIONS]}"
        return f"; it has recordings and supervisions of lhotse: {make_manifest_of(pair)}"
    return next((f"; it has {path} ({kind.name}): {kind.advice}" for path, kind in kinds.items()), "")


def _kind_of_json(path: str, line: str, asked: MakeSettings) -> tuple[str, str]:
    fields = decoded(line)
    if not isinstance(fields, dict):
        raise UsageError(f"{path} begins with {line[:1]}, but its first line is not a JSON object")
    if kind_of_object(fields) == RECORDS:
        raise UsageError(f"{path} is a NeMo manifest already; prepcli fix-durations measures its durations again")
    if asked.audio_column is not None:
        return "jsonl", "it has a JSON object per line"
    raise UsageError(
        f"{path} has JSON lines without a key that is known to name audio (keys {', '.join(fields)}); name it with "
        f"{option('--audio-column')}"
    )
