"""Recognizes files of other kinds that are given as a manifest, by their beginning and before any work."""

import os
from typing import Any

import msgspec

from prepcli.errors import UsageError
from prepcli.formats.audio_names import is_audio_name
from prepcli.manifest.sources import open_bytes
from prepcli.storage.containers import Catalogue

HEAD_BYTES = 64 << 10
_MAKE = "`prepcli make-manifest {} OUT.json` reads it"
_MAKE_OF_CUTS = "make one of their audio: prepcli make-manifest {} OUT.json"
_MAKE_PARQUET = "`prepcli make-manifest {} OUT.json` says how to make Parquet of it"
_OF_FOLDER = "`prepcli make-manifest FOLDER OUT.json` makes a manifest of a folder of audio"
_MAGIC = (
    (0, b"RIFF", "a WAV file", _OF_FOLDER),
    (0, b"fLaC", "a FLAC file", _OF_FOLDER),
    (0, b"OggS", "an Ogg file", _OF_FOLDER),
    (0, b"ID3", "an MP3 file", _OF_FOLDER),
    (0, b"\xff\xfb", "an MP3 file", _OF_FOLDER),
    (0, b"NIST_1A", "a SPHERE file", _OF_FOLDER),
    (257, b"ustar", "a tar archive", "unpack it, or give its manifest"),
    (0, b"PK\x03\x04", "a zip archive", "unpack it"),
    (0, b"\x1f\x8b", "compressed with gzip", "give it a name that ends with .gz"),
    (0, b"PAR1", "a Parquet file", _MAKE),
    *((0, magic, "an Arrow file", _MAKE_PARQUET) for magic in (b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")),
)
_SEPARATORS = "\t,;|"
_SHOWN = 60
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def check_is_json_lines(path: str, cuts: bool = False) -> None:
    """Refuse a file whose beginning shows that it is of another kind: audio, an archive, a table, a JSON list, ...

    A file of lhotse cuts is of another kind too, unless `cuts` is set. A file of JSON lines is not refused, even if all
    lines are broken: the lines are rejects. A file that cannot be read is not refused: its reader reports the error.

    Raises:
        UsageError: the file is of another kind; the message has the kind, and advice.
    """
    head = None if isinstance(path, Catalogue) else _head(path)
    found = _foreign(head, path, cuts) if head is not None else None
    if found is not None:
        kind, advice = found
        raise UsageError(f"{path} is not a manifest of JSON lines ({kind}); {advice}")


def check_is_text(path: str) -> None:
    """Refuse a file that is certainly not lines of text: audio and other binary files, and a JSON list.

    Raises:
        UsageError: the file is not text; the message has its kind.
    """
    head = _head(path) or b""
    kind = next((kind for at, magic, kind, _ in _MAGIC if head[at:].startswith(magic)), None)
    if kind is None and b"\0" in head and not head.startswith(_UTF_16):
        kind = "a binary file"
    if kind is None and len(head) < HEAD_BYTES and head.strip()[:1] == b"[" and _is_list(head):
        kind = "a JSON list"
    if kind is not None:
        raise UsageError(f"{path} is not lines of text ({kind}); give a file with one text per line, or a manifest")


def _head(path: str) -> bytes | None:
    """Up to `HEAD_BYTES` from the beginning of a file; None if it cannot be read (the command reports this later)."""
    if not os.path.isfile(path):
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


def _foreign(head: bytes, path: str, cuts: bool) -> tuple[str, str] | None:
    """The kind of a file, judged by its beginning, and advice for the user; None if the file may be a manifest."""
    for at, magic, kind, advice in _MAGIC:
        if head[at:].startswith(magic):
            return kind, advice.format(path)
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    is_whole = len(head) < HEAD_BYTES
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or (len(lines) == 1 and not is_whole):
        return None
    if text[:1] == b"[":
        is_list = _is_list(text) if is_whole else not _is_json(lines[0])
        return ("a JSON list", f"write one object per line: jq -c '.[]' {path} > lines.json") if is_list else None
    if text[:1] == b"{" and not _is_object(lines[0]):
        is_one = _is_object(text) if is_whole else lines[0] == b"{"
        return ("a JSON object over several lines", f"write one object per line: jq -c . {path}") if is_one else None
    if not cuts and all(map(_is_cut, lines if is_whole else lines[:-1])):
        return "lhotse cuts", _MAKE_OF_CUTS.format(path)
    if any(line.startswith(b"{") for line in lines) or head.startswith(_UTF_16):
        return None
    if path.endswith((".yaml", ".yml")):
        return "a YAML file", "give the manifests or data sets that it names"
    if b"\0" in head:
        return "a binary file", "give the path of a manifest"
    described = _describe(lines[0].decode("utf-8", "replace"))
    return (described, _MAKE.format(path)) if described else None


def _describe(line: str) -> str | None:
    """Describe the content of a file, for a message, if its first line is a path of audio or a row of a table.

    Returns None for any other line: then the file is not refused, and its unusable lines become rejects.
    """
    shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
    separator = next((one for one in _SEPARATORS if one in line), None)
    if separator is None:
        return f"a list of paths such as {shown!r}" if is_audio_name(line) else None
    if any(char.isdigit() or char == "/" for char in line):
        return f"lines such as {shown!r}"
    return f"a {'TSV' if separator == chr(9) else 'CSV'} with header {shown!r}"


def _is_json(text: bytes) -> bool:
    return _decoded(text) is not None


def _is_list(text: bytes) -> bool:
    return isinstance(_decoded(text), list)


def _is_cut(text: bytes) -> bool:
    """Whether a line is a lhotse cut, and not a NeMo record."""
    found = _decoded(text)
    return isinstance(found, dict) and str(found.get("type")).endswith("Cut") and "audio_filepath" not in found


def _is_object(text: bytes) -> bool:
    return isinstance(_decoded(text), dict)


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
