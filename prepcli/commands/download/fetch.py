"""Fetches an archive from the first mirror that has it, and checks it before it gets its final name."""

import os
import re
from pathlib import Path

from prepcli.commands.download.data_set import Archive
from prepcli.errors import UsageError, option
from prepcli.interface.calls import tell
from prepcli.interface.printing import printable
from prepcli.storage.transfer import FetchError, PartialFile, Progress, download, part_of

MAX_LONGER = 4
"""Maximum size of a download, as a multiple of the published size. A mirror may have a larger file than published."""
MAX_DAMAGED = 3
"""The number of damaged downloads of an archive after which the command fails."""

_SUM = re.compile(r"([0-9a-f]{32}|[0-9a-f]{64}) [ *]*(.*[^ *])[ *]*", re.IGNORECASE)


def fetch(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Fetch an archive into a folder; an interrupted download is continued.

    A partial download is `<name>.part`; a file next to it identifies the version of the file on the server.

    Returns:
        The path of the archive.

    Raises:
        FetchError: no server has the archive, or it was damaged `MAX_DAMAGED` times.
        IncompleteError: the servers cannot be reached, or the connections break; the fetched bytes are kept.
        UsageError: there is no address, or an address is not valid.
    """
    archive.check_published()
    target = folder / archive.name
    part_file = part_of(target)
    folder.mkdir(parents=True, exist_ok=True)
    urls = list(archive.urls)
    for _ in range(MAX_DAMAGED):
        with PartialFile(part_file, algorithm_of(archive.checksum)) as part:
            url = download(
                archive.name,
                urls,
                archive.checksum is not None,
                part,
                _bounded(progress, archive, part),
                otherwise=f"give {option('--base-url')} or {option('--archive')}",
            )
            found = part.finish()
        if archive.checksum in (None, found):
            os.replace(part_file, target)
            part.forget()
            return target
        part_file.unlink()
        part.forget()
        note(f"{archive.name} from {url} is damaged ({found} instead of {archive.checksum}): fetching it again")
        urls.append(urls.pop(urls.index(url)))  # another server may have an undamaged file
    raise FetchError(
        f"{archive.name} was damaged {MAX_DAMAGED} times (it should be {archive.checksum}); give another "
        f"{option('--base-url')}, or a good copy with {option('--archive')}"
    )


def _bounded(progress: Progress, archive: Archive, part: PartialFile) -> Progress:
    """Return a function that calls `progress`, and stops a download that is too large.

    A download of more than `MAX_LONGER` times the published size is discarded, and the function raises `FetchError`.
    """

    def bounded(num_bytes: int, total: int | None) -> None:
        if archive.num_bytes is not None and num_bytes > MAX_LONGER * archive.num_bytes:
            part.restart()
            raise FetchError(f"it sends more than {MAX_LONGER} times the published {archive.num_bytes:,} bytes")
        progress(num_bytes, total)

    return bounded


def algorithm_of(checksum: str | None) -> str:
    """Return the algorithm of a checksum, such as `md5` for `md5:<hex>`; `sha256` if there is no checksum."""
    return checksum.partition(":")[0] if checksum else "sha256"


def read_checksums(path: Path) -> dict[str, str]:
    """Read the output of `md5sum` or `sha256sum`, and return for each file name `md5:<hex>` or `sha256:<hex>`.

    Raises:
        UsageError: the file cannot be read, or has a line of another form.
    """
    found = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option('--checksums', path)} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if matched := _SUM.fullmatch(line.strip()):
            kind = "md5" if len(matched[1]) == 32 else "sha256"
            found[Path(matched[2]).name] = f"{kind}:{matched[1].lower()}"
        elif line.strip():
            raise UsageError(f"{path}:{number}: not a line of md5sum or sha256sum")
    return found


def note(message: str) -> None:
    """Print one line for the user on stderr."""
    tell(f"prepcli: {printable(message)}")
