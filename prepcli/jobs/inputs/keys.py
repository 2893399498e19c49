"""Divides the names of an archive's members into the key of a sample and an extension.

The keys of webdataset end at the first dot of a base name (webdataset/tariterators.py), those of WeNet at the last dot
(wenet/dataset/processor.py). So do the names of files that are only packed, such as `anna.take1.wav`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from prepcli.errors import option
from prepcli.jobs.inputs.catalogue import is_audio_suffix

Keys = Literal["webdataset", "wenet"]
TEXTS = ("txt", "text", "transcript", "normalized.txt")
FIELD_OF = {"lang": "lang", "cls": "cls", "spk": "speaker", "speaker": "speaker"}
"""The field that a file of a sample holds as a text, by its extension; `.spk` is that of wespeaker."""
_FIRST_DOT = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
_HIDDEN = re.compile(r"(^|/)(__[^/]*__($|/)|\._|\.DS_Store$)")


class Key(NamedTuple):
    """The key of a member's sample, empty for audio without a key such as `a/.wav`, and its extension in lower case."""

    key: str
    extension: str


def split_at_first_dot(name: str) -> Key | None:
    """The key of a member in webdataset; None if it belongs to no sample."""
    if _HIDDEN.search(name):
        return None
    if match := _FIRST_DOT.match(name):
        return Key(match[1], match[2].lower())
    extension = name.rpartition(".")[2]
    return Key("", extension.lower()) if "." in name and is_audio_suffix(extension) else None


def split_at_last_dot(name: str) -> Key | None:
    """The key of a member in a shard of WeNet, and of a file that is only packed; None if it belongs to no sample."""
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.rpartition(".")
    if not dot or _HIDDEN.search(name):
        return None
    return Key(folder + slash + stem if stem.strip(".") else "", extension.lower())


_Split = Callable[[str], Key | None]
_SPLITS: dict[Keys, _Split] = {"wenet": split_at_last_dot, "webdataset": split_at_first_dot}


def is_audio(extension: str, wanted: str | None) -> bool:
    """Whether a file is the audio of its sample: it has the extension `wanted` (None: any of audio)."""
    return extension == wanted.lstrip(".").lower() if wanted is not None else is_audio_suffix(extension)


class KeyRule:
    """The rule for the keys of an archive: `keys`, or the rule that pairs its audio with texts.

    Only names with several dots are divided in different ways. `names` gives all names of the archive: they are read
    when the first such name comes.
    """

    def __init__(
        self, keys: Keys | None, audio: str | None, names: Callable[[], Iterable[str]], *, is_zip: bool
    ) -> None:
        """`audio`: the extension of the audio that the user has named; `is_zip`: no loader reads it as webdataset."""
        self._audio, self._names, self._is_zip = audio, names, is_zip
        self._split: _Split | None = None if keys is None else _SPLITS[keys]

    def split(self, name: str) -> Key | None:
        """The key and the extension of a member; None if it belongs to no sample."""
        if self._split is None and name.count(".", name.rfind("/") + 1) <= 1:
            return split_at_first_dot(name)
        self._split = self._split or self._better()
        return self._split(name)

    def _better(self) -> _Split:
        """The rule that pairs more audio with texts, finds more audio, or leaves fewer files without audio.

        If both are alike, names are those of files. But a tar with several files of audio up to the same first dot may
        be either.
        """
        names = list(self._names())
        first, last = (self._samples(names, split) for split in (split_at_first_dot, split_at_last_dot))
        if first.score > last.score:
            return split_at_first_dot
        is_unclear = first.score == last.score and first.has_several and not self._is_zip
        return split_at_first_dot if is_unclear else split_at_last_dot

    def _samples(self, names: Iterable[str], split: _Split) -> "_Samples":
        by_key: dict[str, _Sample] = {}
        for name in names:
            if (key := split(name)) is not None:
                sample = by_key.setdefault(key.key, _Sample())
                if is_audio(key.extension, self._audio):
                    sample.num_audio += 1
                elif key.extension in ("json", *TEXTS, *FIELD_OF):
                    sample.num_texts += 1
                else:
                    sample.num_others += 1
        samples = by_key.values()
        return _Samples(
            (
                sum(sample.num_audio for sample in samples if sample.num_texts),
                sum(sample.num_audio for sample in samples),
                -sum(sample.num_texts + sample.num_others for sample in samples if not sample.num_audio),
            ),
            any(sample.num_audio > 1 for sample in samples),
        )

    def choice(self, path: str, names: list[str]) -> str:
        """The message for a sample with several files of audio, `names`: which choices the user has."""
        extensions = [key.extension for name in names if (key := self.split(name)) is not None]
        message = f"{path} has several files of audio in a sample, {' and '.join(names[:2])}"
        choose = "choose with {}"
        if any("." in extension for extension in extensions):
            counts = Counter(key.extension for name in self._names() if (key := split_at_first_dot(name)) is not None)
            common = max(extensions, key=counts.__getitem__)
            message += ", because a key of webdataset ends at the first dot of a name"
            packed = f"if each is a record, {option('--input-format', 'wenet')} reads keys up to the last dot"
            if counts[common] == 1:
                return f"{message}: {packed}"
            return f"{message}: {choose.format(option('--audio-column', common))}; {packed}"
        return f"{message}: {choose.format(option('--audio-column', extensions[0]))}"


class _Sample:
    __slots__ = ("num_audio", "num_others", "num_texts")

    def __init__(self) -> None:
        self.num_audio = self.num_texts = self.num_others = 0


class _Samples(NamedTuple):
    """The result of a rule: a tuple that is greater for a better rule, and whether a sample has several audio files."""

    score: tuple[int, int, int]
    has_several: bool
