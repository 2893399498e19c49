"""`python -m tests.corpora FOLDER NAME...`: make miniatures, write FOLDER/md5sum.txt and FOLDER/url, and serve them.

What the recipes' `--mini` downloads from; ends with its parent's wish (SIGTERM).
"""

import os
import signal
import sys
from pathlib import Path

from tests.corpora.miniatures import ARCHIVES, checksum_list
from tests.corpora.server import Site, serving


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
