"""A page or a table replaces only what prepcli wrote, and stays as it was if the new one cannot be written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS
from tests.support.running import Outcome, prepcli, prepcli_process

MANIFEST = SHORT_CORPUS / "manifest.json"
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
"""
POLICY = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'"
EARLIER = {
    "inspect": f'{HEAD}{POLICY}; media-src data:">\n<meta name="viewport"',
    "filter": f'{HEAD.replace(chr(10) + "<head>" + chr(10), "<head>")}{POLICY}">\n<title>',
}
"""The first lines of the pages of version 0.3.0."""
FOREIGN = ["<html>notes", HEAD + "<title>notes</title>", f'{HEAD}<meta name="generator" content="Hugo 0.1">', "\n"]


def write_inspection(page: Path) -> Outcome:
    return prepcli("inspect", MANIFEST, "--num-audio-files", 0, "--html", page)


def write_rules(page: Path) -> Outcome:
    return prepcli(
        "filter", MANIFEST, page.with_name("out.json"), "--keep", "duration>0.1", "--html", page, "--dry-run"
    )


@pytest.mark.parametrize("write", [write_inspection, write_rules])
@pytest.mark.parametrize("text", FOREIGN)
def test_a_page_of_others_stays(write: Callable[[Path], Outcome], text: str, tmp_path: Path) -> None:
    page = tmp_path / "own.html"
    page.write_text(text)
    done = write(page)
    assert (done.code, done.out, page.read_text()) == (2, "", text)
    assert done.error_line.endswith(
        f"--html {page}: a file that is not such a page is there; give another name, or move it away"
    )
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_inspection, write_rules])
def test_pages_of_prepcli_are_replaced(write: Callable[[Path], Outcome], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert write(page).code == 0
    new = page.read_bytes()
    for text in (*EARLIER.values(), ""):
        page.write_text(text)
        assert write(page).code == 0
        assert page.read_bytes() == new
    for other in (write_inspection, write_rules):
        done = other(page)
        assert done.code == 0, done.err


def test_a_link_stays_and_a_second_name_keeps_its_content(tmp_path: Path) -> None:
    page, link, second = (tmp_path / name for name in ("page.html", "link.html", "second.html"))
    page.touch(mode=0o640)
    link.symlink_to("page.html")
    second.hardlink_to(page)
    assert write_rules(link).code == 0
    assert link.is_symlink()
    assert (page.stat().st_size > 100, page.stat().st_mode & 0o777, second.read_bytes()) == (True, 0o640, b"")
    new = tmp_path / "new.html"
    new.symlink_to("made.html")
    assert write_rules(new).code == 0
    assert (new.is_symlink(), (tmp_path / "made.html").is_file()) == (True, True)


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    page, nowhere = tmp_path / "page.html", tmp_path / "nowhere.html"
    page.touch(mode=0o444)
    nowhere.symlink_to("no/page.html")
    for path, why in ((page, "it is read-only"), (nowhere, f"there is no folder {tmp_path / 'no'}")):
        done = write_inspection(path)
        assert (done.code, done.out) == (2, "")
        assert f"--html {path}: {why}" in done.error_line
    assert page.read_bytes() == b""


def test_a_page_on_standard_output() -> None:
    done = prepcli_process("inspect", MANIFEST, "--num-audio-files", 0, "--html", "/dev/stdout")
    assert (done.code, done.out.count("<!DOCTYPE html>"), "</html>" in done.out) == (0, 1, True), done.err
