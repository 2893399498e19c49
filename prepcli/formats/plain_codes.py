"""Codes for a plain manifest, as NeMo's MagpieTTSDataset reads them: one file per segment, whose path is in the record.

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
from prepcli.formats.npy import tensor_bytes
from prepcli.storage.containers import own_name

CODES_PATH = {"target_audio": "target_audio_codes_path", "context_audio": "context_audio_codes_path"}
"""For each field of audio, the field of a manifest line with the absolute path of the audio's codes."""
FRAME_SHIFT = "frame_shift"
"""The key in the report for the seconds per frame."""
MANIFEST_NAME = "{}_withAudioCodes_{}.json"
_MAX_NAME_BYTES = 160
"""Maximum bytes of the last part of a path, without the suffix that makes it unique; file systems allow 255 bytes."""


@lru_cache(maxsize=64)
def codes_stem(path: str, base_dir: str) -> str:
    """The stem of the file with an audio file's codes: the path of the audio below `base_dir`, without its extension.

    `path` is absolute. If the audio is outside of `base_dir`, the stem is the whole path without its first slash. A
    file name that is too long is replaced by a digest and the name's end. `@` becomes `_`, because `codes_file` puts
    `@` between the stem and the parts that make the name unique.
    """
    path = own_name(path)
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
    """The path, relative to OUT, of the file with the codes of a segment.

    Args:
        codec: the name in `codes_<name>`.
        stem: the result of `codes_stem`.
        other_of: the path of the audio file, if another audio file has the same stem; its digest then makes the name
            unique. None if the stem is unique.
        segment: offset and duration in seconds, if several segments of the file have codes.
        channel: channel of the segment, if a record names one; used only together with `segment`.
    """
    unique = [] if other_of is None else [digest(other_of)]
    if segment is not None:
        unique.append(segment_suffix(*segment)[1:])
        unique += [] if channel is None else [f"c{channel}"]
    return os.path.join(CODES_FOLDER.format(codec), "@".join([stem, *unique]) + ".pt")


def codes_bytes(codes: NDArray[np.integer]) -> bytes:
    """The content of a `.pt` file with codes of shape (codebooks, frames)."""
    import torch

    # A copy: with a view, torch would write the whole storage.
    return tensor_bytes(torch.from_numpy(np.array(codes, order="C")))
