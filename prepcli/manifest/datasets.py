"""Data sets as trainers read them: manifests, cuts, Shar and tarred sets, alone or mixed by weights.

Forms and their meanings follow NeMo 3.0, nemo/collections/common/data/lhotse/cutset.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedReader, RawIOBase
from typing import Any, cast

import msgspec

from prepcli.engine.run.unfinished import refuse_unfinished
from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.folders import advice_on_audio
from prepcli.formats.sets import open_set, sets_in
from prepcli.formats.shar_set import SharSet
from prepcli.manifest.fields import parse_fields
from prepcli.manifest.loader_keys import LoaderKeys
from prepcli.manifest.parts import ParquetColumns
from prepcli.manifest.sources import check_file, expand_paths, open_bytes
from prepcli.storage.paths import is_dir, is_file, path_of


@dataclass(frozen=True)
class EntrySettings:
    """The settings of an `input_cfg` entry or a training config for a data set, in addition to its files."""

    tags: tuple[tuple[str, Any], ...] = ()
    """Fields that every record gets, with their values; they replace fields of the same name."""
    text_field: str | None = None
    lang_field: str | None = None
    audio_locator_tag: str | None = None
    token_equivalent_duration: float | None = None
    """The number of seconds of audio that count as one token."""
    endless: bool = False
    """Whether the entry has `force_finite: false`: then a training run repeats the data set endlessly."""
    loader: LoaderKeys = field(default_factory=LoaderKeys)
    """The keys of the training config that names the data."""
    remarks: tuple[str, ...] = ()
    """Sentences for users, each about keys that have another effect here than users may expect."""
    config_files: tuple[str, ...] = field(default=(), compare=False)
    """The chain of config files, each included by the one before."""
    training_config: str | None = field(default=None, compare=False)
    """The first of `config_files` if it is a whole training config, into which bins may be written; else None."""


@dataclass(frozen=True)
class DataSet:
    """Files that are read one after the other: NeMo manifests; lhotse cuts if `cuts`; Parquet files if `parquet`.

    `left_out`: the type of an `input_cfg` entry without audio, which the command does not read; `paths` is then empty.
    """

    paths: tuple[str, ...]
    cuts: bool = False
    settings: EntrySettings = EntrySettings()
    parquet: ParquetColumns | None = None
    left_out: str | None = None


@dataclass(frozen=True)
class TextSet(DataSet):
    """Text files of one `kind`, the type of their `input_cfg` entry.

    `paths` are files of texts (txt), of source texts (txt_pair), or of JSON lines (multimodal_conversation, share_gpt
    with its `tars`, `audio_root` and `placeholders`), or a folder with tars (share_gpt_webdataset). For
    txt_pair, `target_paths` are the files of the target texts, in the order of `paths`. `language` (of the texts or
    source texts) and `target_language` are the languages that the entry states, for NeMo's prompts.
    """

    kind: str = "txt"
    target_paths: tuple[str, ...] = ()
    questions_path: str | None = None
    questions_language: str | None = None
    language: str | None = None
    target_language: str | None = None
    tars: tuple[str, ...] = ()
    audio_root: str | None = None
    placeholders: tuple[str, ...] = ("<sound>", "<speech>")


@dataclass(frozen=True)
class Mix:
    """Data sets that are interleaved at random by `weights`; a weight of None stands for the part's number of lines."""

    parts: "tuple[DataSet | Mix, ...]"
    weights: tuple[float | None, ...]


def parse_paths(config: dict[str, Any]) -> DataSet | Mix:
    """The data that a config names by `shar_path`, `cuts_path` or `manifest_filepath`, in this order of precedence.

    Raises:
        UsageError: none of these keys is given, a value does not have the form that NeMo reads, or a file is missing.
    """
    if config.get("shar_path") is not None:
        return _parse_shar_path(config["shar_path"])
    if config.get("cuts_path") is not None:
        return _parse_cuts_path(config["cuts_path"])
    if config.get("manifest_filepath") is not None:
        return _parse_manifest_filepath(config["manifest_filepath"])
    raise UsageError("an entry of the input has none of the keys shar_path, cuts_path and manifest_filepath")


def data_in_directory(directory: str) -> DataSet | Mix:
    """The data of a directory: a Lhotse Shar, a tarred set or Parquet files.

    The cuts of a Shar are `cuts.*` in the directory or in its folder `cuts/`. A tarred set may be divided into buckets
    (`bucket1/`, ...).

    Raises:
        UsageError: the directory holds none of them, or a set that is not finished.
    """
    top = path_of(directory)
    refuse_unfinished(top)
    # lhotse gives the files of a single shard no number, so they look like other files of cuts.
    for stored in (*sets_in(top), SharSet(top, is_flat=True), SharSet(top)):
        if paths := stored.record_files():
            return DataSet(paths, stored.kind == "shar", parquet=ParquetColumns() if stored.kind == "parquet" else None)
        if stored.parts:
            stored.check_parts()
            return _mix([(data_in_directory(str(bucket.folder)), None) for bucket in stored.parts.values()])
    if (other := open_set(top)) is not None and other.kind == "conversations":
        config = f"{directory.rstrip('/')}.prepcli/train_ds.yaml"
        raise UsageError(f"{directory} is a set of conversations: give a config that names it, such as {config}")
    raise UsageError(
        f"{directory} holds neither Shar (cuts.*, cuts/cuts.*) nor a tarred set "
        "(sharded_manifests/manifest_*.json, tarred_audio_manifest.json, bucket1/...) nor Parquet files"
        f"{advice_on_audio(top)}"
    )


def parquet_set(entry: dict[str, Any]) -> DataSet:
    """The data of an `input_cfg` entry of type `parquet`.

    Its `manifest_filepath` is a file or a list of files. As in NeMo, names with a pattern are not expanded.

    Raises:
        UsageError: a value has the wrong type, a name has a pattern, or a file is missing.
    """
    value = entry["manifest_filepath"]
    names = value if isinstance(value, list) else [value]
    columns = ParquetColumns(entry.get("audio_field", "audio"), entry.get("duration_field", "duration"))
    if not all(isinstance(name, str) for name in (*names, columns.audio, columns.duration)):
        raise UsageError(
            f"manifest_filepath of an entry of type parquet must be a file or a list of files, not {value!r}; "
            "audio_field and duration_field are names of columns"
        )
    for name in names:
        if ("_OP_" in name or "{" in name) and not is_file(name):
            raise UsageError(
                f"{name} is not a file; NeMo expands no patterns of an entry of type parquet: list the files"
            )
    return DataSet(tuple(check_file(name, "Parquet file") for name in names), parquet=columns)


def _parse_manifest_filepath(value: Any) -> DataSet | Mix:
    if isinstance(value, str):
        return _data_in_files(expand_paths(value))
    if not isinstance(value, list) or not value:
        raise UsageError(f"manifest_filepath must be a path or a list, not {value!r}")
    return _mix(
        [(_data_in_files(expand_paths(path)), weight) for path, weight in _weighted("manifest_filepath", value)]
    )


def _parse_shar_path(value: Any) -> DataSet | Mix:
    if isinstance(value, str):
        data = data_in_directory(value) if is_dir(value) else None
        if not isinstance(data, DataSet) or not data.cuts:
            raise UsageError(f"shar_path is not a directory with cuts.*: {value}")
        return data
    if isinstance(value, dict):
        cuts = value.get("cuts")
        if not cuts:
            raise UsageError("shar_path given by fields must have the field `cuts`")
        specs = cuts if isinstance(cuts, list) else [cuts]
        return DataSet(tuple(path for spec in specs for path in expand_paths(str(spec))), cuts=True)
    if not isinstance(value, list) or not value:
        raise UsageError(f"shar_path must be a directory, a list or a mapping of fields, not {value!r}")
    return _mix([(_parse_shar_path(path), weight) for path, weight in _weighted("shar_path", value)])


def _parse_cuts_path(value: Any) -> DataSet:
    path = check_file(str(value), "cuts_path")
    if not path.endswith((".jsonl", ".jsonl.gz")):
        raise UsageError(f"cuts_path must be a .jsonl or .jsonl.gz file of lhotse cuts: {path}")
    return DataSet((path,), cuts=True)


def _data_in_files(paths: list[str]) -> DataSet:
    return DataSet(tuple(paths), cuts=_holds_cuts(paths[0]))


def _holds_cuts(path: str) -> bool:
    """Whether the first line of a file is a lhotse cut and not a NeMo record. False for a pipe, which is not read."""
    if not is_file(path):
        return False
    try:
        # Without a buffer, `readline` reads byte by byte.
        with open_bytes(path) as file, BufferedReader(cast(RawIOBase, file)) as buffered:
            fields = parse_fields(buffered.readline(1 << 20))
    except (OSError, EOFError, RecordRejected):
        return False  # reading the file reports the problem
    kind = bytes(fields.get("type", msgspec.Raw(b"")))
    return kind.endswith(b'Cut"') and "audio_filepath" not in fields


def _mix(parts: Sequence[tuple[DataSet | Mix, float | None]]) -> DataSet | Mix:
    if len(parts) == 1:
        return parts[0][0]
    return Mix(tuple(part for part, _ in parts), tuple(weight for _, weight in parts))


def _weighted(name: str, items: list[Any]) -> Iterator[tuple[str, float | None]]:
    for item in items:
        match item if isinstance(item, list) else [item]:
            case [str(path)]:
                yield path, None
            case [str(path), int(weight) | float(weight)] if 0 < weight < float("inf"):
                yield path, float(weight)
            case other:
                raise UsageError(f"an item of {name} must be [path] or [path, weight above 0], not {other!r}")
