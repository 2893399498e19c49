"""Codes beside a plain manifest, as NeMo's MagpieTTSDataset reads them: a file per segment, and fields that name it.

The layout is that of NeMo's codec_extraction.py: `codes_<name>/<relative path of the audio>.pt` with int16 tensors of
shape (codebooks, frames).
"""

import os
import posixpath
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prepcli.formats.codes import CODES_FOLDER
from prepcli.formats.names import digest, segment_suffix

CODES_PATH = {"target_audio": "target_audio_codes_path", "context_audio": "context_audio_codes_path"}
"""The fields of a line with the absolute paths of its codes."""
FRAME_SHIFT = "frame_shift"
"""The name in the report of the seconds of a frame."""
MANIFEST_NAME = "{}_withAudioCodes_{}.json"
FILE_PATTERN = CODES_FOLDER + "/**/*.pt"
_MAX_NAME_BYTES = 160
"""Longest last part of a path without what makes it unique; file systems have 255 bytes."""


@lru_cache(maxsize=64)
def codes_stem(path: str, base_dir: str) -> str:
    """The name of the codes of an audio file, without `.pt` and what makes it unique: its path below its base folder.

    `path` is absolute. Of one outside of the base folder, it is the whole path without the slash it begins with. `@`
    stands only before what makes a name unique, and nowhere else.
    """
    inside = path.startswith(base_dir.rstrip("/") + "/")
    relative = path[len(base_dir.rstrip("/")) + 1 :] if inside else path.lstrip("/")
    parts = ["_.." if part == ".." else part for part in posixpath.splitext(relative)[0].split("/")]
    encoded = parts[-1].encode("utf-8", "replace")
    if len(encoded) > _MAX_NAME_BYTES:
        parts[-1] = f"{digest(path)}_{encoded[-_MAX_NAME_BYTES:].decode('utf-8', 'ignore')}"
    return "/".join(parts).replace("@", "_")


def codes_file(
    codec: str,
    stem: str,
    *,
    other_of: str | None = None,
    segment: tuple[float, float] | None = None,
    channel: int | None = None,
) -> str:
    """The name below OUT of the codes of a segment.

    Args:
        codec: the name in `codes_<name>`.
        stem: what `codes_stem` gives.
        other_of: the path of the file, where another file has the same stem.
        segment: offset and duration in seconds, where there are codes of several segments of the file.
        channel: that of the segment, where a record names one.
    """
    unique = [] if other_of is None else [digest(other_of)]
    if segment is not None:
        unique.append(segment_suffix(*segment)[1:])
        unique += [] if channel is None else [f"c{channel}"]
    return os.path.join(CODES_FOLDER.format(codec), "@".join([stem, *unique]) + ".pt")


def codes_bytes(codes: NDArray[np.integer]) -> bytes:
    """The content of a file with codes (codebooks, frames)."""
    import torch

    from prepcli.formats.tensors import tensor_bytes

    # A copy: of a view all of its storage would be written.
    return tensor_bytes(torch.from_numpy(np.array(codes, order="C")))
