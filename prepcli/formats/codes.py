"""Fields with codec codes in a Lhotse Shar set, as Magpie-TTS reads them: names, and tars with arrays and manifests.

The rules of the reader are in lhotse/shar/readers/tar.py and lhotse/array.py; the tests compare with lhotse.
"""

import re

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.formats.indexes import PairTarWriter
from prepcli.formats.npy import npy_bytes
from prepcli.formats.shar import CONTEXT, TARGET, encode_json
from prepcli.formats.tar import Sink

CODES_FOLDER = "codes_{}"
CODES_NAME = "codes_{}/{}/codes.{}.tar"
"""The path of a tar of codes below the set, with places for the codec's name, the field and the shard's number."""
CODES_FILE = re.compile(r"codes\.(\d+)\.tar$")
CODES_OF = {TARGET: "target_codes", CONTEXT: "context_codes"}
"""For each field of audio, the field with the codes of that audio."""

_TYPES = (np.int16, np.int32)


def codes_type(codebook_size: int) -> type[np.int16] | type[np.int32]:
    """The type for codes: int16 if `codebook_size` - 1, the largest code, fits into it, else int32."""
    return next(kind for kind in _TYPES if codebook_size - 1 <= np.iinfo(kind).max)


class ArrayLine(msgspec.Struct, frozen=True):
    """The manifest of an array, as lhotse's Array; the bytes of the array are in the tar."""

    shape: tuple[int, ...]
    storage_type: str = "shar"
    storage_path: str = ""
    storage_key: str = ""


class TemporalArrayLine(msgspec.Struct, frozen=True):
    """lhotse's TemporalArray: the last dimension is time, in steps of `frame_shift` seconds."""

    array: ArrayLine
    frame_shift: float
    temporal_dim: int = -1
    start: float = 0.0


class CodesWriter(PairTarWriter):
    """Appends codes to the tar of one field: the array, then its manifest, both named by the cut's id."""

    def __init__(self, sink: Sink, frame_shift: float) -> None:
        """`frame_shift`: seconds per frame of codes."""
        super().__init__(sink)
        self._frame_shift = frame_shift

    def add_codes(self, cut_id: str, codes: NDArray[np.integer]) -> None:
        """Append one cut's codes, of shape (codebooks, frames)."""
        manifest = TemporalArrayLine(ArrayLine(codes.shape), self._frame_shift)
        self.add(f"{cut_id}.npy", npy_bytes(codes))
        self.add(f"{cut_id}.json", encode_json(manifest) + b"\n")

    def add_placeholder(self, cut_id: str) -> None:
        """Append lhotse's placeholder for a cut without this field: two empty members, so that fields stay aligned."""
        self.add(f"{cut_id}.nodata", b"")
        self.add(f"{cut_id}.nometa", b"")
