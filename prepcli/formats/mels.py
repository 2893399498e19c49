"""Mel-spectrograms on disk and their file lists, as Tacotron 2 and WaveGlow of DeepLearningExamples read them."""

import re
from collections.abc import Collection, Iterator
from functools import cached_property

from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.folders import Listing, listing
from prepcli.formats.stored_set import StoredSet
from prepcli.storage.paths import AnyPath

MEL_NAME = "mels/{}.pt"
LIST_NAME = "filelists/{}_{}_text_filelist.txt"
_LISTS = "filelists"
LIST_FILE = re.compile(r"(.+)_(audio|mel)_text_filelist\.txt$")
AUDIO, MEL = "audio", "mel"
SEPARATOR = "|"


def list_line(path: str, text: str, text_field: str) -> bytes:
    """A line of a file list; `text_field` is the name of the text's field, for messages.

    Raises:
        RecordRejected: BAD_FIELD if a line cannot hold the path or the text.
    """
    for name, value in (("audio_filepath", path), (text_field, text)):
        for char, shown in ((SEPARATOR, "'|'"), ("\n", "a line break"), ("\r", "a line break")):
            if char in value:
                raise RecordRejected(RejectReason.BAD_FIELD, f"{name} has {shown}, which a file list cannot hold")
    return f"{path}{SEPARATOR}{text}\n".encode()


class MelSet(StoredSet):
    """File lists for Tacotron 2 and WaveGlow, with or without mels."""

    kind = "mels"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "MelSet | None":
        """The set in a folder with file lists, or in which a run has `published` some; else None."""
        mels = cls(folder, listed)
        return mels if mels.lists or any(name.startswith(f"{_LISTS}/") for name in published) else None

    @cached_property
    def lists(self) -> list[AnyPath]:
        """The paths of the file lists, in the folder itself and in `filelists/`."""
        below = listing(self.folder / _LISTS).files if _LISTS in self.listed.folders else []
        names = (*self.listed.files, *(f"{_LISTS}/{name}" for name in below))
        return [self.folder / name for name in names if LIST_FILE.match(name.rpartition("/")[2])]

    def title(self, *, is_file: bool = False) -> str:
        """The words for mels with file lists, or for file lists alone."""
        lists = "a file list" if is_file else "mels and file lists" if self.has_mels else "file lists"
        return f"{lists} for Tacotron 2 and WaveGlow"

    @property
    def has_mels(self) -> bool:
        """Whether the set has a folder of mels, and not only file lists."""
        return "mels" in self.listed.folders

    def files(self) -> Iterator[AnyPath]:
        """The lists alone. The mels, which the lists name, are not among them."""
        yield from self.lists
