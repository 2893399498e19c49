"""Unique names of members and folders that NeMo's loaders accept."""

import hashlib
import os
import posixpath
import re
from functools import lru_cache

from prepcli.errors import UsageError
from prepcli.formats.audio_names import AUDIO_SUFFIXES
from prepcli.storage.addresses import is_absolute, is_address, join, parse_address, without_scheme
from prepcli.storage.containers import SEPARATOR, name_in, own_name, place_of
from prepcli.storage.paths import AnyPath

INDEX_SUFFIX = ".idx"
"""The name of an index is the name of its data file followed by this suffix (`prepcli.formats.indexes`)."""
MIRROR = "index"
"""The name of the mirror in the folder of a Shar set. The indexes are not next to the shards, because lhotse 1.33 and
NeMo 3.0 would take an index there for the file of a field.
"""
MAX_STEM_BYTES = 180
"""Maximum bytes of a member's stem; a name with a suffix and an extension stays below the 255 bytes of file systems."""

# NeMo's loader removes `-sub<digits>` from the end of a stem before it looks up a member (nemo_adapters.py), so a
# real stem must not end like that.
_SUB_SUFFIX = re.compile(r"-sub\d+$")
# The suffixes that make stems unique, those of `tagged` and `in_shard`; the tag is so many hexadecimal digits.
_TAG_CHARS = 12
_MARK = rf"-(?:shard[0-9]+|[0-9a-f]{{{_TAG_CHARS}}})"
_MARKS = re.compile(f"(?:{_MARK})+$")
SLICE_SUFFIX = re.compile(r"_(\d+_\d+)_\d+_\d+$")
"""Matches `segment_suffix` at the end of a member's stem; the group is the segment's offset, as `decimal` writes it."""
_MAX_TAIL = MAX_STEM_BYTES - _TAG_CHARS - 1
_MAX_PATH_BYTES = 1000
_FILE_SUFFIXES = AUDIO_SUFFIXES | {".json"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# The texts that NeMo converts to braces anywhere in a path (expand_sharded_filepaths in audio_to_text.py).
_BRACES = re.compile(r"_OP_|_CL_|[()\[\]<>{}]")
# NeMo takes the shard's number from the first match in the whole path (LazyNeMoTarredIterator in nemo_adapters.py).
_NUMBER_IN_FOLDER = re.compile(r"(manifest[^/]*_\d+[^/]*\.json|audio[^/]*_\d+[^/]*\.tar)")


def normal_path(audio_filepath: str) -> str:
    """The path without redundant parts: `./a//b.wav` is `a/b.wav`; an address is returned as it is.

    `..` stays: if `link` is a symbolic link to another folder, `link/../a.wav` is not `a.wav`.
    """
    # Most paths are normal already, and parsing one would take a tenth of the time of copying a file.
    if SEPARATOR in audio_filepath and (place := place_of(audio_filepath)) is not None:
        return name_in(normal_path(place.path), place.member)
    if "//" in audio_filepath or "/." in audio_filepath or audio_filepath[0] == "." or audio_filepath[-1] == "/":
        if is_address(audio_filepath):
            return audio_filepath
        parts = [part for part in audio_filepath.split("/") if part not in ("", ".")]
        return "/" * audio_filepath.startswith("/") + "/".join(parts) or "."
    return audio_filepath


def path_in(folder: str, audio_filepath: str) -> str:
    """The path of a record's file; if `audio_filepath` is relative, it is relative to `folder`.

    Redundant parts are removed from local paths only: in a store `a//b.wav` and `a/b.wav` are two objects.
    """
    if is_address(folder):
        return join(folder, audio_filepath)
    path = normal_path(audio_filepath)
    return path if is_absolute(path) or not folder else f"{folder.removesuffix('/')}/{path}"


def absolute_folder(folder: str) -> str:
    """The folder as an absolute path, or the address if it is one.

    Parts `..` are removed, unless the path would then name another folder because of a symbolic link.
    """
    if is_address(folder):
        return str(parse_address(folder))
    path = normal_path(os.path.join(os.getcwd(), folder))
    if ".." not in path.split("/"):
        return path
    simple = os.path.normpath(path)
    return simple if os.path.realpath(simple) == os.path.realpath(path) else path


@lru_cache(maxsize=64)
def member_stem(audio_filepath: str) -> str:
    """The stem of a tar member for a file: one flat name without dots, as in NeMo's script.

    `train/spk1/utt.3.wav` -> `train_spk1_utt_3`. Slashes, dots (webdataset splits a name at its first dot) and control
    characters become `_`. Several files may share a stem: see `tagged`.
    """
    path = audio_filepath
    if ":" in path or "//" in path or "/." in path or path[0] == "." or path[-1] == "/":
        stem = posixpath.splitext(without_scheme(normal_path(own_name(path))))[0]
    else:  # nearly all paths: the same in half the time
        dot = path.rfind(".")
        stem = path[:dot] if dot > path.rfind("/") else path
    stem = stem.replace("/", "_").replace(".", "_")
    # The cases below are rare, and checking for each takes as long as packing the line.
    if stem.isascii() and stem.isprintable() and "-sub" not in stem and len(stem) <= MAX_STEM_BYTES:
        return stem
    stem = _CONTROL.sub("_", stem)
    if _SUB_SUFFIX.search(stem):
        stem += "_"
    encoded = stem.encode("utf-8", errors="replace")
    if len(encoded) > MAX_STEM_BYTES:
        # The end of a path is the most informative part; the digest distinguishes long paths with equal ends.
        tail = encoded[-_MAX_TAIL:].decode("utf-8", errors="ignore")
        stem = f"{digest(normal_path(audio_filepath))}_{tail}"
    return stem


@lru_cache(maxsize=64)
def plain_stem(audio_filepath: str) -> str:
    """The path, without extension, for a file of its own with a record's audio, relative to a folder of the output.

    `/data/./spk 1/utt.3.wav` -> `data/spk 1/utt.3`. Parts `..` are left out, and control characters become `_`. A
    digest replaces the start of names and paths that are too long. If a folder has a suffix of audio or `.json`, `_`
    replaces its dot, so that no folder has the name of a file. `@` in the last part becomes `_`, because `@` separates
    the suffixes that make names unique; folders keep `@`. Several files may share a stem.
    """
    path = posixpath.splitext(without_scheme(normal_path(own_name(audio_filepath))))[0]
    *folders, name = [part for part in path.split("/") if part not in ("", ".", "..")] or ["_"]
    parts = [*map(_folder_name, folders), _short(name.replace("@", "_"))]
    stem = _CONTROL.sub("_", "/".join(parts))
    return stem if len(stem.encode("utf-8", errors="replace")) <= _MAX_PATH_BYTES else f"{digest(stem)}/{parts[-1]}"


def _folder_name(name: str) -> str:
    """The name of a folder; `_` replaces the dot of a suffix of audio or `.json`, so that no file has the same name."""
    stem, suffix = posixpath.splitext(_short(name))
    return f"{stem}_{suffix[1:]}" if suffix.lower() in _FILE_SUFFIXES else stem + suffix


def _short(name: str) -> str:
    """The name, if it has at most `MAX_STEM_BYTES`; else a digest of the name, followed by the name's end."""
    encoded = name.encode("utf-8", errors="replace")
    if len(encoded) <= MAX_STEM_BYTES:
        return name
    return f"{digest(name)}_{encoded[-_MAX_TAIL:].decode('utf-8', errors='ignore')}"


def marked_root(audio_filepath: str) -> str:
    """The member stem of a file, without suffixes such as `tagged` and `in_shard` append; "" if it has no such suffix.

    `x-shard1.wav` -> `x`. This finds clashes: the copy of `x.wav` in shard 1 would also get the stem `x-shard1`.
    """
    # Nearly all paths have no `-`; computing their stems would take ten times as long.
    at = audio_filepath.rfind("-")
    if at < 0 or (len(audio_filepath) - at <= _TAG_CHARS and audio_filepath[at + 1 : at + 6] != "shard"):
        return ""
    if "/" in audio_filepath[at:].rstrip("/."):
        return ""
    stem = member_stem(audio_filepath)
    root = _MARKS.sub("", stem)
    return root if root != stem else ""


def source_stem(stem: str) -> str:
    """A member's stem without the suffixes that NeMo or prepcli appends.

    The result is usually the stem of the audio file's path, as `member_stem` makes it.
    """
    return _MARKS.sub("", _SUB_SUFFIX.sub("", stem)) if "-" in stem else stem


def brace_text(first: str, last: str) -> str:
    """The range of shard numbers in a training config: `_OP_000000..000007_CL_`; one number if both are equal."""
    return first if first == last else f"_OP_{first}..{last}_CL_"


def loader_stem(audio_filepath: str) -> str:
    """The stem by which NeMo's classic loader finds a record's member in a tar: the file name without extension."""
    return posixpath.splitext(posixpath.basename(own_name(audio_filepath)))[0]


def in_shard(stem: str, shard: int) -> str:
    """The stem of the copy in this shard, for a record that is in several shards: `utt` -> `utt-shard3`."""
    return f"{stem}-shard{shard}"


def tagged(stem: str, *identity: str | int) -> str:
    """The stem with a short digest of `identity` appended, for files with equal stems."""
    return f"{stem}-{digest(*identity)}"


def segment_suffix(offset: float, duration: float) -> str:
    """The suffix for a segment of a file: `_<offset>_<duration>`, in seconds; see `decimal`.

    Numbers are not rounded: two segments get the same suffix only if both numbers are equal.
    """
    return f"_{decimal(offset)}_{decimal(duration)}"


def decimal(seconds: float) -> str:
    """A number of seconds as text, not rounded, with `_` in place of the dot: `1.25` -> `1_25`."""
    text = repr(float(seconds))
    if "e" in text:
        text = f"{seconds:.20f}".rstrip("0")
    whole, _, fraction = text.partition(".")
    return f"{whole}_{fraction or '0'}"


def digest(*parts: str | int) -> str:
    """A hash of `parts`, as 12 hexadecimal digits."""
    text = "\0".join(map(str, parts)).encode("utf-8", errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=_TAG_CHARS // 2).hexdigest()


def check_braces(path: AnyPath) -> None:
    """Raise `UsageError` if NeMo would read other files for this path, because it expands a part of the absolute path.

    Commands that write sets call this. A manifest may have such a name: not only NeMo reads manifests.
    """
    if match := _BRACES.search(str(path.absolute())):
        where = path if match.group() in str(path) else path.absolute()
        raise UsageError(
            f"NeMo could not read {where}: NeMo takes {match.group()!r} in a path for a brace expression. Choose "
            "another path"
        )


def check_loadable(folder: AnyPath) -> None:
    """Raise `UsageError` if NeMo could not load a data set in `folder`, because it would misread the absolute path."""
    check_braces(folder)
    if match := _NUMBER_IN_FOLDER.search(str(folder.absolute())):
        raise UsageError(
            f"NeMo could not read {folder}: NeMo would read a shard's number off the folder name {match.group()!r}. "
            "Choose another directory"
        )
