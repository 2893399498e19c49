"""The lines of manifests as bytes: chosen by number, and in the form in which they are written to an output."""

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.engine.publishing.rejects import holds
from prepcli.formats.names import path_in
from prepcli.manifest.fields import AUDIO_FIELDS, decode_value, parse_fields
from prepcli.manifest.parts import Ints
from prepcli.manifest.record import Value, fields_to_json
from prepcli.storage.addresses import is_absolute, is_address

_RELATIVE = re.compile(rb'("(?:%b)"\s*:\s*")(?=[^"/])(?!s3:)' % "|".join(AUDIO_FIELDS).encode())
_RETURNS = re.compile(rb"\r+(?=\n|\Z)")
_CLOSE = ord("}")
_KEY = b'"audio_filepath"'
_BEGINNING = re.compile(rb'\{%b\s*:\s*"(?:/|s3://)?' % _KEY)
"""The beginning of most lines: it shows that the line has this key, and by a last `/` that its path is absolute."""
_OLD_KEY = re.compile(rb'"audio_file(?:name)?"\s*:')
_ODD_PATH = re.compile(rb'"(?:%b)"\s*:\s*"[.\\]' % "|".join(AUDIO_FIELDS).encode())
_OTHER_AUDIO = [(name[name.index("_") - 1 :][:2].encode(), f'"{name}"'.encode()) for name in AUDIO_FIELDS[1:]]
"""Further fields that name audio, each after two bytes that `holds` looks for."""


class Lines:
    """The lines of a block by number; carriage returns before line ends are left out."""

    def __init__(self, data: bytes) -> None:
        if b"\r" in data:
            data = _RETURNS.sub(b"", data)
        self.data = data if data.endswith(b"\n") or not data else data + b"\n"
        self._chars = np.frombuffer(self.data, np.uint8)
        self._bounds: Ints = np.concatenate([[0], np.flatnonzero(self._chars == ord("\n")) + 1])

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def at(self, line: int) -> bytes:
        """The line with this number (from 0), without the line break at its end."""
        return self.data[self._bounds[line] : self._bounds[line + 1] - 1]

    def end_with_brace(self, which: Ints) -> NDArray[np.bool_]:
        """For each of the lines with the numbers `which`, whether its last byte is a closing brace."""
        is_closed: NDArray[np.bool_] = self._chars[self._bounds[which + 1] - 2] == _CLOSE
        return is_closed

    def beginning(self, which: NDArray[np.bool_]) -> bytes:
        """The match of `_BEGINNING` with which each of the lines that `which` selects begins; empty if they differ."""
        begins = self._bounds[:-1][which]
        match = _BEGINNING.match(self.data, begins[0])
        if match is None or begins[-1] + len(match[0]) > len(self.data):
            return b""
        size = len(match[0])
        texts: NDArray[np.bytes_] = np.ndarray(len(self.data) - size + 1, f"S{size}", self.data, strides=1)
        return match[0] if (texts[begins] == match[0]).all() else b""

    def without_last(self, which: Ints) -> list[bytes]:
        """The lines with the numbers `which`, without their last byte."""
        begins, ends = self._bounds[which].tolist(), (self._bounds[which + 1] - 2).tolist()
        return [self.data[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def joined(self, which: NDArray[np.bool_], changed: Mapping[int, bytes]) -> bytes:
        """The lines that `which` selects, each with a newline at its end.

        `changed`: the lines with a new content, by their numbers, which count from 0.
        """
        if changed:
            lines = np.flatnonzero(which).tolist()
            return b"".join([(changed[line] if line in changed else self.at(line)) + b"\n" for line in lines])
        edges = np.flatnonzero(np.diff(which, prepend=False, append=False))
        spans = self._bounds[edges].tolist()
        return b"".join([self.data[begin:end] for begin, end in zip(spans[::2], spans[1::2], strict=True)])


def in_output_form(data: bytes, num_lines: int, base_dir: str, beginning: bytes = b"") -> bytes:
    """Return the lines in `data` as they are written to an output. Each of the `num_lines` lines must be a record.

    Fields that `rejects.jsonl` has added are left out, and old names of `audio_filepath` are replaced. Relative paths
    become absolute, from `base_dir`; they stay relative if `base_dir` is empty. `beginning`: the match of `_BEGINNING`
    with which all lines begin, if they do.
    """
    if base_dir and beginning.endswith(b"/") and data.count(_KEY) == num_lines and not _holds_other_audio(data):
        base_dir = ""  # all paths are absolute
    is_new = (beginning and not base_dir) or data.count(_KEY) == num_lines or _OLD_KEY.search(data) is None
    if is_new and not holds(data, b"t_", [b'"reject_reason"']):
        if not base_dir:
            return data
        has_no_objects = data.count(b"{") == num_lines  # fields of objects within a record must stay
        if has_no_objects and not is_address(base_dir) and _ODD_PATH.search(data) is None:
            return _RELATIVE.sub(_prefix(base_dir), data)
    return b"".join([rewritten(line, base_dir) + b"\n" for line in data.split(b"\n")[:-1]])


def _holds_other_audio(data: bytes) -> bool:
    return any(holds(data, pair, [key]) for pair, key in _OTHER_AUDIO)


def rewritten(line: bytes, base_dir: str, changes: Mapping[str, Value] | None = None) -> bytes:
    """The line of a record as it is written to an output (see `in_output_form`), with the fields in `changes` set.

    Returns `line` itself if nothing changes.
    """
    fields = parse_fields(line)
    named = {name: decode_value(fields[name]) for name in AUDIO_FIELDS if name in fields} if base_dir else {}
    paths = {
        name: path_in(base_dir, path)
        for name, path in named.items()
        if isinstance(path, str) and path and not is_absolute(path)
    }
    if not (paths or changes) and b'"reject_reason"' not in line and _KEY in line:
        return line
    return fields_to_json(fields, paths | dict(changes or {}))


@lru_cache(maxsize=1)
def _prefix(base_dir: str) -> bytes:
    """The replacement for a match of `_RELATIVE`: puts the folder `base_dir` before the path."""
    folder = msgspec.json.encode(f"{base_dir.removesuffix('/')}/")[1:-1]
    return rb"\1" + folder.replace(b"\\", b"\\\\")
