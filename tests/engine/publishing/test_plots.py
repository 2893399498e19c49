"""A plot replaces only a plot, under whatever name, and the old one stays if the new one cannot be written."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, tree
from tests.support.running import Outcome, prepcli

OTHERS = {
    "flac": b'fLaC\0\0\0"',
    "wav": b"RIFF$\0\0\0WAVEfmt ",
    "text": b"Matplotlib\n",
    "photo": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\x11tEXtSoftware\0a camera",
    "drawing": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"></svg>\n',
    "paper": b"%PDF-1.5\n/Creator (TeX)\n%%EOF\n",
    "JPEG": b"\xff\xd8\xff\xe0\0\x10JFIF",
}


def plot(path: Path, buckets: int = 2) -> Outcome:
    return prepcli("estimate-bins", SHORT_CORPUS / "manifest.json", "-b", buckets, "--plot", path, "-q")


def names_of(target: Path, path: Path) -> Iterator[Path]:
    """A symbolic link to the target, then a second name for it."""
    for link in (path.symlink_to, path.hardlink_to):
        link(target)
        yield path
        path.unlink()


@pytest.mark.parametrize("what", OTHERS)
def test_a_file_that_is_not_a_plot_stays(what: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(OTHERS[what])
    for suffix in (".png", ".svg", ".pdf", ".webp"):
        for path in names_of(target, tmp_path / f"link{suffix}"):
            before = tree(tmp_path)
            done = plot(path)
            assert (done.code, done.out, tree(tmp_path)) == (2, "", before)
            assert done.error_line.endswith(
                f"--plot {path}: a file that is not such a plot is there; give another name, or move it away"
            )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["PNG", "svg", "pdf", "jpg", "tiff", "gif", "webp"])
def test_a_plot_is_replaced(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"plot.{suffix}"
    assert plot(path).code == 0
    before = path.read_bytes()
    for one in names_of(path, tmp_path / f"link.{suffix}"):
        done = plot(one, buckets=5)
        assert done.code == 0, done.err
    assert path.read_bytes() != before


@pytest.mark.parametrize("suffix", ["raw", "svgz"])
def test_a_plot_that_cannot_be_recognized_is_written_once(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"plot.{suffix}"
    assert plot(path).code == 0
    before = path.read_bytes()
    assert "a file that is not such a plot is there" in plot(path, buckets=5).error_line
    assert path.read_bytes() == before


def test_the_target_of_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    path, link = tmp_path / "plot.png", tmp_path / "link.png"
    link.symlink_to("plot.png")
    for buckets in (2, 5):
        before = tree(tmp_path)
        assert plot(link, buckets).code == 0
        assert link.is_symlink()
        assert tree(tmp_path) != before
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_old_plot_stays_if_the_new_one_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "plot.png"
    assert plot(path).code == 0
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        done = plot(path, buckets=5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (done.code, done.out, done.error_line) == (1, "", f"prepcli: cannot write {path}: File too large")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_a_format_that_needs_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib.backends.backend_pgf")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = plot(tmp_path / "plot.pgf")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert "give a name such as plot.png" in done.error_line
