"""The command line: words for people, JSON for scripts, one line and exit code 2 for what is not known."""

from pathlib import Path

from tests.conftest import MINI_CORPUS
from tests.support.running import prepcli


def test_json_is_one_object() -> None:
    done = prepcli("inspect", MINI_CORPUS / "manifest.json", "--json", "--num-audio-files", 5)
    assert (done.code, done.json["records"], done.json["audio"][0]["looked_at"]) == (0, 48, 5)
    assert (done.json["title"], len(done.json["first_records"])) == ("a NeMo manifest", 10)


def test_unknown_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = prepcli("inspect", tmp_path / "nowhere")
    assert (done.code, done.out) == (2, "")
    assert "there is no file or directory" in done.error_line


def test_the_page_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    done = prepcli("inspect", tmp_path / "nowhere", "--html", tmp_path / "no/folder/x.html")
    assert done.code == 2
    assert "there is no folder" in done.error_line
    assert "is a directory" in prepcli("inspect", tmp_path / "nowhere", "--html", tmp_path).error_line
