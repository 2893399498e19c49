"""Recognizes what a file is by its beginning, once for all commands: a manifest, or a file of another kind.

A kind has a name and one remedy. `make-manifest` reads some kinds; no command reads the others, and all say the same.
"""

import io
import os
import re
import shlex
from collections.abc import Sequence
from itertools import islice

from prepcli.errors import option
from prepcli.formats import tables
from prepcli.formats.audio_names import is_audio_name
from prepcli.formats.times.recognition import form_of
from prepcli.manifest.json_kinds import OTHER, ROWS, FileKind, kind_of_json, kind_of_yaml
from prepcli.manifest.remedies import (
    advice_on_ids,
    advice_on_windows,
    conversion,
    make_manifest_of,
    named_ids,
    new_name,
    shown,
)
from prepcli.manifest.sources import open_bytes
from prepcli.storage.addresses import is_address
from prepcli.storage.containers import Catalogue

HEAD_BYTES = 64 << 10
_SAMPLE = 60
_OF_FOLDER = "`prepcli make-manifest FOLDER OUT.json` makes a manifest of a folder of audio"
_AUDIO = (
    (b"RIFF", "a WAV file"),
    (b"fLaC", "a FLAC file"),
    (b"OggS", "an Ogg file"),
    (b"ID3", "an MP3 file"),
    (b"\xff\xfb", "an MP3 file"),
    (b"NIST_1A", "a SPHERE file"),
)
_CONTAINERS = (
    (257, b"ustar", "a tar archive", ".tar"),
    (0, b"PK\x03\x04", "a zip archive", ".zip"),
    (0, b"\x1f\x8b", "compressed with gzip", ".gz"),
    (0, b"PAR1", "a Parquet file", ".parquet"),
)
_LETTERS = frozenset((*range(32, 127), *b"\t\r\n"))
_FAIRSEQ = re.compile(r"[^\t]+\t\d+")


def kind_of(path: str) -> FileKind | None:
    """The kind of a file by its beginning; None for JSON lines of NeMo records, or of no known kind.

    None, too, for a file that cannot be read: its reader reports the error.
    """
    head = None if isinstance(path, Catalogue) else head_of(path)
    if not head:
        return None
    if (kind := kind_of_bytes(head, path)) is not None:
        return kind
    text = head.decode("utf-8-sig", "surrogateescape").strip()
    is_whole = len(head) < HEAD_BYTES
    if text[:1] in ("[", "{"):
        return kind_of_json(path, text, is_whole)
    if not text or (not is_whole and "\n" not in text) or "\n{" in text:
        return None
    if path.removesuffix(".gz").endswith((".yaml", ".yml")):
        return kind_of_yaml(path, text)
    return _kind_of_text(path)


_BINARY = FileKind("a binary file", _OF_FOLDER)


def kind_of_bytes(head: bytes, path: str) -> FileKind | None:
    """The kind of a file that is not text in UTF-8, by its beginning; None if it may be such text."""
    for magic, name in _AUDIO:
        if head.startswith(magic):
            return FileKind(name, _OF_FOLDER)
    if head.startswith(b'{"prepcli_prints":'):
        return FileKind("prints of find-duplicates", f"compare a set with them: --against {shlex.quote(path)}")
    for at, magic, name, suffix in _CONTAINERS:
        if head.startswith(magic, at):
            is_named = path.lower().endswith(suffix)
            advice = f"`{make_manifest_of(path)}` makes a manifest of the audio in it"
            return FileKind(name, advice if is_named else f"give it a name that ends with {suffix}")
    if head.startswith((b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")) or path.endswith(".arrow"):
        return FileKind("an Arrow file", f"`{make_manifest_of(path)}` says how to make Parquet of it")
    if (encoding := utf16_of(head)) is not None:
        command = conversion(path, f"iconv -f {encoding} -t UTF-8", new_name(path, ".utf8"))
        return FileKind("UTF-16 text", f"convert it: {command}")
    first = head[: head.find(b"\n") + 1] or head
    is_binary = (b"\0" in first and first.lstrip()[:1] != b"{") or _is_binary(head)
    return _BINARY if is_binary else None


def _is_binary(head: bytes) -> bool:
    """Whether bytes are not of lines, of which some may be damaged: most are in lines that are not text in UTF-8.

    Some must be zero: text in other encodings has none. A line of a JSON object shows that the file has lines.
    """
    if b"\0" not in head or _is_utf8(head[: head.rfind(b"\n") + 1] or head):
        return False
    lines = head.split(b"\n")
    texts = [line for line in lines if b"\0" not in line and _is_utf8(line)]
    return not any(line.startswith(b"{") for line in texts) and 2 * sum(map(len, texts)) < len(head)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def utf16_of(text: bytes) -> str | None:
    """The name of the encoding, if text is in UTF-16: by its byte order mark, or by the zeros in its first letters."""
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    even, odd = text[:64:2], text[1:64:2]
    for name, zeros, letters in (("UTF-16LE", odd, even), ("UTF-16BE", even, odd)):
        if len(zeros) >= 4 and not any(zeros) and _LETTERS.issuperset(letters):
            return name
    return None


def head_of(path: str) -> bytes | None:
    """Up to `HEAD_BYTES` from the beginning of a file or an object; None if it cannot be read, or is none.

    The reader of the file reports this later.

    Raises:
        StoreError: an object store does not answer.
    """
    if not (is_address(path) or os.path.isfile(path)):
        return None
    try:
        with open_bytes(path) as file:
            return file.read(HEAD_BYTES)
    except (OSError, EOFError):
        return None
    except Exception as error:
        if type(error).__module__ != "zlib":  # zlib.error means damage, which the reader of the file reports
            raise
        return None


def first_lines(path: str) -> list[str]:
    """The first lines of a text that are not blank, at most `tables.SAMPLE_LINES`, without their ends.

    Bytes that are not UTF-8 become surrogates.
    """
    with io.BufferedReader(open_bytes(path)) as file:  # type: ignore[type-var]
        lines = (line.decode("utf-8", "surrogateescape").removeprefix("\ufeff").rstrip("\r\n") for line in file)
        return list(islice((line for line in lines if line.strip()), tables.SAMPLE_LINES))


def _kind_of_text(path: str) -> FileKind | None:
    """The kind of lines of text: a table, a list of paths, or transcripts."""
    lines = first_lines(path)
    if not lines:
        return None
    if is_fairseq(lines):
        what = "a list of fairseq, with paths below the folder in its first line"
        return FileKind(what, f"`{make_manifest_of(path)}` reads it", "list")
    if is_table(path, lines):
        return _kind_of_table(path, lines)
    if any(map(is_audio_name, lines[:2])):
        return _named_audio(path, f"a list of paths such as {shown(lines[0])}", lines[:_SAMPLE], "list")
    if (form := form_of("\n".join(lines), path)) in ("srt", "vtt", "textgrid", "rttm"):
        command = f"prepcli segment AUDIO OUT.json {option('--by', 'times')} {option('--times', shlex.quote(path))}"
        return FileKind(f"times of recordings, {form}", f"give it with the audio: {command}", lines=OTHER)
    advice = f"if they are transcripts, `prepcli make-manifest FOLDER OUT.json --transcripts {shlex.quote(path)}`"
    lines_kind = ROWS if any(mark in lines[0] for mark in "\t,;|") else OTHER
    what = f"lines such as {shown(lines[0])}"
    return FileKind(what, f"{advice} reads them, with the audio in FOLDER", lines=lines_kind)


def _kind_of_table(path: str, lines: Sequence[str]) -> FileKind:
    layout = tables.layout_of(path, lines)
    format = "filelist" if layout.delimiter == "|" else "csv"
    name = {"\t": "a TSV", "|": "a table with |"}.get(layout.delimiter, "a CSV")
    what = f"{name} with header {shown(lines[0])}" if layout.has_header else f"{name} such as {shown(lines[0])}"
    if layout.has_ids:
        return FileKind(named_ids(lines), advice_on_ids(path, layout, lines), format)
    if not layout.names:
        given = f"{make_manifest_of(path)} --columns {layout.suggestions[0]}"
        return FileKind(f"{what}, without a header", f"name its columns: {given}", format)
    return _named_audio(path, what, layout.audio_in(lines[:_SAMPLE]), format)


def _named_audio(path: str, what: str, names: Sequence[str], format: str) -> FileKind:
    """The kind of a list or table that names audio by `names`, perhaps by paths of Windows."""
    is_there = bool(names) and "\0" not in names[0] and os.path.exists(os.path.join(os.path.dirname(path), names[0]))
    windows = None if is_there else advice_on_windows(names, path)
    if windows is not None:
        return FileKind(f"{what}, with paths of Windows", windows, format)
    return FileKind(what, f"`{make_manifest_of(path)}` reads it", format)


def is_fairseq(lines: Sequence[str]) -> bool:
    """Whether lines are those of fairseq's manifests: a folder, and then paths below it with a number of samples."""
    return len(lines) > 1 and "\t" not in lines[0] and all(map(_FAIRSEQ.fullmatch, lines[1:]))


def is_table(path: str, lines: Sequence[str]) -> bool:
    """Whether lines are rows of a table: by the suffix of its name, by its header, or because all have a |."""
    if path.removesuffix(".gz").lower().endswith((".csv", ".tsv")):
        return True
    if all("|" in line for line in lines):
        # The commands of Kaldi's wav.scp end in |, and have an id and a blank in front.
        return not all(line.rstrip().endswith("|") and " " in line.partition("|")[0].strip() for line in lines)
    marks = [mark for mark in "\t,;" if mark in lines[0]]
    if any(tables.is_header(lines[0].split(mark)) for mark in marks):
        return True
    # A path may have blanks and commas in it, so what is in front of the first mark must be a path by itself.
    return any(all(is_audio_name(line.partition(mark)[0]) for line in lines[:100]) for mark in marks)
