"""The definition of a corpus: its archives, their folders, and the utterances in them.

The modules of corpora import this one, `conversations`, `recordings` and `tables`. They import nothing heavy at the
top, so that `--help` is fast.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prepcli.errors import RecordRejected, RejectReason, UsageError, naming, option

_MIRRORS = ("https://www.openslr.org", "https://openslr.elda.org", "https://openslr.trmal.net")


@dataclass(frozen=True, slots=True)
class Archive:
    """A published archive.

    Attributes:
        name: the file name.
        urls: addresses, in the order to try.
        num_bytes: the published size in bytes, for plans and for the limit `MAX_LONGER`; None if it is not known.
        checksum: `sha256:<hex>` or `md5:<hex>`. None if the publisher gives none; then the length that the server
            states, the CRC in gzip and the end of the tar are checked.
        folder: a folder within `archives` of the data root, which the archive is fetched to; empty for `archives`
            itself. It keeps apart archives of several corpora with the same name.
        given: the user's file, which is unpacked instead of a fetched one (`--archive`); None if there is none.
    """

    name: str
    urls: tuple[str, ...]
    num_bytes: int | None = None
    checksum: str | None = None
    folder: str = ""
    given: Path | None = None

    def at(self, base_url: str | None, checksums: Mapping[str, str]) -> "Archive":
        """Return the archive as it is fetched with `--base-url` and `--checksums`.

        Args:
            base_url: the address before `/<name>`; None: the published addresses.
            checksums: checksums by file name; an archive that is not in it keeps the published checksum.

        Raises:
            UsageError: the address is not valid.
        """
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise UsageError(f"{option('--base-url', base_url)} is not an address: it begins with http:// or https://")
        urls = self.urls if base_url is None else (f"{base_url.rstrip('/')}/{self.name}",)
        return replace(self, urls=urls, checksum=checksums.get(self.name, self.checksum))

    def check_published(self) -> None:
        """Raise `UsageError` if there is no address to fetch the archive from."""
        if not self.urls:
            raise UsageError(
                f"nobody publishes {self.name}: give your copy with {option('--archive')} or {option('--extracted')}"
            )


def of_openslr(resource: int, name: str, num_bytes: int | None = None, checksum: str | None = None) -> Archive:
    """The archive `name` of OpenSLR's resource of this number, from each of its mirrors."""
    urls = tuple(f"{mirror}/resources/{resource}/{name}" for mirror in _MIRRORS)
    return Archive(name, urls, num_bytes, checksum)


@dataclass
class Utterance:
    """A future record: a line of a transcript and its recording. The index of a data set has a line per utterance.

    Attributes:
        manifest: path of the manifest, relative to the data root.
        source: path of the recording as published, relative to the folder that `CorpusPart.read` was given. In the
            index, it is relative to the data root, or absolute if `CorpusPart.copy` is set.
        fields: the fields of the record in addition to audio and duration.
        where: the line of the transcript, `file:line`; the recording if no transcript names it.
        duration: published seconds, used only for planning. None: the recording is measured for the index.
        target: path of the WAV file to make from the recording, relative to the data root; None: the recording is used
            unchanged.
        reason: why the utterance cannot be used; None if no reason is known yet.
        detail: the details of the reason.
        id: the explicit id, which occurs once in a manifest; empty if it is the file name of `source` without suffix.
    """

    manifest: str
    source: str
    fields: dict[str, Any]
    where: str
    duration: float | None = None
    target: str | None = None
    reason: RejectReason | None = None
    detail: str = ""
    id: str = ""

    def original(self) -> bytes:
        """Return the record as JSON for the list of rejects; its audio is the published recording."""
        import msgspec  # not at the top: the module of a corpus is imported for its `--help`

        return msgspec.json.encode({"audio_filepath": self.source, **self.fields})

    def rejected(self, rejected: RecordRejected | None = None) -> RecordRejected:
        """Return a copy of `rejected` whose detail begins with `where`.

        If `rejected` is None, it is made from the `reason` and `detail` of this utterance.
        """
        if rejected is None:
            assert self.reason is not None
            rejected = RecordRejected(self.reason, self.detail)
        return RecordRejected(rejected.reason, f"{self.where}: {rejected.detail}")


Derive = Callable[[Iterator[tuple[str, dict[str, Any]]]], Iterable[tuple[str, Iterable[str]]]]
"""A function that makes further files of a corpus from its records.

It takes a pair (manifest, record) per record, and yields a pair (file name, lines without line ends) per file.
"""


@dataclass(frozen=True)
class CorpusPart:
    """A part of a corpus that is fetched, converted and continued independently of others.

    Attributes:
        corpus: e.g. `librispeech`.
        name: the name of the part, e.g. `dev_clean`; the same as `corpus` if the corpus is not divided.
        archive: the archive to fetch; None: the corpus is on disk already.
        copy: the folder of the user's copy; None if the corpus is, or will be, in the data root. Recordings that need
            no conversion stay in the copy, and manifests have their absolute paths.
        top: the folder, relative to the data root, in which the archive is unpacked; empty for the data root itself.
        trees: the folders that the archive fills, relative to the data root; empty for a corpus on disk.
        manifests: the manifests to write, relative to the data root.
        read: a function that yields the utterances; those of one manifest are consecutive. Its argument is `copy` or,
            if that is None, the folder with the content of the archive. The caller changes what is yielded.
        recordings: globs such as `data/**/*.flac` of all recordings (`prepcli.commands.download.recordings.files_in`),
            relative to the folder that `read` takes. Those that no utterance names are rejects.
        named: a function that yields further recordings which published lists name; its argument is that of `read`.
        converted: globs, relative to the data root, of all WAV files that a conversion can make, whatever the options.
        nested: a glob of archives within the archive; each is unpacked in the folder that it is in.
        derive: makes further files from the records; None: there are no such files.
        derived: the names of the files that `derive` makes, relative to the data root.
        settings: the options that the output depends on.
    """

    corpus: str
    name: str
    archive: Archive | None
    trees: tuple[str, ...]
    manifests: tuple[str, ...]
    read: Callable[[Path], Iterator[Utterance]]
    recordings: tuple[str, ...]
    named: Callable[[Path], Iterable[str]] = lambda folder: ()
    converted: tuple[str, ...] = ()
    nested: str | None = None
    derive: Derive | None = None
    derived: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    copy: Path | None = None
    top: str = ""

    @property
    def command(self) -> str:
        """The command that prepares this data set, for messages, e.g. `download librispeech dev_clean`."""
        return " ".join(dict.fromkeys(["download", self.corpus, self.name]))

    @property
    def state_name(self) -> str:
        """The name of this data set's workspace, e.g. `libritts_dev_clean`; unique in a data root."""
        return self.name if self.corpus in (self.name, "librispeech") else f"{self.corpus}_{self.name}"

    def extracted(self, folder: Path, data_root: Path) -> "CorpusPart":
        """The same data set, to be read from the user's copy.

        `folder` is the folder in which the user has unpacked the archive, or a folder of the corpus within it.

        Raises:
            UsageError: the copy does not exist, or archives within it are not unpacked.
        """
        tree = self.trees[0].removeprefix(f"{self.top}/")
        root = _root_of(folder, tree) or _root_of(folder / self.top, tree)
        if root is None:
            raise UsageError(
                f"{option('--extracted', folder)} holds no {tree}: give the folder in which the archive of "
                f"{self.corpus} was unpacked"
            )
        nested = next(root.glob(self.nested), None) if self.nested else None
        if nested is not None and not any(path.is_dir() for path in nested.parent.iterdir()):
            raise UsageError(
                f"{nested.parent} holds archives that are not unpacked, such as {nested.name}: unpack them there, too"
            )
        here = data_root / self.top
        is_here = here.is_dir() and root.samefile(here)
        return replace(self, archive=None, trees=(), copy=None if is_here else root)


def _root_of(folder: Path, tree: str) -> Path | None:
    """Find the folder in which the relative path `tree` is; None if there is none.

    The result is `folder` or, if `folder` has the name of a folder of `tree`, a folder above it. For `tree` `A/B`, the
    user may give the folder with A, the folder A, or the folder B.
    """
    for named in (Path(os.path.abspath(folder)), Path(os.path.realpath(folder))):
        for root in (named, *named.parents)[: len(Path(tree).parts) + 1]:
            if (root / tree).is_relative_to(named) and (root / tree).is_dir():
                return root
    return None


def choose(corpus: str, names: str, known: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names in a list of data sets such as `dev_clean,dev-other` or `ALL`, each once, in the list's order.

    Args:
        corpus: the name of the corpus, for messages.
        names: the value of `--data-sets`.
        known: the names of all data sets.
        groups: names that stand for several data sets, such as `ALL`.

    Raises:
        UsageError: a data set does not exist, or the list is empty.
    """
    wanted: dict[str, None] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        for one in groups.get(name, (name.replace("-", "_"),)):
            if one not in known:
                raise UsageError(f"{corpus} has no data set {name}; choose of {', '.join((*known, *groups))}")
            wanted[one] = None
    if not wanted:
        raise UsageError(f"{option('--data-sets')} names no data set")
    return list(wanted)


def lines_of(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of the file `name` in `root` that are not blank, stripped, each with its place, `name:number`.

    Bytes that are not UTF-8 become U+FFFD.
    """
    path = root / name
    with naming(path), path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"{name}:{number}", line.strip()


def speaker_name(language: str, corpus: str, speaker: str) -> str:
    """Return the value of the field `speaker`, such as `| Language:en Dataset:VCTK Speaker:p225 |`.

    Magpie-TTS needs this form. `extend-context-audio` groups records by this field.
    """
    return f"| Language:{language} Dataset:{corpus} Speaker:{speaker} |"


def may_lie_outside(path: str) -> bool:
    """Whether a published relative path could lead out of the folder of its corpus."""
    return "\0" in path or os.path.isabs(path) or ".." in path.split("/")
