"""Recognizes the kind of an input: is it a manifest, or a data set whose containers are read through catalogues?"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from prepcli.engine.run.unfinished import refuse_unfinished
from prepcli.errors import UsageError, option
from prepcli.formats.archives import ZipMembers
from prepcli.formats.folders import advice_on_audio, listing
from prepcli.formats.parquet import ParquetSet
from prepcli.formats.sets import sets_in
from prepcli.formats.shar import AUDIO_FILE, CUTS_FILE
from prepcli.formats.shar_set import SharSet
from prepcli.formats.stored_set import StoredSet
from prepcli.formats.tarred import SHARD_MANIFEST_FOLDER, TarredSet
from prepcli.formats.wenet import WenetSet, list_kind
from prepcli.interface.calls import tell
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.arrow import ARROW_SUFFIXES, is_arrow, refusal_of_file, refusal_of_folder
from prepcli.jobs.inputs.catalogue import EVERY, FieldNames, by_number
from prepcli.jobs.inputs.keys import Keys
from prepcli.jobs.inputs.kinds import CONVERSATIONS, LIST, PARQUET, SHAR, TARRED, WEBDATASET, WENET, ZIP
from prepcli.jobs.inputs.lists import raw_list_lines
from prepcli.jobs.inputs.rows import row_lines
from prepcli.jobs.inputs.samples import sample_lines
from prepcli.jobs.inputs.shar import shar_lines, target_of
from prepcli.jobs.inputs.splits import canonical, check_numbers, config_of, split_in, split_of
from prepcli.jobs.inputs.tarred import check_complete, tarred_lines
from prepcli.manifest.sources import check_file
from prepcli.storage.addresses import HUB, on_hub, parse_address
from prepcli.storage.containers import ONE_PASS_SUFFIXES, Catalogue
from prepcli.storage.paths import AnyPath, StorePath, absolute, path_of

_TARS = (".tar", *ONE_PASS_SUFFIXES)


class NoDataSetError(UsageError):
    """A folder holds no data set in containers; other errors say why a data set that it holds cannot be read."""


def given_columns(options: SetInput) -> FieldNames:
    """The names of the columns with audio, text, speaker, id and language, from the options of the command."""
    return FieldNames(
        options.audio_column, options.text_column, options.speaker_column, options.id_column, options.lang_column
    )


def _of_members(path: str, options: SetInput) -> FieldNames:
    """The names of fields in an archive, and the split of its members if its own name names none."""
    wanted = options.split if options.split == EVERY or split_in(_last_names(path)) is None else None
    return replace(given_columns(options), split=wanted)


def containers_of_file(path: str, options: SetInput) -> list[str]:
    """The containers to read for one file; a list with the path alone if the file is a manifest.

    A WeNet list of shards has several: the tars that it names.

    Raises:
        UsageError: files that belong to the file are missing, or the folder of its set must be given instead.
    """
    name, lower = os.path.basename(path), path.lower()
    wanted = options.input_format
    if lower.endswith(".json"):
        return _of_manifest(path) if wanted in (None, "tarred") else [path]
    if lower.endswith((".parquet", ".zip", *_TARS)):
        _check_split(path, options)
    if lower.endswith(".parquet"):
        return [_parquet(path, options)]
    if lower.endswith(".zip"):
        return [_zip(path, options)]
    if lower.endswith(ARROW_SUFFIXES):
        raise refusal_of_file(path)
    if lower.endswith(_TARS):
        folder = path_of(path).parent
        tarred = TarredSet(folder)
        number = next((number for number, tar in tarred.shards.items() if tar.name == name), None)
        if wanted in (None, "tarred") and number is not None:
            if number in tarred.manifests:
                return [_tarred(str(tarred.manifests[number]), {None: path})]
            if tarred.whole.is_file():
                raise UsageError(
                    f"{path} belongs to a tarred set without manifests of shards; give its folder, {folder}"
                )
        if wanted == "tarred":
            raise UsageError(f"{path} has no manifest beside it; give the folder of the tarred set")
        return [_samples(path, _keys(options), options)]
    if wanted in (None, "wenet") and (kind := list_kind(path_of(path))) is not None:
        return _wenet(WenetSet(path_of(path), is_raw=kind == "raw"), options)
    if (match := CUTS_FILE.match(name)) and wanted in (None, "shar"):
        folder = path_of(path).parent
        for shar in (SharSet(folder, is_flat=True), SharSet(folder.parent)):
            tars = {field: tars[int(match[1])] for field, tars in shar.audio.items() if int(match[1]) in tars}
            if tars:
                return [_shar(path, tars)]
    return [path]


def containers_in(folder: str, options: SetInput) -> list[str]:
    """The containers of the data set in a folder.

    Raises:
        NoDataSetError: the folder holds no data set of the wanted form.
        UsageError: its files are not complete, or are of several data sets.
    """
    wanted = options.input_format
    top = path_of(folder)
    if top.name == SHARD_MANIFEST_FOLDER:
        top = top.parent
    refuse_unfinished(top)
    for stored in sets_in(top):
        if stored.kind == CONVERSATIONS and wanted is None:  # the audio of their tars alone would lose the texts
            raise UsageError(f"{folder} is a set of conversations, which prepcli conversations-to-tarred reads")
        reader = _READERS.get(stored.kind) if wanted in (None, stored.kind) else None
        if reader is not None and (containers := reader(stored, options)):
            return containers
    names = listing(top).files
    tars = sorted((name for name in names if name.lower().endswith(_TARS)), key=by_number)
    if tars and wanted in (None, "webdataset", "wenet"):
        return [_samples(str(top / name), _keys(options), options) for name in _of_split(tars, top, options)]
    zips = sorted((name for name in names if name.lower().endswith(".zip")), key=by_number)
    if zips and wanted in (None, "zip", "webdataset", "wenet"):
        return [_zip(str(top / name), options) for name in _of_split(zips, top, options)]
    if wanted in (None, "parquet") and (below := _below(top, ".parquet")):
        return [_parquet(path, options) for path in _one_split(below, top, options)]
    if is_arrow(names):
        raise refusal_of_folder(folder, names)
    if on_hub(folder):
        converted = f"{HUB}://{parse_address(folder).bucket.partition('@')[0]}@refs/convert/parquet"
        raise UsageError(
            f"{folder} holds no Parquet files and no other data set that is read; the hub has made Parquet of many: "
            f"give {converted}"
        )
    what = "a data set" if wanted is None else f"a data set of the form {option('--input-format', wanted)}"
    raise NoDataSetError(
        f"{folder} is not {what}: it holds no tarred set, Lhotse Shar, WeNet shards, tars, Parquet files or zip "
        f"archives{advice_on_audio(top)}"
    )


def _check_gaps(stored: StoredSet) -> None:
    """Raise `UsageError` if a number between those of two shards is missing."""
    numbers = list(stored.shards)
    if missing := sorted(set(range(min(numbers, default=0), max(numbers, default=0))) - set(numbers)):
        raise UsageError(
            f"{stored.folder} lacks shard {missing[0]}, and has shard {max(numbers)}; copy it again, or name the files "
            "of the others"
        )


def _of_tarred_set(tarred: TarredSet, _: SetInput) -> list[str]:
    tarred.check_parts()
    return [container for part in tarred.sets for container in _of_tarred(part)]


def _of_shar(shar: SharSet, _: SetInput) -> list[str]:
    if not shar.audio:
        raise UsageError(f"{shar.folder} is a Lhotse Shar without audio: give the manifest that names its audio")
    _check_gaps(shar)
    return [_of_shard(shar, number, cuts) for number, cuts in shar.cuts().items()]


def _of_parquet(files: ParquetSet, options: SetInput) -> list[str]:
    _check_gaps(files)
    own = sorted(files.record_files(), key=by_number)
    if not files.shards and (others := sorted(set(_below(files.folder, ".parquet")) - set(own), key=by_number)):
        tell(
            f"note: only the Parquet files in {files.folder} itself are read, and not "
            f"{len(others):,} below it, such as {others[0]}"
        )
    paths = _one_split(own, files.folder, options)
    return [_parquet(path, options) for path in paths]


def _of_tarred(tarred: TarredSet) -> list[str]:
    tarred.check_tars()
    if tarred.manifests:
        check_complete(tarred.manifests, tarred.shards, tarred.folder)
        return [_tarred(str(tarred.manifests[number]), {None: str(tar)}) for number, tar in tarred.shards.items()]
    if not tarred.whole.is_file():
        return []  # tars of another kind may have such names
    return [_tarred(str(tarred.whole), {number: str(tar) for number, tar in tarred.shards.items()})]


def _of_manifest(path: str) -> list[str]:
    """The tarred set of which a file is the whole manifest, or the manifest of a shard; the file if it has no tars."""
    file = path_of(path)
    is_shard = file.parent.name == SHARD_MANIFEST_FOLDER
    tarred = TarredSet(file.parent.parent if is_shard else file.parent)
    if not tarred.has_tars:
        return [path]
    if not is_shard:
        return [_tarred(path, {number: str(tar) for number, tar in tarred.shards.items()})]
    number = next((number for number, manifest in tarred.manifests.items() if manifest.name == file.name), None)
    if number not in tarred.shards:
        raise UsageError(f"{tarred.folder} lacks the tar of {path}; copy it again")
    return [_tarred(path, {None: str(tarred.shards[number])})]


def _tarred(manifest: str, tars: Mapping[int | None, str]) -> Catalogue:
    places = {number: absolute(tar) for number, tar in tars.items()}
    return Catalogue(
        check_file(manifest),
        partial(tarred_lines, tars=places),
        tuple(places.values()),
        f"tarred {sorted(places.values())}",
        TARRED,
    )


def _of_shard(shar: SharSet, number: int, cuts: AnyPath) -> Catalogue:
    tars = {field: tars[number] for field, tars in shar.audio.items() if number in tars}
    missing = [field for field, tars in shar.audio.items() if number not in tars]
    if missing:
        raise UsageError(f"{shar.folder} lacks the tar of {missing[0]} of shard {number}; copy it again")
    return _shar(str(cuts), tars)


def _shar(cuts: str, tars: Mapping[str, AnyPath]) -> Catalogue:
    places = {field: absolute(tar) for field, tar in tars.items()}
    target_of(places)
    return Catalogue(
        check_file(cuts),
        partial(shar_lines, tars=places),
        tuple(places.values()),
        f"shar {sorted(places.items())}",
        SHAR,
    )


def _keys(options: SetInput) -> Keys | None:
    """The rule for the keys of archives that the user has named; None if their names decide."""
    return options.input_format if options.input_format in ("webdataset", "wenet") else None


def _samples(path: str, keys: Keys | None, options: SetInput) -> Catalogue:
    if AUDIO_FILE.match(os.path.basename(path)) and options.input_format is None:
        raise UsageError(
            f"{path} is named as a field of a Lhotse Shar, which has no texts: give the folder of the set, or "
            f"{option('--input-format', 'webdataset')} if it is not one"
        )
    kind = WENET if keys == "wenet" else WEBDATASET
    return _archive(check_file(path, "tar"), keys, options, f"{keys or 'webdataset'}", kind)


def _zip(path: str, options: SetInput) -> Catalogue:
    keys = _keys(options)
    archive = _archive(check_file(path, "zip archive"), keys, options, f"zip{f' {keys}' if keys else ''}", ZIP)
    members = ZipMembers(path)
    archive.is_one_pass = members.is_deflated
    if members.is_unknown and options.name_encoding is None:
        tell(
            f"note: {path} does not say how its names are encoded, and they are not UTF-8: they are read as cp437; if "
            f"that is wrong, name their encoding with {option('--name-encoding')}"
        )
    return archive


def _archive(path: str, keys: Keys | None, options: SetInput, how: str, kind: str) -> Catalogue:
    columns, encoding = _of_members(path, options), options.name_encoding
    read = partial(sample_lines, keys=keys, columns=columns, encoding=encoding)
    return Catalogue(path, read, (), f"{how} {columns}{f' {encoding}' if encoding else ''}", kind)


def _parquet(path: str, options: SetInput) -> Catalogue:
    columns = given_columns(options)
    catalogue = Catalogue(check_file(path), partial(row_lines, columns=columns), (), f"parquet {columns}", PARQUET)
    catalogue.is_one_pass = on_hub(path)
    return catalogue


def _wenet(wenet: WenetSet, options: SetInput) -> list[str]:
    if options.split not in (None, EVERY):
        raise UsageError(f"{option('--split', options.split)}: {wenet.list} is a list, and all of its files are read")
    if wenet.is_raw:
        return [Catalogue(check_file(str(wenet.list)), raw_list_lines, (), "wenet list", LIST, measures=True)]
    return [_samples(str(tar), "wenet", options) for tar in wenet.tars]


_READERS: dict[str, Callable[[Any, SetInput], list[str]]] = {
    "tarred": _of_tarred_set,
    "shar": _of_shar,
    "wenet": _wenet,
    "parquet": _of_parquet,
}
"""For each kind of set that can be an input, the function that gives the containers of a set."""


def _below(folder: AnyPath, suffix: str) -> list[str]:
    """The files with a suffix in a folder and all folders in it, sorted by the numbers in their names."""
    if isinstance(folder, StorePath):
        names = [str(folder / name) for name in folder.infos() if name.endswith(suffix)]
    else:
        names = [
            os.path.join(place, name)
            for place, _, files in os.walk(folder)
            for name in files
            if name.endswith(suffix) and not name.startswith(".")
        ]
    return sorted(names, key=by_number)


def _of_split(names: Sequence[str], folder: AnyPath, options: SetInput) -> list[str]:
    """The files of one split; `names` are their paths below `folder`.

    Raises:
        UsageError: there are several splits to choose from, or the split of `options` does not exist.
    """
    splits = {name: split_of(name) for name in names}
    there = sorted(set(splits.values()))
    if options.split in (None, EVERY):
        if len(there) > 1 and options.split is None:
            choose = f"choose one with {option('--split')}, or name its files"
            raise UsageError(f"{folder} has several splits, {', '.join(there)}: {choose}")
        return list(names)
    chosen = [name for name in names if splits[name] in (options.split, canonical(options.split))]
    if not chosen:
        raise UsageError(f"{folder} has no split {options.split}; it has {', '.join(there)}")
    return chosen


def _check_split(path: str, options: SetInput) -> None:
    """Raise `UsageError` if a file that the user has named belongs to another split than that of `options`.

    The names of the file and of its folder decide.
    """
    own = split_in(_last_names(path))
    if own is None and not path.lower().endswith(".parquet"):
        return  # its members may be of several
    if options.split not in (None, EVERY) and (own or "train") not in (options.split, canonical(options.split)):
        wanted = option("--split", options.split)
        raise UsageError(f"{path} is of the split {own or 'train'} by its name: give its folder for {wanted}")


def _last_names(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:])


def _one_split(paths: Sequence[str], folder: AnyPath, options: SetInput) -> list[str]:
    """The Parquet files of one split and one configuration.

    Raises:
        UsageError: there are several splits or configurations to choose from, the split of `options` does not exist,
            or files of the split are missing.
    """
    below = {path[len(str(folder)) :].lstrip("/"): path for path in paths}
    names = _of_split(list(below), folder, options)
    chosen = [below[name] for name in names]
    if on_hub(str(folder)) and any("/partial-" in path for path in chosen):
        tell(f"note: {folder} holds only the first part of the data set: the hub has not made Parquet of all of it")
    configs = sorted(set(map(config_of, names)))
    if len(configs) > 1:
        raise UsageError(f"{folder} has several data sets, {', '.join(configs[:4])}: give the folder of one of them")
    check_numbers(chosen)
    return chosen
