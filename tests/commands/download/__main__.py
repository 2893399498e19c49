"""`python -m tests.commands.download FOLDER NAME...`: make miniatures, write md5sum.txt and url in FOLDER, serve all.

What the recipes' `--mini` downloads from; ends with its parent's wish (SIGTERM).
"""

import os
import signal
import sys
from pathlib import Path

from tests.commands.download.miniatures import ARCHIVES, checksum_list
from tests.commands.download.server import Site, serving


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    archives = {name: ARCHIVES[name]() for name in names}
    (folder / "md5sum.txt").write_text(checksum_list(archives))
    with serving(Site(archives)) as site:
        draft = folder / "url.new"
        draft.write_text(site.url + "\n")
        os.replace(draft, folder / "url")
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
main(Path(sys.argv[1]), sys.argv[2:])
