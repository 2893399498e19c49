"""download --list: the corpora that `prepcli download` prepares."""

from collections.abc import Sequence

import msgspec

from prepcli.commands.download.recipes import RECIPES
from prepcli.interface.corpora import CORPORA
from prepcli.interface.printing import aligned, as_text
from prepcli.interface.reports import ShownInNotebooks


class ListedCorpus(msgspec.Struct):
    """A corpus in the output of `prepcli download --list`.

    Attributes:
        name: as typed after `prepcli download`, e.g. `librispeech` or `lhotse ami`.
        hours: hours of speech; None if they are not known.
        languages: the names of the languages; empty if they are not known.
        licence: the publisher's licence; empty if it is not known.
        recipe: `own` if prepcli reads the corpus itself, `lhotse` if a recipe of lhotse does.
        source: `download`, or `your copy` for a corpus that prepcli does not fetch.
    """

    name: str
    hours: int | None
    languages: str
    licence: str
    recipe: str
    source: str


class CorpusList(ShownInNotebooks, msgspec.Struct):
    """The corpora in the output of `prepcli download --list`: first prepcli's own, then those that lhotse prepares."""

    corpora: Sequence[ListedCorpus]

    def __str__(self) -> str:
        """The text that the command line prints: a table."""
        head = ("name", "hours", "languages", "licence", "recipe", "source")
        rows = [head, *(_cells(one) for one in self.corpora)]
        more = "Each of them: prepcli download NAME --help; of lhotse's, prepcli download lhotse --help"
        return as_text([*aligned(rows, len(head)), more])


def _cells(one: ListedCorpus) -> tuple[str, ...]:
    hours = "" if one.hours is None else f"{one.hours:,}".rjust(len("hours"))
    return one.name, hours, one.languages, one.licence, one.recipe, one.source


def list_corpora() -> CorpusList:
    """Return the corpora with a command of their own, then the corpora of lhotse's recipes that give manifests."""
    sources = {True: "your copy", False: "download"}
    own = [
        ListedCorpus(one.name, one.hours, one.languages, one.licence, "own", sources[one.publisher is None])
        for one in CORPORA
    ]
    others = [
        ListedCorpus(f"lhotse {one.name}", None, one.languages, "", "lhotse", "your copy")
        for one in RECIPES.values()
        if not one.refused
    ]
    return CorpusList([*own, *others])
