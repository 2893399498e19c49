"""Checks that the cuts with text contexts are those of the set, in the same order."""

from collections.abc import Iterator
from pathlib import Path

from prepcli.errors import UsageError
from prepcli.formats.folders import numbered
from prepcli.formats.shar import CUTS_FILE, TEXT_CONTEXT_CUTS, shard_text
from prepcli.manifest.shar_cuts import cut_heads


def text_context_problems(folder: Path) -> Iterator[str]:
    """What is wrong with the cuts in `cuts_textContext`; nothing where a set has no such folder."""
    if not (folder / TEXT_CONTEXT_CUTS).is_dir():
        return
    try:
        cuts, texts = (numbered(folder / name, CUTS_FILE) for name in ("cuts", TEXT_CONTEXT_CUTS))
    except UsageError as error:
        yield str(error)
        return
    for number in sorted(set(cuts) ^ set(texts)):
        which = "missing" if number in cuts else "there are no such cuts"
        yield f"{TEXT_CONTEXT_CUTS}/cuts.{shard_text(number)}: {which}"
    for number in sorted(set(cuts) & set(texts)):
        try:
            ids = [_ids(path) for path in (cuts[number], texts[number])]
        except (UsageError, OSError) as error:
            yield f"{TEXT_CONTEXT_CUTS}/{texts[number].name}: {error}"
            continue
        if ids[0] != ids[1]:
            yield (
                f"{TEXT_CONTEXT_CUTS}/{texts[number].name}: not the {len(ids[0])} cuts of cuts/{cuts[number].name} in "
                "their order; run extend-text-context again with --overwrite"
            )


def _ids(path: Path) -> list[str]:
    return [head.id for head in cut_heads(path.read_bytes(), str(path))]
