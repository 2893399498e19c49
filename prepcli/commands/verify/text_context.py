"""Checks that cuts with text contexts match the cuts of the set, in the same order and with the same texts."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from prepcli.commands.verify.runs import PublishedRun
from prepcli.errors import UsageError
from prepcli.formats.sets import SharSet
from prepcli.formats.shar import TEXT_CONTEXT_CUTS, shard_text
from prepcli.manifest.shar_cuts import cuts_digest, decode_cuts
from prepcli.storage.paths import AnyPath

_AGAIN = "run extend-text-context again with --overwrite"


def cuts_made_of(runs: Sequence[PublishedRun]) -> dict[str, str]:
    """The SHA-256, by name, of the files of cuts from which a run made the text contexts."""
    plans = [run.plan for run in runs if run.plan.command == "extend-text-context"]
    return {posixpath.basename(file["path"]): file["sha256"] for plan in plans for file in plan.inputs}


def text_context_problems(folder: AnyPath, made_of: Mapping[str, str]) -> Iterator[str]:
    """The problems of the cuts in `cuts_textContext`; nothing if the set has no such folder.

    These cuts have their own custom fields; all other fields must equal those of the cuts of the set.

    Args:
        folder: the set.
        made_of: result of `cuts_made_of`.
    """
    if not (folder / TEXT_CONTEXT_CUTS).is_dir():
        return
    try:
        cuts, texts = SharSet(folder).shards, SharSet(folder / TEXT_CONTEXT_CUTS, is_flat=True).shards
    except UsageError as error:
        yield str(error)
        return
    for number in sorted(set(cuts) ^ set(texts)):
        which = "missing" if number in cuts else "there are no such cuts"
        yield f"{TEXT_CONTEXT_CUTS}/cuts.{shard_text(number)}: {which}"
    for number in sorted(set(cuts) & set(texts)):
        try:
            heads = [_heads(path) for path in (cuts[number], texts[number])]
        except (UsageError, OSError) as error:
            yield f"{TEXT_CONTEXT_CUTS}/{texts[number].name}: {error}"
            continue
        if heads[0] != heads[1]:
            yield (
                f"{TEXT_CONTEXT_CUTS}/{texts[number].name}: not the {len(heads[0])} cuts of cuts/{cuts[number].name} "
                f"in their order with their texts; {_AGAIN}"
            )
        elif made_of.get(name := cuts[number].name) not in (None, cuts_digest(str(cuts[number]))):
            yield f"{TEXT_CONTEXT_CUTS}/{texts[number].name}: made of other cuts than cuts/{name} holds now; {_AGAIN}"


class _Supervision(msgspec.Struct):
    """The fields of a supervision that training reads."""

    id: Any = None
    start: Any = None
    duration: Any = None
    text: Any = None
    language: Any = None
    speaker: Any = None


class _Head(msgspec.Struct):
    id: str
    start: Any = None
    duration: Any = None
    supervisions: list[_Supervision] = []


def _heads(path: AnyPath) -> list[_Head]:
    return decode_cuts(path.read_bytes(), str(path), _Head)
