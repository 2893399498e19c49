"""The sets in a folder: the list of their kinds. Each kind is a class in the module of its format."""

from collections.abc import Collection, Iterator

from prepcli.formats.conversations import ConversationSet
from prepcli.formats.folders import listing
from prepcli.formats.mels import MelSet
from prepcli.formats.omnilingual import OmnilingualSet
from prepcli.formats.omnivoice import OmnivoiceSet
from prepcli.formats.parquet import ParquetSet
from prepcli.formats.qwen3_tts import QwenSet
from prepcli.formats.shar_set import CodesSet, SharSet
from prepcli.formats.stored_set import StoredSet
from prepcli.formats.tarred import TarredSet
from prepcli.formats.wenet import WenetSet
from prepcli.storage.paths import AnyPath

KINDS: tuple[type[StoredSet], ...] = (
    *(SharSet, ConversationSet, TarredSet, CodesSet, WenetSet),
    *(MelSet, ParquetSet, OmnilingualSet, OmnivoiceSet, QwenSet),
)
"""The kinds, in the order in which they are looked for: of several sets in a folder, readers prefer the first."""

_PART_OF: dict[type[StoredSet], type[StoredSet]] = {CodesSet: SharSet, TarredSet: ConversationSet}
"""For some kinds, the kind to which such files belong if there is one in the folder."""


def sets_in(folder: AnyPath, published: Collection[str] = ()) -> Iterator[StoredSet]:
    """Yield the sets in a folder; the set that readers prefer comes first.

    Codes in the folder of a Shar set are part of that set: no set of codes is yielded for them. So are the tars of
    conversations.

    Args:
        folder: the folder; a missing folder has no sets.
        published: names of files below the folder that runs have published; a set is found by these names, too.
    """
    listed = listing(folder)
    found: set[type[StoredSet]] = set()
    for kind in KINDS:
        if _PART_OF.get(kind) not in found and (stored := kind.found_in(folder, listed, published)) is not None:
            found.add(kind)
            yield stored


def open_set(folder: AnyPath) -> StoredSet | None:
    """The set in a folder: the first of `sets_in`; None if there is none."""
    return next(sets_in(folder), None)
