"""Reading codes in tests, and what they should be: lhotse's audio, one segment at a time through the codec."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prepcli.models.protocols import Codec
from tests.support.lazy import lazy
from tests.support.shar_sets import members, shar_fields

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")


@dataclass(frozen=True)
class StoredCodes:
    """An array as it lies in a tar; None where there is a placeholder."""

    cut_id: str
    codes: NDArray[np.integer[Any]] | None
    manifest: dict[str, Any] | None


def read_codes(tar: Path) -> list[StoredCodes]:
    pairs = members(tar)
    stored = []
    for (name, data), (manifest_name, manifest) in zip(pairs[::2], pairs[1::2], strict=True):
        stem, _, kind = name.rpartition(".")
        if kind == "nodata":
            assert (manifest_name, data, manifest) == (f"{stem}.nometa", b"", b"")
            stored.append(StoredCodes(stem, None, None))
        else:
            assert (kind, manifest_name) == ("npy", f"{stem}.json")
            stored.append(StoredCodes(stem, np.load(io.BytesIO(data), allow_pickle=False), json.loads(manifest)))
    return stored


def codes_fields(folder: Path, codes: Path) -> dict[str, list[str]]:
    """What `CutSet.from_shar(fields=...)` takes: the set in `folder`, and all fields of `codes` (codes_<name>)."""
    fields = shar_fields(folder)
    for field in sorted(codes.iterdir()):
        fields[field.name] = sorted(str(path) for path in field.iterdir())
    return fields


def lhotse_cuts(folder: Path, codes: Path) -> list[Any]:
    """The cuts with their audio and codes, as lhotse reads them."""
    from lhotse import CutSet

    return list(CutSet.from_shar(fields=codes_fields(folder, codes)))


def alone(codec: Codec, recording: Any) -> NDArray[np.integer[Any]]:
    """The codes (C, F) of a lhotse recording, resampled by lhotse, with nothing else in the batch."""
    audio = torch.from_numpy(recording.resample(codec.sampling_rate).load_audio()[:1])
    padded = torch.nn.functional.pad(audio, (0, -audio.shape[1] % codec.samples_per_frame))
    codes, _ = codec.encode(padded, torch.tensor([audio.shape[1]]), "fp32")
    found: NDArray[np.integer[Any]] = codes[0].numpy()
    return found
