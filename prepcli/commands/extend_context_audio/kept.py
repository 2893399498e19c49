"""Embeddings that are kept next to the output, so that a run with another threshold does not compute them again.

`OUT.prepcli/embeddings/<hash of model, device and folders>/<bundle>.npy` has a row for each record of the bundle that
has an embedding: a key of the audio from which the embedding was computed, and the embedding. `--overwrite` keeps these
files; they may be deleted at any time.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.engine.state.workspace import Workspace, atomic_file
from prepcli.errors import UsageError, option
from prepcli.formats.npy import npy_bytes
from prepcli.jobs.records import Records, segment_identity
from prepcli.manifest.record import Record
from prepcli.planning.hashing import Hashes, mix64
from prepcli.planning.split import Indices

FOLDER = "embeddings"
_NO_FILE = np.uint64(0)
"""The key of a record whose audio file is missing."""


class EmbeddingStore:
    """The kept embeddings of one model: in this output and, if the user names one, in the output of another run."""

    def __init__(self, model: str, device: str, base_dirs: Sequence[str], reused: Path | None = None) -> None:
        """Name the store's folder by a hash of the model, the kind of device, and the base folders of relative paths.

        The kind of device is cpu or cuda, because their embeddings differ by rounding. `reused` is the output directory
        of another run.

        Raises:
            UsageError: the other run has no embeddings of the same model, kind of device and `base_dirs`.
        """
        described = msgspec.json.encode([model, device.partition(":")[0], list(dict.fromkeys(base_dirs))])
        self._name = hashlib.sha256(described).hexdigest()[:16]
        self._reused = None
        if reused is not None:
            folder = Workspace(reused).root / FOLDER
            self._reused = folder / self._name
            if not folder.is_dir():
                raise UsageError(
                    f"{option('--reuse-embeddings', reused)}: there are no embeddings in {folder}; give the output "
                    "directory of an earlier extend-context-audio"
                )
            if not self._reused.is_dir():
                raise UsageError(
                    f"{option('--reuse-embeddings', reused)}: its embeddings are of another "
                    f"{option('--speaker-model')}, another {option('--audio-base-dir')} or another kind of device "
                    "(CPU, GPU); leave the option out to compute them"
                )

    def find(self, root: Path, bundle: str, keys: Hashes) -> "KeptEmbeddings":
        """The kept embeddings of a bundle. `keys`: from `keys_of`, one per record. `root`: this run's workspace."""
        own, *others = self._files(root, bundle)
        for path in (own, *others):
            rows = _rows_of(path, keys)
            if (rows >= 0).any():
                return KeptEmbeddings(own, path, keys, rows)
        return KeptEmbeddings(own, own, keys, np.full(len(keys), -1, np.int64))

    def _files(self, root: Path, bundle: str) -> list[Path]:
        """The files with a bundle's embeddings: of this run, then of the run whose embeddings are reused, if any."""
        folders = [root / FOLDER / self._name, *([] if self._reused is None else [self._reused])]
        return [folder / f"{bundle}.npy" for folder in folders]


class KeptEmbeddings:
    """The kept embeddings of one bundle.

    Attributes:
        is_kept: for each record of the bundle, whether its embedding is kept.
    """

    def __init__(self, own: Path, source: Path, keys: Hashes, rows: Indices) -> None:
        """`own`: the file to write. `source`: the file to read. `rows`: for each record, its row in `source`, or -1."""
        self._own, self._source = own, source
        self._keys = keys
        self._rows = rows
        self.is_kept: NDArray[np.bool_] = rows >= 0

    def load(self, dim: int) -> NDArray[np.float32]:
        """The embeddings of the bundle's N records, of shape (N, dim); NaN for records without a kept embedding.

        If all embeddings are kept, the file determines their dimension, not `dim`.
        """
        if self.is_kept.all():
            every: NDArray[np.float32] = np.load(self._source)["embedding"][self._rows]
            return every
        embeddings = np.full((len(self._keys), dim), np.nan, np.float32)
        if self.is_kept.any():
            kept: NDArray[np.float32] = np.load(self._source)["embedding"][self._rows[self.is_kept]]
            embeddings[self.is_kept] = kept
        return embeddings

    def save(self, embeddings: NDArray[np.float32], readable: NDArray[np.bool_]) -> None:
        """Keep the embeddings (N, dim) of the `readable` records in the file of this run, unless it has all of them."""
        chosen = readable & (self._keys != _NO_FILE)
        if self._source == self._own and self.is_kept[chosen].all():
            return
        rows = np.empty(int(chosen.sum()), [("key", "<u8"), ("embedding", "<f4", (embeddings.shape[1],))])
        rows["key"], rows["embedding"] = self._keys[chosen], embeddings[chosen]
        self._own.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(self._own) as file:
            file.write(npy_bytes(rows))


class NothingToEmbedEncoder:
    """Takes the place of the speaker model if all embeddings are kept from earlier runs: nothing is left to compute.

    So the model need not be loaded: for one of NeMo's models, this would import NeMo and take half a minute.
    """

    sampling_rate = 16000
    min_samples = 1
    dim = 0
    rows_on_cpu: int | None = None

    def padded_lengths(self, num_samples: Indices) -> Indices:
        """Return the lengths unchanged: there are no batches."""
        return num_samples

    def to(self, device: str) -> None:
        """Do nothing: there is no model to move."""

    def embed(self, audio: object, lengths: object) -> Any:
        """Fail: there is no audio to embed."""
        raise AssertionError("there was nothing to embed")


def _rows_of(path: Path, keys: Hashes) -> Indices:
    """For each key, the number of the row with this key in a file of kept embeddings; -1 if no row has it.

    A file that is missing or damaged has no rows.
    """
    none = np.full(len(keys), -1, np.int64)
    try:
        stored: Any = np.load(path, mmap_mode="r")
        kept = np.ascontiguousarray(stored["key"])
    except (OSError, ValueError, EOFError, IndexError):
        return none
    if not len(kept):
        return none
    order = np.argsort(kept, kind="stable")
    at = order[np.minimum(np.searchsorted(kept[order], keys), len(kept) - 1)]
    return np.where((kept[at] == keys) & (keys != _NO_FILE), at, -1)


def keys_of(records: Records, numbers: Indices, files: Hashes) -> Hashes:
    """A 64-bit key of the audio of each record in `numbers`; 0 if the audio file is missing.

    The key is a hash of the segment, and of the size and modification time of the file. `files` has a hash of the path
    of the file for every record of the manifests.
    """
    of_records = files[numbers]
    _, first, inverse = np.unique(of_records, return_index=True, return_inverse=True)
    states = np.array([_state(records, int(number)) for number in numbers[first]], np.uint64).reshape(-1, 2)
    segments = segment_identity(records.index, files)[numbers]
    keys: Hashes = mix64(segments ^ mix64(states[:, 0] ^ mix64(states[:, 1]))[inverse])
    keys[keys == _NO_FILE] = np.uint64(1)
    keys[(states == 0).all(axis=1)[inverse]] = _NO_FILE
    return keys


def _state(records: Records, number: int) -> tuple[int, int]:
    path = records.audio_path(number, Record.parse(records.line(number)).audio_filepath)
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return 0, 0
    return state.st_size, state.st_mtime_ns & 0xFFFFFFFFFFFFFFFF
