"""Fetching an archive: from the first mirror that has it, and checked before it gets its name."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from prepcli.calls import tell
from prepcli.corpora.transfer import FetchError, Part, Progress, download
from prepcli.errors import UsageError
from prepcli.printing import printable

MOST_DAMAGED = 3
"""How often an archive may arrive damaged before we give up."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A published archive: its file name and where it is, in the order to try.

    `num_bytes` is for plans only, and follows the publisher or those who have measured it. `checksum` is
    `sha256:<hex>` or `md5:<hex>`, None where nobody publishes one: then the length that the server states, the CRC
    inside gzip and the end of the tar must do.
    """

    name: str
    urls: tuple[str, ...]
    num_bytes: int | None = None
    checksum: str | None = None

    def at(self, base_url: str | None, checksums: Mapping[str, str]) -> "Archive":
        """The same archive on another server, with the checksum of a list instead of the published one."""
        urls = self.urls if base_url is None else (f"{base_url.rstrip('/')}/{self.name}",)
        return replace(self, urls=urls, checksum=checksums.get(self.name, self.checksum))


def fetch(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Fetch `archive` into `folder`, and return where it is; an interrupted fetch is continued.

    What is fetched so far lies in `<name>.part`, and beside it what tells whether the server still has the same file.

    Raises:
        FetchError: no server has it, or what they send is damaged again and again.
        IncompleteError: the servers cannot be reached, or keep breaking off; what is there is kept.
        UsageError: an address is none.
    """
    target = folder / archive.name
    part_file = folder / f"{archive.name}.part"
    folder.mkdir(parents=True, exist_ok=True)
    urls = list(archive.urls)
    for _ in range(MOST_DAMAGED):
        with Part(part_file, algorithm_of(archive.checksum)) as part:
            url = download(archive.name, urls, archive.checksum is not None, part, progress)
            found = part.finish()
        if archive.checksum in (None, found):
            os.replace(part_file, target)
            part.forget()
            return target
        part_file.unlink()
        part.forget()
        note(f"{archive.name} from {url} is damaged ({found} instead of {archive.checksum}): fetching it again")
        urls.append(urls.pop(urls.index(url)))  # perhaps another one has it whole
    raise FetchError(
        f"{archive.name} arrived damaged {MOST_DAMAGED} times (it should be {archive.checksum}); give another "
        "--base-url, or a good copy with --archive"
    )


def algorithm_of(checksum: str | None) -> str:
    """`md5` of `md5:<hex>`; SHA-256 where there is no checksum to compare with."""
    return checksum.partition(":")[0] if checksum else "sha256"


def read_checksums(path: Path) -> dict[str, str]:
    """The checksums in a list as `md5sum` and `sha256sum` print it: file name -> `md5:<hex>` or `sha256:<hex>`.

    Raises:
        UsageError: there is no such list, or a line of another kind in it.
    """
    kinds = {32: "md5", 64: "sha256"}
    found = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--checksums {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        digest, _, name = line.strip().partition(" ")
        kind = kinds.get(len(digest))
        if kind is None or set(digest.lower()) - set("0123456789abcdef") or not name.strip(" *"):
            if line.strip():
                raise UsageError(f"{path}:{number}: no line as md5sum or sha256sum prints it")
            continue
        found[Path(name.strip(" *")).name] = f"{kind}:{digest.lower()}"
    return found


def note(message: str) -> None:
    """One line for people, on stderr."""
    tell(f"prepcli: {printable(message)}")
