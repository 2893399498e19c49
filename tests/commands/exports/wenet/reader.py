"""WeNet's reading of its lists, written from a description of the format, not from WeNet's code.

WeNet is not on PyPI, so its own `Dataset` cannot be a judge in these tests.
"""

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
import soundfile
from numpy.typing import NDArray

AUDIO = {"flac", "mp3", "m4a", "ogg", "opus", "wav", "wma"}


@dataclass(frozen=True)
class Utterance:
    """What reaches the trainer: samples of the first channel as int16, at `rate` (Hz)."""

    key: str
    txt: str
    audio: NDArray[np.int16]
    rate: int
    stored: bytes

    @property
    def frames(self) -> float:
        return len(self.audio) / self.rate * 100


def read_shards(listed: Path) -> Iterator[Utterance]:
    with listed.open() as lines:
        for line in lines:
            url = line.strip("\n")
            assert urlparse(url).scheme == ""
            with open(url, "rb") as stream, tarfile.open(fileobj=stream, mode="r:*") as tar:  # noqa: PTH123
                yield from _group(tar)


def _group(tar: tarfile.TarFile) -> Iterator[Utterance]:
    example: dict[str, bytes] = {}
    before: str | None = None
    for member in tar:
        prefix, _, postfix = member.name.rpartition(".")
        assert prefix
        if before is not None and prefix != before:
            yield _decoded(before, example)
            example = {}
        content = tar.extractfile(member)
        assert content is not None
        example["wav" if postfix in AUDIO else postfix] = content.read()
        before = prefix
    if before is not None:
        yield _decoded(before, example)


def _decoded(key: str, example: dict[str, bytes]) -> Utterance:
    audio, rate = soundfile.read(io.BytesIO(example["wav"]), dtype="int16", always_2d=True)
    return Utterance(key, example["txt"].decode("utf-8").strip(), audio[:, 0], rate, example["wav"])


def read_raw(listed: Path, folder: Path | None = None) -> Iterator[Utterance]:
    for line in listed.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        assert set(item) in ({"key", "wav", "txt"}, {"key", "wav", "txt", "start", "end"})
        path = Path(item["wav"]) if folder is None else folder / item["wav"]
        rate = soundfile.info(path).samplerate
        span = [int(item[name] * rate) for name in ("start", "end")] if "start" in item else [0, None]
        audio, _ = soundfile.read(path, start=span[0], stop=span[1], dtype="int16", always_2d=True)
        yield Utterance(item["key"], item["txt"], audio[:, 0], rate, path.read_bytes())
