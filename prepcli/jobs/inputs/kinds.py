"""The kinds of inputs: their words in messages, and which options of data sets each takes."""

from typing import NamedTuple

from prepcli.storage.containers import Catalogue

MANIFEST = "manifest"
TARRED, SHAR, WENET = "tarred set", "Lhotse Shar", "WeNet shards"
WEBDATASET, PARQUET, ZIP, LIST, FOLDER = "webdataset", "Parquet", "zip archive", "WeNet list", "folder of audio"
CONVERSATIONS = "conversations"


class InputKind(NamedTuple):
    """A kind of inputs (`Catalogue.kind`).

    Attributes:
        formats: the values of `--input-format` by which inputs of the kind are read.
        file: the word for one file of a set.
        article: what stands in front of the name of the kind in a sentence.
        has_columns: whether `--split`, and the options that name a column or field, have an effect.
        has_members: whether `--name-encoding` has an effect: the records are members with names.
        holds_audio: whether the audio lies in the files of the set; if not, they name files with audio.
    """

    formats: tuple[str, ...]
    file: str = "shard"
    article: str = "a "
    has_columns: bool = False
    has_members: bool = False
    holds_audio: bool = True


INPUT_KINDS = {
    MANIFEST: InputKind(("manifest",), holds_audio=False),
    TARRED: InputKind(("tarred",)),
    SHAR: InputKind(("shar",)),
    WENET: InputKind(("wenet",), article="", has_columns=True, has_members=True),
    WEBDATASET: InputKind(("webdataset",), "tar", article="", has_columns=True, has_members=True),
    PARQUET: InputKind(("parquet",), "file", article="", has_columns=True),
    ZIP: InputKind(("zip", "webdataset", "wenet"), "file", has_columns=True, has_members=True),
    LIST: InputKind(("wenet",), "list", holds_audio=False),
    FOLDER: InputKind((), "folder", holds_audio=False),
    CONVERSATIONS: InputKind((), "file", article="", holds_audio=False),
}
"""The kinds by name. A test compares their formats with the values of `--input-format`."""


def are_conversations(path: str) -> bool:
    """Whether the records of an input are conversations: lines with turns, each with a text or audio of its own."""
    return isinstance(path, Catalogue) and path.kind == CONVERSATIONS
