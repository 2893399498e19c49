"""The miniatures, made once, and a server for each test."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import prepcli
from prepcli.commands.download import job
from prepcli.commands.download.data_set import CorpusPart
from tests.commands.download.miniatures import ARCHIVES, checksum_list
from tests.commands.download.server import Site, serving

Serve = Callable[..., Site]
PartsOf = Callable[..., Sequence[CorpusPart]]


@pytest.fixture
def parts_of(monkeypatch: pytest.MonkeyPatch) -> PartsOf:
    """Calls the function of a command, and returns the parts of the corpus, which it does not prepare."""
    monkeypatch.setattr(job, "make_manifests", list)
    return lambda name, **options: getattr(prepcli, name)("data", **options)


@pytest.fixture(scope="session")
def archives() -> dict[str, bytes]:
    """Name -> bytes of every miniature archive."""
    return {name: make() for name, make in ARCHIVES.items()}


@pytest.fixture
def serve(archives: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server of the miniatures, or of other files; keywords are those of `Site`."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ExitStack() as stack:
        yield lambda files=None, **how: stack.enter_context(
            serving(Site(dict(archives if files is None else files), **how))
        )


@pytest.fixture(scope="session")
def checksums(archives: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The miniatures' checksums, for `--checksums`."""
    path = tmp_path_factory.mktemp("checksums") / "md5sum.txt"
    path.write_text(checksum_list(archives))
    return path
