"""Reading and making Shar sets in tests, with Python's own gzip and tarfile: no help from the code under test."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from tests.conftest import make_set
from tests.support.running import Outcome

FIELDS = ("target_audio", "context_audio")
Members = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Stored:
    """A recording as it lies in a tar."""

    name: str
    data: bytes
    manifest: dict[str, Any]

    @property
    def samples(self) -> NDArray[np.int16]:
        """Int16 samples, shape (n,)."""
        samples: NDArray[np.int16] = soundfile.read(io.BytesIO(self.data), dtype="int16")[0]
        return samples

    @property
    def rate(self) -> int:
        return int(soundfile.info(io.BytesIO(self.data)).samplerate)


@dataclass(frozen=True)
class Item:
    """A cut with its recordings."""

    cut: dict[str, Any]
    target: Stored
    context: Stored | None

    @property
    def supervision(self) -> dict[str, Any]:
        (one,) = self.cut["supervisions"]
        assert isinstance(one, dict)
        return one


def make(manifest: object, out: Path, *options: object) -> Outcome:
    """Run manifest-to-shar and let `verify` judge the result."""
    return make_set("manifest-to-shar", manifest, out, *options)


def members(path: Path) -> Members:
    """Names and contents of a tar's members, in order."""
    with tarfile.open(path) as tar:
        return [(member.name, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]


def rewrite_tar(path: Path, change: Callable[[Members], object]) -> None:
    """Change names and contents of a tar's members."""
    content = members(path)
    change(content)
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in content:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def recordings(path: Path) -> list[Stored]:
    pairs = members(path)
    stored = []
    for (name, data), (manifest_name, manifest) in zip(pairs[::2], pairs[1::2], strict=True):
        assert manifest_name == name.rpartition(".")[0] + ".json"
        stored.append(Stored(name, data, json.loads(manifest)))
    return stored


def read_cuts(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()).decode()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def read_shard(out: Path, number: int) -> list[Item]:
    """The items of a shard; its fields must be aligned."""
    cuts = read_cuts(out / f"cuts/cuts.{number:06d}.jsonl.gz")
    main = "recording" if (out / "recording").is_dir() else "target_audio"
    tars = [out / f"{field}/recording.{number:06d}.tar" for field in (main, "context_audio")]
    found = [recordings(tar) if tar.exists() else [None] * len(cuts) for tar in tars]
    items = [Item(*parts) for parts in zip(cuts, *found, strict=True)]
    for item in items:
        for stored in (item.target, item.context):
            assert stored is None or stored.name.rpartition(".")[0] == item.cut["id"]
    return items


def read_set(out: Path) -> list[Item]:
    """All items; shards must be numbered from 0 without a gap."""
    count = len(list((out / "cuts").iterdir()))
    return [item for number in range(count) for item in read_shard(out, number)]


def shar_fields(out: Path) -> dict[str, list[str]]:
    """What `CutSet.from_shar(fields=...)` takes."""
    fields = {"cuts": sorted(str(path) for path in (out / "cuts").iterdir())}
    for name in ("recording", *FIELDS):
        if (out / name).is_dir():
            fields[name] = sorted(str(path) for path in (out / name).iterdir())
    return fields


def with_contexts(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each record with another of the same speaker as its context: the longest, or the next to that."""
    extended = []
    for record in records:
        others = [other for other in records if other["speaker"] == record["speaker"] and other is not record]
        context = max(others, key=lambda other: float(other["duration"]))
        added = {
            "context_speaker_similarity": 0.75,
            "context_audio_filepath": context["audio_filepath"],
            "context_audio_offset": context.get("offset", 0.0),
            "context_audio_duration": context["duration"],
            "context_audio_text": context["text"],
        }
        extended.append(record | added)
    return extended
