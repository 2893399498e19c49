"""Reads the output of `find-duplicates`, and finds the records that it lists in manifests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.errors import UsageError, option
from prepcli.jobs.same_audio import NUM_FORMS, Audio, forms, part_of
from prepcli.manifest.columns import key_bytes
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
        raise UsageError(f"{option(name, path)}: that is not the output of find-duplicates: {error}") from None


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


def note_if_nothing(name: str, path: Path, num_listed: int, num_found: int) -> list[str]:
    """A note that no record of the manifests is in a list, although the list names some; `name`: the option."""
    if num_found or not num_listed:
        return []
    return [f"{option(name, path)}: none of the {num_listed:,} records that it lists is in the manifests"]
