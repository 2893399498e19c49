"""JSON lines with texts and codes for the fine-tuning of Qwen3-TTS (its finetuning/dataset.py)."""

import re
from collections.abc import Collection, Iterator

from prepcli.formats.folders import Listing
from prepcli.formats.stored_set import StoredSet
from prepcli.storage.paths import AnyPath

LINES_NAME = "{}_withAudioCodes_{}.jsonl"
LINES_FILE = re.compile(r".+_withAudioCodes_.+\.jsonl$")
NUM_CODEBOOKS = 16
REFERENCE_RATE = 24000
"""The sampling rate (Hz) that `ref_audio` must have: Qwen3-TTS fails for another rate."""
CODES = "audio_codes"
"""The field with the codes: for each frame a list of `NUM_CODEBOOKS` numbers."""
REFERENCE = "ref_audio"


class QwenSet(StoredSet):
    """JSON lines with codes for Qwen3-TTS."""

    kind = "qwen3-tts"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "QwenSet | None":
        """The set in a folder with files of JSON lines, or in which a run has `published` some; else None."""
        there = [name for name in listed.files if LINES_FILE.match(name)]
        return cls(folder, Listing(there, [])) if there or any(map(LINES_FILE.match, published)) else None

    def title(self, *, is_file: bool = False) -> str:
        """The same words for all."""
        return "JSON lines with codes for Qwen3-TTS"

    def files(self) -> Iterator[AnyPath]:
        """The files of JSON lines."""
        yield from (self.folder / name for name in self.listed.files)
