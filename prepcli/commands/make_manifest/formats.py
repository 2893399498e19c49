"""What a source is: the format that the user names, or the one that its content shows."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from prepcli.commands.make_manifest.columns import (
    METADATA,
    Columns,
    counted,
    metadata_files,
    rows_of_csv,
    rows_of_jsonl,
)
from prepcli.commands.make_manifest.cuts import entries_of_cuts
from prepcli.commands.make_manifest.entries import Entry
from prepcli.commands.make_manifest.kaldi import WAV_SCP, is_command, kaldi_source
from prepcli.commands.make_manifest.lists import file_list, listed_paths
from prepcli.commands.make_manifest.options import MakeManifest
from prepcli.commands.make_manifest.source import Source, stem_of, text_lines
from prepcli.commands.make_manifest.walk import Walk
from prepcli.errors import UsageError
from prepcli.formats.names import absolute_folder
from prepcli.manifest.fields import with_audio_filepath

_FILES = ("list", "csv", "filelist", "lhotse")
_PROBED_PATHS = 20
"""Relative paths that are looked for before the work begins."""
_MAX_ABOVE = 4
"""Folders above a source in which its relative paths are looked for."""


def open_source(options: MakeManifest) -> Source:
    """The source in its format.

    Raises:
        UsageError: it is missing, of no known format, or of another one than the user says.
    """
    path = options.source
    if not os.path.exists(path):
        raise UsageError(f"there is no file or folder {path}" + ("" if os.path.isabs(path) else f" in {Path.cwd()}"))
    kind, how = _kind_of(path) if options.format == "auto" else (options.format, "--format")
    if os.path.isdir(path) == (kind in _FILES):
        wanted = "a file" if kind in _FILES else "a folder"
        raise UsageError(f"--format {kind} reads {wanted}, and {path} is not one")
    columns = Columns(options.audio_column, options.text_column, options.speaker_column)
    if columns != Columns() and kind not in ("csv", "audiofolder"):
        raise UsageError(f"--audio-column, --text-column and --speaker-column are for tables; {path} is read as {kind}")
    if options.run_commands and kind != "kaldi":
        raise UsageError(f"--run-commands is for the commands in Kaldi's wav.scp; {path} is read as {kind}")
    if options.audio_base_dir is not None and kind == "folder":
        raise UsageError(f"--audio-base-dir is for sources that name their audio; {path} is a folder of audio")
    source = _open(path, kind, how, options, columns)
    check_paths(source)
    return source


def _open(path: str, kind: str, how: str, options: MakeManifest, columns: Columns) -> Source:
    given = options.audio_base_dir
    own = path if os.path.isdir(path) else os.path.dirname(path) or "."
    base = absolute_folder(str(given or ("." if kind in ("kaldi", "lhotse") else own)))
    if kind == "kaldi":
        if not os.path.isfile(os.path.join(path, WAV_SCP)):
            raise UsageError(f"{path} is not a Kaldi data directory: it has no {WAV_SCP}")
        return kaldi_source(Path(path), how, base, options.run_commands)
    if kind == "folder":
        walk = Walk(path, used_suffix=options.text_suffix)
        return Source(path, kind, how, absolute_folder(path), lambda: map(Entry, walk.files()), notes=walk.notes)
    if kind == "audiofolder":
        return _audiofolder(path, how, base, columns)
    reader: Callable[[], Iterator[Entry]]
    if kind == "csv":
        reader = partial(rows_of_csv, path, columns)
    else:
        reader = partial({"list": listed_paths, "filelist": file_list, "lhotse": entries_of_cuts}[kind], path)
    hint = "relative paths start from the folder of SOURCE; name another one with --audio-base-dir"
    if kind == "lhotse":
        hint = "lhotse's relative paths start from the working directory; name another folder with --audio-base-dir"
    return Source(path, kind, how, base, reader, (path,), hint=hint)


def _audiofolder(path: str, how: str, base: str, columns: Columns) -> Source:
    names = metadata_files(path)
    if not names:
        raise UsageError(f"{path} is not a Hugging Face audiofolder: it has no {' or '.join(METADATA)}")
    count: dict[str, int] = {}

    def entries() -> Iterator[Entry]:
        count.clear()
        for name in names:
            read = rows_of_csv if name.endswith(".csv") else rows_of_jsonl
            yield from counted(read(os.path.join(path, name), columns, os.path.dirname(name)), count)

    def notes() -> Iterator[str]:
        left_out = sum(1 for _ in Walk(path).files()) - count.get("rows", 0)
        if left_out > 0:
            yield f"{left_out:,} audio files in the folder are left out: its metadata do not name them"

    files = tuple(os.path.join(path, name) for name in names)
    return Source(path, "audiofolder", how, base, entries, files, notes=notes)


def _kind_of(path: str) -> tuple[str, str]:
    """The format of a source and how it shows."""
    if os.path.isdir(path):
        if os.path.isfile(os.path.join(path, WAV_SCP)):
            return "kaldi", f"it holds {WAV_SCP}"
        if names := metadata_files(path):
            return "audiofolder", f"it holds {names[0]}"
        return "folder", f"it is a folder without {WAV_SCP} and {' or '.join(METADATA)}"
    name = os.path.basename(path).removesuffix(".gz")
    if name in (WAV_SCP, "segments"):
        raise UsageError(f"{path} is a file of a Kaldi data directory; give the directory")
    if name == "metadata.jsonl":
        raise UsageError(f"{path} is the metadata of a Hugging Face audiofolder; give its folder")
    if name.endswith((".parquet", ".arrow")):
        raise UsageError(f"{path}: Parquet and Arrow are not read; export the table as CSV")
    lines = [line for _, line in islice(text_lines(path), 100)]
    if not lines:
        raise UsageError(f"{path} is empty")
    if "\0" in lines[0]:
        raise UsageError(f"{path} is not a text file; SOURCE is a folder, or a file that names audio")
    if lines[0].lstrip().startswith("{"):
        return _kind_of_json(path, lines[0])
    if name.endswith((".csv", ".tsv")) and ("|" not in lines[0] or "," in lines[0] or "\t" in lines[0]):
        return "csv", f"its name ends in {name[-4:]}"
    if all("|" in line and not is_command(line) for line in lines):
        return "filelist", "its lines have | in them"
    return "list", "it has one path per line"


def _kind_of_json(path: str, line: str) -> tuple[str, str]:
    try:
        encoded = with_audio_filepath(line.encode("utf-8", "replace"))
        fields = msgspec.json.decode(encoded, type=dict[str, object])
    except msgspec.DecodeError:
        raise UsageError(f"{path} begins with {{, but its first line is not a JSON object") from None
    if "audio_filepath" in fields:
        raise UsageError(f"{path} is a NeMo manifest already; prepcli fix-durations measures its durations again")
    if str(fields.get("type")).endswith("Cut") or "sources" in fields:
        return "lhotse", "its first line is a cut or a recording of lhotse"
    raise UsageError(f"{path} has JSON lines of an unknown kind (keys {', '.join(fields)}); lhotse cuts are read")


def check_paths(source: Source) -> None:
    """Check early whether relative paths resolve; where the first ones are in a folder nearby, say in which.

    Raises:
        UsageError: none of the first relative paths exists below the base folder, but below another one.
    """
    if source.kind == "folder" or source.recordings is not None:
        return
    paths = [entry.path for entry in islice(source.entries(), _PROBED_PATHS) if entry.path]
    paths = [path for path in paths if not os.path.isabs(path) and not is_command(path)]
    if not paths or any(_exists(source.base, path) for path in paths):
        return
    here = Path(source.path).absolute()
    for folder in dict.fromkeys((Path.cwd(), here, *list(here.parents)[:_MAX_ABOVE])):
        if _exists(str(folder), paths[0]):
            raise UsageError(
                f"{paths[0]} and other relative paths in {source.path} do not exist in {source.base}, but in {folder}: "
                f"give --audio-base-dir {folder}"
            )


def _exists(folder: str, path: str) -> bool:
    try:
        return os.path.exists(os.path.join(folder, path))
    except ValueError:
        return False


def with_stems(entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries with the stem of their file as the key, where the source gives none."""
    for entry in entries:
        entry.key = entry.key or stem_of(entry.path)
        yield entry
