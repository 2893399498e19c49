"""The jobs that are disturbed, those of the kill matrices, and a download besides."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from tests.commands.download.miniatures import an4, tar_gz
from tests.commands.download.server import Site, serving
from tests.conftest import tree
from tests.support.killing import Case
from tests.support.running import prepcli

MODULES = {
    "tarred": "tests.commands.manifest_to_tarred.test_kill_matrix",
    "shar": "tests.commands.manifest_to_shar.test_kill_matrix",
    "wenet": "tests.commands.exports.wenet.test_kill_matrix",
    "mels": "tests.commands.exports.mels.test_kill_matrix",
    "parquet": "tests.commands.exports.parquet.test_kill_matrix",
    "make-manifest": "tests.commands.make_manifest.test_kill_matrix",
    "context": "tests.commands.extend_context_audio.test_kill_matrix",
    "codes": "tests.commands.extend_codec_codes.test_kill_matrix",
    "codes-of-manifest": "tests.commands.extend_codec_codes.test_kill_matrix:manifest_case",
    "fisher": "tests.commands.download.test_fisher_kill_matrix",
}
"""Where the case of a job is made: a module, and the function in it, unless that is `make_case`."""
JOBS = (*MODULES, "an4")
ARCHIVE = "an4_sphere.tar.gz"


@dataclass(frozen=True)
class DownloadCase(Case):
    """`url` is where the archive is fetched from, and may stay away for a while."""

    url: str = ""

    def arguments(self, out: Path) -> list[object]:
        return ["download", "an4", "--data-root", out, "--base-url", self.url, *self.options, "--num-workers", 2]


@contextmanager
def prepared(job: str, folder: Path) -> Iterator[Case]:
    """The case of a job, after one whole run in `folder`."""
    if job in MODULES:
        module, _, function = MODULES[job].partition(":")
        make: Callable[[Path], Case] = getattr(import_module(module), function or "make_case")
        yield make(folder)
        return
    with serving(Site({ARCHIVE: tar_gz(an4(copies=60))})) as site:
        case = DownloadCase("download an4", folder, (), 9, 0, {}, "batch_*", False, url=site.url, records="sets/an4")
        done = prepcli(*case.arguments(folder / "out"))
        assert done.code == 0, done.err
        yield replace(case, undisturbed=tree(folder / "out"))
