"""Reads the output of `find-duplicates`, and finds the records that it lists in manifests."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.errors import UsageError, option
from prepcli.interface.printing import number_of
from prepcli.jobs.same_audio import NUM_FORMS, Audio, forms, part_of, real_file
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.parts import Part
from prepcli.manifest.sources import check_file
from prepcli.planning.hashing import Hashes


class DuplicateLine(msgspec.Struct):
    """A line of the output of `find-duplicates`."""

    audio_filepath: str
    duration: float
    duplicate_place: int
    duplicate_group: int = 0
    duplicate_by: str = ""
    offset: float | None = None
    channel: Any = None
    conversations: Any = None
    manifest_filepath: str = ""
    manifest_line: int = 0

    @property
    def audio(self) -> Audio:
        """The audio that the line names."""
        return Audio(self.audio_filepath, self.offset or 0.0, self.duration, part_of(self.channel, self.conversations))


class _PrintsLine(msgspec.Struct):
    prints_filepath: str | None = None


def read_duplicate_lines(name: str, path: Path) -> list[DuplicateLine]:
    """Read a file that `find-duplicates` has written, without its records of prints, whose audio is nowhere.

    Args:
        name: the option that names the file, for messages.
        path: the file.

    Raises:
        UsageError: the file is not the output of `find-duplicates`, or is a pipe.
    """
    check_file(str(path), option(name))
    decoder, of_prints = msgspec.json.Decoder(DuplicateLine), msgspec.json.Decoder(_PrintsLine)
    try:
        lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
        return [decoder.decode(line) for line in lines if of_prints.decode(line).prints_filepath is None]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{option(name, path)}: that is not the output of find-duplicates ({error}); give its OUT.jsonl"
        ) from None


class FirstRecords:
    """The records that are the first of a group and in no group another one: the list drops none of them.

    Only their places show it, if a manifest has the same audio in several lines.
    """

    def __init__(self, listed: Sequence[DuplicateLine]) -> None:
        others = {(line.manifest_filepath, line.manifest_line) for line in listed if line.duplicate_place}
        places = {(line.manifest_filepath, line.manifest_line): line for line in listed if not line.duplicate_place}
        firsts = [line for place, line in places.items() if place not in others]
        self._forms: dict[str, dict[int, list[int]]] = {}
        for line, keys in zip(firsts, forms(line.audio for line in firsts).tolist(), strict=True):
            self._forms.setdefault(real_file("", line.manifest_filepath), {})[line.manifest_line] = keys
        self._num_lines: Counter[str] = Counter()

    def among(self, manifest: str, part: Part, keys: Hashes, is_listed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether each record of the next part of a manifest is such a record; `keys` as for `pairs_of`."""
        lines = np.setdiff1d(np.arange(part.num_lines), part.gaps) + self._num_lines[manifest] + 1
        self._num_lines[manifest] += part.num_lines
        firsts = self._forms.get(real_file("", manifest), {})
        found = np.zeros(len(keys), bool)
        for at in np.flatnonzero(is_listed).tolist() if firsts else ():
            found[at] = int(keys[at]) in firsts.get(int(lines[at]), ())
        return found


class KeyPairs(NamedTuple):
    """Pairs of a record's number and a key, as two arrays of equal length; a record may be in several pairs."""

    records: NDArray[np.int64]
    keys: Hashes


def pairs_of(listed: Sequence[DuplicateLine], keys: Hashes) -> KeyPairs:
    """Find the listed records in manifests, and pair each with a hash of its group of duplicates.

    Args:
        listed: the lines of `find-duplicates`.
        keys: the key of each record's audio (`prepcli.jobs.same_audio.AudioKeys.taken_from`).
    """
    groups = np.frombuffer(b"".join(key_bytes(f"{line.duplicate_by} {line.duplicate_group}") for line in listed), "<u8")
    all_forms = forms(line.audio for line in listed).ravel()
    order = np.argsort(all_forms, kind="stable")
    begin, end = (np.searchsorted(all_forms[order], keys, side) for side in ("left", "right"))
    counts = end - begin
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    of_form = np.repeat(groups, NUM_FORMS)[order]
    return KeyPairs(np.repeat(np.arange(len(keys)), counts), of_form[np.repeat(begin, counts) + within])


def note_if_nothing(name: str, path: Path, num_listed: int, num_found: int, but: str = "") -> list[str]:
    """A note that no record of the manifests is in a list, although the list names some.

    `name`: the option. `but`: the records of the list that are not looked for.
    """
    if num_found or not num_listed:
        return []
    return [
        f"{option(name, path)}: none of the {number_of(num_listed, 'record')} that it lists{but} is in the manifests"
    ]
