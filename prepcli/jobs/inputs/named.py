"""The inputs that a user names: manifests, or the containers of a data set."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial

from prepcli.errors import UsageError, option
from prepcli.interface.printing import number_of
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.kinds import INPUT_KINDS
from prepcli.jobs.inputs.revisions import Commits, with_commits
from prepcli.manifest.sources import expand_paths
from prepcli.storage.addresses import on_hub
from prepcli.storage.containers import Catalogue

MANIFEST_SUFFIXES = (".json", ".jsonl", ".json.gz")
"""Suffixes of manifests. A name that begins with `cuts.` may be a file of a Lhotse Shar, even with such a suffix."""
NAMES_NOTE = (
    "audio_filepath names records in containers, FILE::MEMBER, which prepcli reads and trainers do not; prepcli "
    "convert-audio unpacks them"
)
NUMBERED_LANGUAGES = (
    "lang is a number, such as {}, because the files do not name the classes of that column; prepcli make-manifest "
    "SOURCE m.json --lang LANG names the language"
)
_OF_TARRED = re.compile(r"(^|/)(tarred_audio_manifest(_version_\d+)?|sharded_manifests/manifest_\d+)\.json$")
"""Matches the manifests of a tarred set. The tars next to them hold the audio."""


OtherInputs = Callable[[str, bool], Sequence[Catalogue] | None]
"""Makes catalogues of a file or folder that only some commands read; None if it is another one.

The second argument: whether it is a folder that is not a data set. Raises `UsageError` if the path cannot be read.
"""


def manifests_of(
    spec: str, options: SetInput, commits: Commits = dict[str, str], others: OtherInputs | None = None
) -> list[str]:
    """The manifests that `spec` names, see `expand_paths`. For a data set, these are the containers of its records.

    `spec` names a data set by its folder, by a list of WeNet, or by some of its files: tars, manifests of a tarred set,
    Parquet files, zip archives or cuts. `commits`: see `with_commits`. `others`: for further inputs.

    Raises:
        UsageError: a file does not exist, or a folder is not a data set.
    """
    spec = with_commits(spec, commits)
    if options.input_format == "manifest":
        return expand_paths(spec)
    manifests: list[str] = []
    what = "manifest" if others is None else "input"
    for path in expand_paths(spec, partial(_in_folder, options=options, others=others), what):
        if others is not None and not isinstance(path, Catalogue) and (found := others(path, False)) is not None:
            manifests += found
            continue
        is_plain = isinstance(path, Catalogue) or (_is_manifest(path) and not _OF_TARRED.search(path))
        manifests += [path] if is_plain else _in_file(path, options)
    return manifests


def _is_manifest(path: str) -> bool:
    return path.endswith(MANIFEST_SUFFIXES) and not path.rpartition("/")[2].startswith("cuts.")


def _in_folder(folder: str, options: SetInput, others: OtherInputs | None) -> list[str]:
    from prepcli.jobs.inputs.sets import NoDataSetError, containers_in  # not at the top: most inputs are manifests

    if others is not None and options.input_format is None and (found := others(folder, False)) is not None:
        return list(found)
    try:
        return containers_in(folder, options)
    except NoDataSetError:
        if others is None or options.input_format is not None or (found := others(folder, True)) is None:
            raise
        return list(found)


def _in_file(path: str, options: SetInput) -> list[str]:
    from prepcli.jobs.inputs.sets import containers_of_file

    return containers_of_file(path, options)


def refuse_unused(inputs: Sequence[str], options: SetInput) -> None:
    """Raise `UsageError` if an option of data sets is given and none of the inputs uses it, as all are manifests, say.

    `inputs`: manifests and containers, as `manifests_of` returns them.
    """
    if any(getattr(options, field.name) is not None for field in fields(SetInput)):
        from prepcli.jobs.inputs.unused import refuse_unused_options

        refuse_unused_options(inputs, options)


def describe(manifests: Sequence[str], num_records: int) -> list[str]:
    """A sentence on the recognized inputs, such as "tarred set, 4 shards, 48 records"; empty if all are manifests."""
    kinds = Counter(manifest.kind for manifest in manifests if isinstance(manifest, Catalogue))
    named = [f"{kind}, {count:,} {INPUT_KINDS[kind].file}{'s' * (count != 1)}" for kind, count in kinds.items()]
    if not named:
        return []
    others = len(manifests) - sum(kinds.values())
    named += [f"{others:,} manifest{'s' * (others != 1)}"] if others else []
    return [f"the input is read as: {', '.join(named)}, {number_of(num_records, 'record')}"]


def names_note(manifests: Sequence[str]) -> dict[str, str]:
    """The note on `audio_filepath` in what is made of containers, as a fact for the report; else nothing."""
    return {"containers": NAMES_NOTE} if any(map(_holds_audio, manifests)) else {}


def _holds_audio(path: str) -> bool:
    return isinstance(path, Catalogue) and INPUT_KINDS[path.kind].holds_audio


def refuse_containers(manifests: Sequence[str], flag: str) -> None:
    """Raise `UsageError` if audio lies in containers, because the option `flag` would list files that do not exist."""
    for manifest in manifests:
        if _holds_audio(manifest):
            raise UsageError(
                f"the audio of {manifest} lies in a container, and {option(flag)} lists files for a trainer: leave it "
                "out, or unpack the audio first with prepcli convert-audio"
            )


def refuse_one_pass(manifests: Sequence[str]) -> None:
    """Raise `UsageError` if a container can only be read in the order of its members."""
    for manifest in manifests:
        if isinstance(manifest, Catalogue) and manifest.is_one_pass:
            if on_hub(manifest):
                raise UsageError(
                    f"{manifest} is read in its order, because each record out of order would fetch a row group: leave "
                    f"out {option('--shuffle')}, and shuffle what you make of it in a second run"
                )
            raise UsageError(
                f"{manifest} is compressed and can only be read in its order: leave out {option('--shuffle')}, and "
                "shuffle what you make of it in a second run"
            )
