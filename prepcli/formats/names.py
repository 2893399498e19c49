"""Names of members and folders that NeMo's loaders accept, and that keep two different files apart."""

import hashlib
import posixpath
import re
from functools import lru_cache
from pathlib import Path

from prepcli.errors import UsageError

MAX_STEM_BYTES = 180
"""Longest member stem; with a suffix and the extension a name stays below the 255 bytes of file systems."""

# NeMo's loader takes `-sub<digits>` off the end of a stem before it looks a member up (nemo_adapters.py), so a real
# stem must not end so.
_SUB_SUFFIX = re.compile(r"-sub\d+$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# What NeMo turns into braces, anywhere in a path (expand_sharded_filepaths in audio_to_text.py).
_BRACES = re.compile(r"_OP_|_CL_|[()\[\]<>{}]")
# NeMo reads the shard's number off the first match in the whole path (LazyNeMoTarredIterator in nemo_adapters.py).
_NUMBER_IN_FOLDER = re.compile(r"(manifest[^/]*_\d+[^/]*\.json|audio[^/]*_\d+[^/]*\.tar)")


def normal_path(audio_filepath: str) -> str:
    """The path as it identifies a file: `./a//b.wav` is `a/b.wav`."""
    # Most paths are normal already, and normpath would be a tenth of the work of copying a file.
    if "//" in audio_filepath or "/." in audio_filepath or audio_filepath[0] == "." or audio_filepath[-1] == "/":
        return posixpath.normpath(audio_filepath)
    return audio_filepath


@lru_cache(maxsize=64)
def member_stem(audio_filepath: str) -> str:
    """The stem of a tar member for a file: one flat name without dots, as NeMo's script makes it.

    `train/spk1/utt.3.wav` -> `train_spk1_utt_3`. Slashes and dots become `_` (webdataset splits a name at its first
    dot), control characters too. Several files may share a stem: see `tagged`.
    """
    stem = posixpath.splitext(normal_path(audio_filepath))[0]
    stem = _CONTROL.sub("_", stem.replace("/", "_").replace(".", "_"))
    if _SUB_SUFFIX.search(stem):
        stem += "_"
    encoded = stem.encode("utf-8", errors="replace")
    if len(encoded) > MAX_STEM_BYTES:
        # The end of a path tells most; the digest keeps long paths apart that end alike.
        tail = encoded[-(MAX_STEM_BYTES - 13) :].decode("utf-8", errors="ignore")
        stem = f"{_digest(audio_filepath)}_{tail}"
    return stem


def tagged(stem: str, *identity: str | int) -> str:
    """The stem with a short digest of `identity` behind it, for files whose plain stems are equal."""
    return f"{stem}-{_digest(*identity)}"


def segment_suffix(offset: float, duration: float) -> str:
    """What tells the segments of one file apart: `_<offset>_<duration>` in seconds, dots as `_`, to the last digit.

    Two segments get the same suffix only if both numbers are equal.
    """
    return f"_{_decimal(offset)}_{_decimal(duration)}"


def _decimal(seconds: float) -> str:
    text = repr(float(seconds))
    if "e" in text:
        text = f"{seconds:.20f}".rstrip("0")
    whole, _, fraction = text.partition(".")
    return f"{whole}_{fraction or '0'}"


def _digest(*parts: str | int) -> str:
    text = "\0".join(map(str, parts)).encode("utf-8", errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=6).hexdigest()


def check_loadable(folder: Path) -> None:
    """Raise `UsageError` where NeMo could not load a data set in `folder`, for what is in its absolute path."""
    path = str(folder.absolute())
    if found := _BRACES.search(path):
        why = f"NeMo takes {found.group()!r} in a path for a brace expression"
    elif found := _NUMBER_IN_FOLDER.search(path):
        why = f"NeMo would read a shard's number off the folder name {found.group()!r}"
    else:
        return
    raise UsageError(f"NeMo could not load a data set from {folder}: {why}. Choose another directory")
