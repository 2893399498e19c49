"""Recognizes the kind of a file or directory by its content."""

import os
import re
import stat
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.probe import probe
from prepcli.commands.inspect.exports import export_of
from prepcli.commands.inspect.rows import LineKind
from prepcli.engine.ledger import run_folders
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.codes import CODES_FILE
from prepcli.formats.folders import advice_on_audio, numbered, regular_files
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.parquet import ParquetSet
from prepcli.formats.parquet_audio import open_parquet
from prepcli.formats.parquet_columns import audio_column
from prepcli.formats.sets import open_set
from prepcli.formats.shar import AUDIO_FILE
from prepcli.formats.shar_set import CodesSet, SharSet
from prepcli.formats.stored_set import Shards, StoredSet
from prepcli.formats.tarred import SHARD_MANIFEST_FILE, TarredSet
from prepcli.interface.printing import number_of
from prepcli.jobs.inputs.conversations import holds_conversations
from prepcli.jobs.inputs.data import containers_at, data_of
from prepcli.jobs.inputs.splits import split_of
from prepcli.manifest.datasets import DataSet, Mix, data_in_directory
from prepcli.manifest.fields import with_audio_filepath
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.manifest.json_kinds import OTHER
from prepcli.manifest.kinds import head_of, utf16_of
from prepcli.manifest.mixing import leaves_of
from prepcli.manifest.sources import Reader, check_file, expand_paths, open_bytes
from prepcli.storage.addresses import is_address, names_several, on_hub
from prepcli.storage.containers import Catalogue
from prepcli.storage.paths import AnyPath, StorePath, path_of

WORK = ".prepcli"
_TAR = (".tar", ".tar.gz", ".tgz")
_MANIFEST = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_SNIFFED_BYTES = 256 << 10


@dataclass
class Subject:
    """The subject of an inspection: its kind, a title for the user, and its files.

    `tars` and `codes` map each field (`target_audio`, `codes_x/target_codes`) or bucket of a set to its tars. If a set
    has neither fields nor buckets, the key is "". `out` is the output of prepcli that the subject is or belongs to;
    None if unknown. `codes_folder` is the name of a directory of codes in `out` (`codes_x`) if the subject is only
    these codes, else None.
    """

    kind: str
    title: str
    data: DataSet | Mix | None = None
    tars: dict[str, list[AnyPath]] = field(default_factory=dict)
    codes: dict[str, list[AnyPath]] = field(default_factory=dict)
    folder: AnyPath | None = None
    out: AnyPath | None = None
    codes_folder: str | None = None
    notes: list[str] = field(default_factory=list)
    export: StoredSet | None = None


def what_is(spec: str) -> Subject:
    """Recognize what `spec` names: a path, or a list, a pattern or a mix of inputs (see `data_of`).

    Raises:
        UsageError: the path does not exist, or is of no known kind.
    """
    path = path_of(spec) if is_address(spec) and not names_several(spec) else Path(spec)
    if on_hub(spec) and (containers := containers_at(spec)):
        return _of_containers(containers, path if path.is_dir() else path.parent)
    # Not `Path.is_dir` and the like, which raise `OSError` if a list is longer than a file name may be.
    if isinstance(path, StorePath):
        return _of_folder(path) if path.is_dir() else _of_file(path)
    if os.path.isdir(spec):
        return _of_folder(path)
    if os.path.exists(spec):
        return _of_file(path)
    if not is_address(spec) and _has_plan(path.with_name(path.name + WORK)):
        return Subject("run", "a run of prepcli whose output is not here", out=path)
    if not re.search(r"[,{}()\[\]<>=]|_OP_", spec):
        raise UsageError(f"there is no file or directory {spec}" + ("" if path.is_absolute() else f" in {Path.cwd()}"))
    if spec.endswith(_TAR):
        return _of_tars([path_of(name) for name in expand_paths(spec)], f"{len(expand_paths(spec))} tars")
    if (files := _conversations_in(spec)) is not None:
        return Subject("conversations", number_of(len(files), "file") + " of conversations")
    data = _lines_of(spec)
    return Subject("input", "a mix of data sets" if isinstance(data, Mix) else "manifests", data)


def _conversations_in(spec: str) -> list[str] | None:
    """The files that `spec` names if they are files of conversations; None if the first is not, or for a mix."""
    try:
        files = expand_paths(spec)
        if not holds_conversations(files[0]):
            return None
    except UsageError:  # reading it as manifests says what to do
        return None
    if others := [file for file in files if not holds_conversations(file)]:
        raise UsageError(f"{files[0]} has conversations, and {others[0]} has none; inspect them one by one")
    return files


def _lines_of(spec: str) -> DataSet | Mix:
    """The data set or mix that `spec` names; raises `UsageError` for Parquet files, which are inspected as exports."""
    data = data_of(spec)
    for leaf in leaves_of(data):
        if leaf.parquet:
            raise UsageError(f"{spec} names Parquet files; inspect them one by one: prepcli inspect {leaf.paths[0]}")
    return data


def _of_folder(folder: AnyPath) -> Subject:
    # `.` and `..` are resolved, because the directory next to them has their real name.
    named = folder if folder.name not in ("", "..") else folder.resolve()
    if named.name.endswith(WORK) and named.name != WORK and _has_plan(named):
        out = named.with_name(named.name.removesuffix(WORK))
        note = [f"the data are in {out}: prepcli inspect {out}"] if out.exists() else [f"{out} is not there"]
        return Subject("run", "the state of a run of prepcli", out=out, notes=note)
    for look in (_of_set, _part_of_set, _loose_tars, _manifests):
        if (subject := look(named)) is not None:
            subject.folder = subject.folder or named
            return subject
    is_of_run = bool(named.name) and _has_plan(named.with_name(named.name + WORK))
    try:
        if found_containers := containers_at(str(named)):
            return _of_containers(found_containers, named)
    except UsageError:
        if not is_of_run:  # else its run may not be finished
            raise
    if is_of_run:
        return Subject("run", "the output of a run of prepcli, without data of a kind that inspect reads", out=named)
    raise UsageError(
        f"{folder} is a folder that holds nothing that inspect knows: no manifest, no tarred set (audio_0.tar, ...), "
        "no Shar (cuts/cuts.000000.jsonl.gz, ...), no codes (target_codes/codes.000000.tar, ...), no export "
        f"(shards.list, data.list, filelists/, data-000000.parquet, ...){advice_on_audio(folder)}"
    )


def _of_set(folder: AnyPath) -> Subject | None:
    """The data set or export that a folder is; None if it is neither."""
    stored = open_set(folder)
    return None if stored is None else SUBJECTS.get(stored.kind, _export)(stored, folder)


def _shar(shar: SharSet, _: AnyPath) -> Subject:
    data, tars, codes = data_in_directory(str(shar.folder)), _in_order(shar.audio), _in_order(shar.codes)
    parent = shar.folder.parent
    if shar.is_flat and not tars and not codes and _is_shar(parent):
        note = [f"the audio belongs to {parent}: prepcli inspect {parent}"]
        return Subject("cuts", "the cuts of a Lhotse Shar", data, out=parent, notes=note)
    return Subject("shar", shar.title(), data, tars, codes, out=shar.folder)


def _is_shar(folder: AnyPath) -> bool:
    stored = open_set(folder)
    return stored is not None and stored.kind == "shar"


def _tarred(tarred: TarredSet, _: AnyPath) -> Subject:
    sets = [part for part in (tarred, *tarred.parts.values()) if not part.is_empty]
    tars = {"" if part is tarred else part.folder.name: list(part.shards.values()) for part in sets}
    try:
        data = data_in_directory(str(tarred.folder))
    except UsageError as error:
        title = f"{sum(map(len, tars.values()))} tars of a set that cannot be read"
        return Subject("tars", title, tars=tars, notes=[str(error)])
    return Subject(
        "tarred", tarred.title(), data, {name: files for name, files in tars.items() if files}, out=tarred.folder
    )


def _codes(coded: CodesSet, folder: AnyPath) -> Subject:
    return _made_with_codec(folder, Subject("codes", coded.title(), codes=_in_order(coded.fields)))


def _part_of_set(folder: AnyPath) -> Subject | None:
    """Recognize a folder with a part of a set: the manifests of its shards, or the tars of one field.

    Returns None for any other folder.
    """
    if manifests := numbered(folder, SHARD_MANIFEST_FILE):
        title = "the manifests of a tarred data set's shards"
        return Subject("manifest", title, DataSet(tuple(map(str, manifests.values()))), out=folder.parent)
    if own := numbered(folder, CODES_FILE):
        codes = {folder.name: list(own.values())}
        return _made_with_codec(folder.parent, Subject("codes", "one field of codec codes", codes=codes))
    if audio := numbered(folder, AUDIO_FILE):
        notes = [f"it belongs to {folder.parent}: prepcli inspect {folder.parent}"] if _is_shar(folder.parent) else []
        tars = {folder.name: list(audio.values())}
        return Subject("tars", "one field of a Lhotse Shar", tars=tars, out=folder.parent, notes=notes)
    return None


def _made_with_codec(folder: AnyPath, subject: Subject) -> Subject:
    """Set `out` and `codes_folder` of a subject to the run that made the codes in `folder`; returns the subject.

    `codes_folder` is None, except for a folder OUT/codes_x, which has its own run in OUT.prepcli/codes_x.
    """
    of_one = folder.name.startswith("codes_")
    subject.out, subject.codes_folder = (folder.parent, folder.name) if of_one else (folder, None)
    return subject


def _parquet(parquet: ParquetSet, path: AnyPath) -> Subject:
    """Parquet files; rows of others, which need not state a duration, are read as those of any container."""
    subject = _export(parquet, path)
    try:
        has_rows = not parquet.shards and all(
            audio_column(open_parquet(str(file)).schema_arrow, str(file)) for file in parquet.files()
        )
    except UsageError:  # damaged, or without audio
        has_rows = False
    if has_rows:
        try:
            subject.data = _in_splits(containers_at(str(path), of_rows=True), path if path.is_dir() else path.parent)
        except UsageError as error:
            subject.notes.append(f"its hours are not known, because the rows are not read: {error}")
    subject.export = parquet if subject.data is None else None
    return subject


def _in_splits(paths: Sequence[str], folder: AnyPath) -> DataSet | Mix | None:
    """Containers as a data set, or as one for each split that their names show; None if there are none."""
    splits: dict[str, list[str]] = {}
    for path in paths:
        splits.setdefault(split_of(path.removeprefix(str(folder))), []).append(path)
    sets = [DataSet(tuple(names)) for names in splits.values()]
    return Mix(tuple(sets), (None,) * len(sets)) if len(sets) > 1 else sets[0] if sets else None


def _export(export: StoredSet, path: AnyPath) -> Subject:
    tars = export.audio_tars
    is_folder = path.is_dir()
    out = path if is_folder else _output_of(path)
    title = export.title(is_file=not is_folder)
    return Subject(export.kind, title, tars={"": tars} if tars else {}, out=out, export=export)


SUBJECTS: dict[str, Callable[[Any, AnyPath], Subject]] = {
    "shar": _shar,
    "tarred": _tarred,
    "codes": _codes,
    "parquet": _parquet,
}
"""The function for each kind of set; all other kinds are exports (`_export`), and have a function in
`prepcli.commands.inspect.exports.LOOKS`."""


def _loose_tars(folder: AnyPath) -> Subject | None:
    tars = [path for path in regular_files(folder) if path.name.endswith(_TAR)]
    return _of_tars(tars, f"a folder with {len(tars)} tar{'s' * (len(tars) != 1)}") if tars else None


def _of_tars(tars: list[AnyPath], title: str) -> Subject:
    """Tars, with the records that they hold themselves, as samples of webdataset do."""
    for tar in tars:
        check_regular(tar)
    try:
        containers = [
            container for tar in tars for container in containers_at(str(tar)) if isinstance(container, Catalogue)
        ]
        records = _in_splits([container for container in containers if not container.others], tars[0].parent)
    except UsageError:  # a field of a Shar, or a part of another set
        records = None
    return Subject("tars", title, records, tars={"": tars})


def _manifests(folder: AnyPath) -> Subject | None:
    manifests = [path for path in regular_files(folder) if path.name.endswith(_MANIFEST) and line_kind(path)]
    if len(manifests) > 1:
        names = ", ".join(path.name for path in manifests[:4]) + (", ..." if len(manifests) > 4 else "")
        raise UsageError(
            f"{folder} is a folder with {len(manifests)} manifests ({names}); name one, or several with commas"
        )
    return _of_file(manifests[0]) if manifests else None


def _of_file(path: AnyPath) -> Subject:
    name = str(path)
    check_regular(path)
    if path.parent.name.endswith(WORK) and not path.name.startswith("rejects"):
        return _of_folder(path.parent)
    if path.name == "plan.json" and path.parents[1].name.endswith(WORK):
        return _of_folder(path.parents[1])
    if path.suffix in (".yaml", ".yml"):
        if path.name.startswith("metadata"):
            raise UsageError(f"{path} describes the tarred data set in its folder: prepcli inspect {path.parent}")
        return Subject("input", "an input_cfg of a training config", _lines_of(name))
    check_file(name, "file")
    if path.name.endswith(_TAR) or _begins_as_tar(path):
        return _of_tars([path], "a tar")
    if (export := export_of(path)) is not None:
        return SUBJECTS.get(export.kind, _export)(export, path)
    if path.suffix == ".zip":
        return _of_containers(containers_at(name), path.parent)
    kind = line_kind(path)
    if kind != "rejects" and holds_conversations(name):
        return Subject("conversations", "a file of conversations", folder=path.parent, out=_output_of(path))
    if path.stat().st_size == 0:
        if not path.name.startswith("rejects"):
            raise UsageError(f"{path} is empty: it has no lines, and no audio")
        kind = "rejects"  # a run that rejected nothing writes an empty list
    if kind is not None:
        titles = {"manifest": "a NeMo manifest", "cuts": "lhotse cuts", "rejects": "records that a run rejected"}
        data = DataSet((name,), cuts=kind == "cuts")
        return Subject(kind, titles[kind], data, folder=path.parent, out=_output_of(path))
    if utf16_of(head_of(name) or b"") is not None:
        check_is_json_lines(name)  # a byte order mark is also the start of a frame of MPEG audio
    try:
        list(map_refusing_crashes(probe, [path]))
    except RecordRejected as rejected:
        if rejected.reason is not RejectReason.CRASHED_DECODER:
            check_is_json_lines(name, (OTHER,))
            why = rejected.detail.removeprefix(f"{path} ")
            raise UsageError(
                f"cannot tell what {path} is: its first lines are not NeMo records, cuts or rejects; it is not a tar; "
                f"and as audio it {why}"
            ) from None
    return Subject("audio", "an audio file", folder=path.parent)


def _of_containers(paths: Sequence[str], folder: AnyPath) -> Subject:
    kinds = ", ".join(dict.fromkeys(path.kind for path in paths if isinstance(path, Catalogue)))
    title = f"{kinds}, {len(paths):,} file{'s' * (len(paths) != 1)}"
    return Subject("manifest", title, _in_splits(paths, folder), folder=folder)


def check_regular(path: AnyPath) -> None:
    """Raise `UsageError` for a pipe, a socket or a device: opening it may wait forever, or consume its data."""
    mode = path.stat().st_mode if path.exists() else stat.S_IFREG
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise UsageError(f"{path} is {kind}, not a file; inspect reads an input twice: write it to a file first")


def _begins_as_tar(path: AnyPath) -> bool:
    with path.open("rb") as file:
        return file.read(262).endswith(tarfile.POSIX_MAGIC[:5])


def line_kind(path: AnyPath) -> LineKind | None:
    """The kind of the first readable JSON line of a file; None if that kind is unknown, or no line is readable.

    Reads only the beginning of the file. Raises `UsageError` for damaged gzip.
    """
    with open_bytes(str(path)) as file:
        head = Reader(str(path), file).read(_SNIFFED_BYTES)
    if utf16_of(head) is not None:  # Python reads JSON in it, and no reader of manifests does
        return None
    for line in head.removeprefix(b"\xef\xbb\xbf").splitlines()[:1000]:
        try:
            fields = decode_json(with_audio_filepath(line), dict[str, Any])
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
        if "reject_reason" in fields:
            return "rejects"
        if "audio_filepath" in fields:
            return "manifest"
        return "cuts" if str(fields.get("type")).endswith("Cut") else None
    return None


def _output_of(path: AnyPath) -> Path | None:
    """The output of a run to which a file belongs; None if the file does not belong to a run.

    The output is the file itself, a folder above it, or OUT for a file in OUT.prepcli.
    """
    if isinstance(path, StorePath):  # the state of runs is not in the store
        return None
    if _has_plan(path.with_name(path.name + WORK)):
        return path
    for folder in list(path.absolute().parents)[:3]:
        if folder.name.endswith(WORK):
            return folder.with_name(folder.name.removesuffix(WORK))
        if folder.name and _is_workspace(folder.with_name(folder.name + WORK)):
            return folder
    return None


def _is_workspace(folder: Path) -> bool:
    """Whether a folder has the state of a run: its plan, or in a subfolder `codes_*` the plan of a run for codes."""
    return any(map(_has_plan, (folder, *folder.glob("codes_*"))))


def _has_plan(folder: AnyPath) -> bool:
    """Whether a folder has the plan of a run that made or makes an output."""
    return isinstance(folder, Path) and any(os.path.isfile(run / "plan.json") for run in (folder, *run_folders(folder)))


def _in_order(fields: dict[str, Shards]) -> dict[str, list[AnyPath]]:
    return {name: list(tars.values()) for name, tars in fields.items()}
