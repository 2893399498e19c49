"""`print(report)` prints what the command line prints, for every kind of report, and notebooks show it."""

import html
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import prepcli as library
from prepcli.errors import TooManyRejectsError
from tests.commands.download.conftest import Serve, archives, checksums, serve  # noqa: F401 - fixtures
from tests.conftest import SHORT_CORPUS, read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tokenizer_models import corpus_texts, train_sentencepiece

CORPUS = str(SHORT_CORPUS)
MANIFEST = f"{CORPUS}/manifest.json"
Call = tuple[str, Callable[[], Any]]
"""The words of a command line, and the same call in Python."""
CALLS: dict[str, list[Call]] = {
    "a job": [
        (
            f"manifest-to-tarred {MANIFEST} t --num-shards 2 --dry-run --rank 0 --world-size 2",
            lambda: library.manifest_to_tarred(MANIFEST, "t", num_shards=2, dry_run=True, rank=0, world_size=2),
        ),
        (
            f"manifest-to-tarred {MANIFEST} t --num-shards 2",
            lambda: library.manifest_to_tarred(MANIFEST, "t", num_shards=2),
        ),
        (
            f"manifest-to-tarred {MANIFEST} t --num-shards 2",
            lambda: library.manifest_to_tarred(MANIFEST, "t", num_shards=2),
        ),
        ("status t", lambda: library.status("t")),
        ("status t none", lambda: library.status(["t", "none"])),
        ("verify t", lambda: library.verify("t")),
        ("verify t --quick", lambda: library.verify("t", quick=True)),
        ("index t --check", lambda: library.index("t", check=True)),
        ("blend a=t:2 b=t:1 mix.yaml --dry-run", lambda: library.blend(["a=t:2", "b=t:1"], "mix.yaml", dry_run=True)),
        ("inspect t", lambda: library.inspect("t")),
        ("inspect t --record 3", lambda: library.inspect("t", record=3)),
    ],
    "bins": [
        (f"estimate-bins {MANIFEST} -b 4", lambda: library.estimate_bins(MANIFEST, num_buckets=4)),
        (
            f"estimate-bins-2d {MANIFEST} -b 2 -s 2 -t words.model",
            lambda: library.estimate_bins_2d(MANIFEST, "words.model", num_buckets=2, sub_buckets=2),
        ),
        (
            "estimate-token-bins texts.yaml -b 4 -t words.model --measure-total-length",
            lambda: library.estimate_token_bins("texts.yaml", "words.model", num_buckets=4, measure_total_length=True),
        ),
    ],
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the working directory again, empty but for a tokenizer and texts."""
    folder = tmp_path / "work"
    train_sentencepiece(tmp_path / "words.model")

    def make() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(tmp_path / "words.model", folder)
        (folder / "texts.txt").write_text("".join(f"{text}\n" for text in corpus_texts()[:48]), encoding="utf-8")
        (folder / "texts.yaml").write_text(f"- {{type: txt, paths: '{folder}/texts.txt'}}\n")
        monkeypatch.chdir(folder)

    return make


@pytest.mark.parametrize("kind", CALLS)
def test_the_text_of_a_report(kind: str, work: Callable[[], None]) -> None:
    work()
    printed = [prepcli(*words.split()) for words, _ in CALLS[kind]]
    assert [done.code for done in printed] == [0] * len(printed)
    work()
    for done, (words, function) in zip(printed, CALLS[kind], strict=True):
        report = function()
        assert without_times(f"{report}\n") == without_times(done.out), words
        assert report._repr_html_() == f"<pre>{html.escape(str(report))}</pre>"


def without_times(text: str) -> str:
    """The text without times of day."""
    return re.sub(r"\d\d:\d\d:\d\d", "", text)


def test_the_text_of_problems(work: Callable[[], None]) -> None:
    work()
    library.manifest_to_tarred(MANIFEST, "t", num_shards=2)
    Path("t/audio_1.tar").write_bytes(b"")
    for words, report in (("verify t", library.verify("t")), ("index t --check", library.index("t", check=True))):
        done = prepcli(*words.split())
        assert (done.code, done.out) == (1, f"{report}\n")
        assert "PROBLEM" in done.out


def test_the_text_of_too_many_rejects(work: Callable[[], None]) -> None:
    work()
    lines = read_lines(Path(MANIFEST))[:4]
    lines[0]["duration"] = -1
    write_lines(Path("m.json"), lines)
    done = prepcli("manifest-to-shar", "m.json", "s", "--shard-size", 2, "--audio-base-dir", CORPUS)
    assert done.code == 3
    with pytest.raises(TooManyRejectsError) as raised:
        library.manifest_to_shar("m.json", "s", shard_size=2, audio_base_dir=CORPUS, overwrite=True)
    assert f"{raised.value.report}\n" == done.out


@pytest.mark.slow
def test_the_text_of_a_download(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    url = serve().url
    words = ("download", "an4", "--data-root", tmp_path / "d", "--base-url", url)
    here: dict[str, Any] = {"data_root": tmp_path / "d", "base_url": url}
    assert f"{library.download_an4(**here, dry_run=True)}\n" == prepcli(*words, "--dry-run").out
    assert f"{library.download_an4(**here, fetch_only=True)}\n" == prepcli(*words, "--fetch-only").out
    assert f"{library.download_an4(**here)}\n" == prepcli(*words, "--overwrite").out


def test_other_texts_of_a_report(work: Callable[[], None]) -> None:
    """What `--verbose` and `--quiet` print."""
    work()
    report = library.manifest_to_tarred(MANIFEST, "t", num_shards=2)
    done = prepcli("manifest-to-tarred", MANIFEST, "t", "--num-shards", 2, "--overwrite", "--verbose")
    assert f"{report:verbose}".splitlines()[:3] == done.out.splitlines()[:3]
    assert "  units " in f"{report:verbose}" and "  units " not in f"{report}"
    bins = library.estimate_bins(MANIFEST, num_buckets=4)
    assert f"{bins:quiet}\n" == prepcli("estimate-bins", MANIFEST, "-b", 4, "--quiet").out
