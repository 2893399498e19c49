"""WeNet's data lists and shards on disk: file names, members, and the lines of both kinds of lists.

The rules are those of the reader (wenet/dataset/datapipes.py and processor.py): a member's name is split at its last
dot; the members of an utterance follow each other, text first; the reader recognizes audio by its suffix.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse

from prepcli.errors import UsageError
from prepcli.formats.folders import Listing, listing
from prepcli.formats.stored_set import StoredSet
from prepcli.formats.tar import TarWriter
from prepcli.interface.printing import number_of
from prepcli.storage.paths import AnyPath, path_of

SHARD_NAME = "{}_{:09d}.tar"
SHARD_FILE = re.compile(r"(.+)_(\d{9})\.tar$")
LIST_NAME = "shards.list"
RAW_LIST_NAME = "data.list"

_HEAD_BYTES = 64 << 10
MIN_FRAMES, MAX_FRAMES = 10, 10240
"""Bounds of WeNet's filter if there is no `filter_conf`, in frames of 10 ms. Utterances with fewer or more frames are
dropped without a message."""
MIN_TOKENS, MAX_TOKENS = 1, 200
MIN_TOKENS_PER_FRAME, MAX_TOKENS_PER_FRAME = 0.0005, 1.0


def is_dropped(seconds: float, num_tokens: int) -> bool:
    """Whether the default filter of WeNet's reader drops an utterance, which it does without a message."""
    frames = seconds * 100
    if not MIN_FRAMES <= frames <= MAX_FRAMES or not MIN_TOKENS <= num_tokens <= MAX_TOKENS:
        return True
    return not MIN_TOKENS_PER_FRAME <= num_tokens / frames <= MAX_TOKENS_PER_FRAME


def num_tokens(text: str) -> int:
    """The number of tokens in a text for WeNet's default tokenizer: one per character, inner blanks included."""
    return len(text.strip())


class WenetWriter(TarWriter):
    """Appends utterances to a shard: the text, then the audio, both named by the key."""

    def add_utterance(self, key: str, text: str, format: str, data: bytes) -> None:
        """Append one utterance; `data` is an encoded file whose extension is `format`."""
        self.add(f"{key}.txt", text.encode("utf-8"))
        self.add(f"{key}.{format}", data)


def shard_list(folder: str, names: Sequence[str]) -> bytes:
    """The content of `shards.list`: the path of each shard in `folder`, as WeNet's reader opens it."""
    return "".join(f"{_joined(folder, name)}\n" for name in names).encode("utf-8", "surrogateescape")


def read_shard_list(path: AnyPath) -> list[Path]:
    """The paths of the shards in a list.

    As in WeNet's reader, a line ends at a newline, not at other line separators of Unicode such as U+2028.
    """
    *lines, rest = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    return [Path(line.strip(" \t\r")) for line in (*lines, *([rest] if rest else []))]


def list_kind(path: AnyPath) -> Literal["shard", "raw"] | None:
    """The `data_type` that WeNet has for a list, by its usual name or its first lines; None for another file.

    The lines are paths of tars, or JSON with `key` and `wav`. Lists of wespeaker, which have `spk` instead of `txt`,
    count too.
    """
    if not path.is_file():
        return None
    if path.name in (LIST_NAME, RAW_LIST_NAME):
        return "raw" if path.name == RAW_LIST_NAME else "shard"
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    lines = [line.strip() for line in head.split(b"\n") if line.strip()]
    if len(lines) > 1 and len(head) == _HEAD_BYTES:
        del lines[-1]
    if not lines or b"\0" in head:
        return None
    if all(line.lower().endswith((b".tar", b".tar.gz", b".tgz")) for line in lines):
        return "shard"
    try:
        fields = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None
    return "raw" if isinstance(fields, dict) and {"key", "wav"} <= set(fields) else None


def _joined(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder.rstrip('/')}/{name}"


def check_listable(folder: str) -> None:
    """Check that the paths of files in `folder` can be lines of a list for WeNet's reader.

    Raises:
        UsageError: the path of the folder has a line break, or looks like an address such as `s3://...`.
    """
    if "\n" in folder or "\r" in folder:
        raise UsageError(f"a line of {LIST_NAME} cannot hold the line break in {folder!r}; choose another directory")
    try:
        scheme = urlparse(folder).scheme
    except ValueError:
        scheme = "an address"
    if scheme:
        raise UsageError(f"WeNet takes {folder} for an address ({scheme}); choose another directory")


def raw_line(key: str, path: str, text: str, span: tuple[float, float] | None) -> bytes:
    """A line of `data.list`; `span` is the start and end of a segment in seconds."""
    fields: dict[str, Any] = {"key": key, "wav": path, "txt": text}
    if span is not None:
        fields |= {"start": span[0], "end": span[1]}
    return json.dumps(fields, ensure_ascii=False).encode("utf-8") + b"\n"


def seconds_at(sample: int, rate: int) -> float:
    """The time in seconds that WeNet's reader converts to `sample` by `int(seconds * rate)`, which rounds down."""
    seconds = sample / rate
    while int(seconds * rate) < sample:
        seconds = math.nextafter(seconds, math.inf)
    return seconds


def shards_in(folder: AnyPath) -> dict[str, list[int]]:
    """The sorted numbers of the shards in a folder, by the prefix of the shards' names."""
    shards: dict[str, list[int]] = {}
    for name in listing(folder).files:
        if match := SHARD_FILE.match(name):
            shards.setdefault(match[1], []).append(int(match[2]))
    return {prefix: sorted(numbers) for prefix, numbers in shards.items()}


class WenetSet(StoredSet):
    """Shards for WeNet, or (`is_raw`) a data list; `list` is the file that WeNet's reader opens."""

    kind = "wenet"

    def __init__(self, list: AnyPath, *, is_raw: bool) -> None:
        super().__init__(list.parent, Listing([list.name], []))
        self.list = list
        self.is_raw = is_raw

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "WenetSet | None":
        """The set in a folder with `shards.list` or `data.list`, or that should have it (`published`); else None."""
        names = (name for name in (LIST_NAME, RAW_LIST_NAME) if name in listed.files or name in published)
        return next((cls(folder / name, is_raw=name == RAW_LIST_NAME) for name in names), None)

    def title(self, *, is_file: bool = False) -> str:
        """The `data_type` of WeNet, and the number of shards."""
        if self.is_raw:
            return "a data list for WeNet (data_type: raw)"
        return f"{number_of(len(self.tars), 'shard')} for WeNet (data_type: shard)"

    @property
    def audio_tars(self) -> list[AnyPath]:
        """The shards that are there."""
        return [tar for tar in self.tars if tar.is_file()]

    @cached_property
    def tars(self) -> list[AnyPath]:
        """The paths of the shards in the list, which start from the working folder, as for WeNet, or from the list's.

        A shard that is at neither place is expected next to the list.
        """
        named = [] if self.is_raw else [path for path in read_shard_list(self.list) if path.name]
        places = ((path_of(path), self.folder / str(path), self.folder / path.name) for path in named)
        return [next((place for place in those if place.is_file()), those[-1]) for those in places]

    def files(self) -> Iterator[AnyPath]:
        """The list and the shards."""
        yield from (self.list, *self.tars)
