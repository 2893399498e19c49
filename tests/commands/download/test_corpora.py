"""The list of corpora; an4, aishell: what each writes, from archives in the published layouts."""

import re
from collections import Counter
from pathlib import Path

import pytest
import soundfile

from prepcli.commands.download.data_set import Archive
from prepcli.commands.download.fetch import fetch
from prepcli.errors import UsageError
from prepcli.interface.commands import COMMANDS
from prepcli.interface.corpora import CORPORA
from tests.commands.download.conftest import PartsOf, Serve
from tests.commands.download.miniatures import checksum_list, utterances, write_files
from tests.conftest import read_lines
from tests.support.running import prepcli

PARTS: dict[str, list[dict[str, str]]] = {
    "librispeech": [{"data_sets": "ALL"}, {"data_sets": "mini"}],
    "libritts": [{"data_sets": "ALL"}],
    "libritts-r": [{"data_sets": "ALL"}],
    "vctk": [{"mic": "both"}],
    "mls": [{"language": "german", "archive_format": "flac"}],
    "hifitts2": [],  # not in archives
}
"""The options that name all parts of a corpus, which has more than one."""


def test_archives_come_over_https(parts_of: PartsOf) -> None:
    sets = [
        part
        for corpus in CORPORA
        if corpus.publisher is not None
        for options in PARTS.get(corpus.name, [{}])
        for part in parts_of(f"download_{corpus.name.replace('-', '_')}", **options)
    ]
    archives = [one.archive for one in sets if one.archive is not None]
    assert len(archives) == len(sets) and all(archive.urls for archive in archives)
    plain = [url for archive in archives for url in archive.urls if not url.startswith("https://")]
    assert plain == []


def test_an4(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = prepcli("download", "an4", "--data-root", data, "--base-url", serve().url)
    assert (done.code, done.err) == (0, "")
    train, test = (read_lines(data / f"an4/{part}_manifest.json") for part in ("train", "test"))
    assert (len(train), len(test)) == (6, 3)
    assert train[1] == {
        "audio_filepath": "wav/an4_clstk/fs01/an251-fs01-b.wav",
        "duration": 0.12,
        "text": "the kettle is boiling.",
        "speaker": "| Language:en Dataset:AN4 Speaker:fs01 |",
    }
    assert test[0]["audio_filepath"] == "wav/an4test_clstk/fs03/cen4-fs03-b.wav"
    assert test[0]["text"] == utterances("s03")[0][1].lower()  # the test part has no <s> and </s>
    for record in [*train, *test]:
        path = data / "an4" / record["audio_filepath"]
        samples, rate = soundfile.read(path, dtype="int16")
        published, _ = soundfile.read(path.with_suffix(".sph"), dtype="int16")
        assert rate == 16000
        assert (samples == published).all()
        assert record["duration"] == len(samples) / rate


def test_an_archive_brings_nothing_but_its_corpus(serve: Serve, tmp_path: Path) -> None:
    """Other files in it would lie in the data root, or replace those that are there; those next to a tree stay."""
    from tests.commands.download.miniatures import an4, librispeech, tar_gz

    strange = {".bashrc": b"x", "mine.json": b"x", "set.prepcli/plan.json": b"x", "LibriSpeech/other/x": b"x"}
    data = write_files({"mine.json": b"mine", "LibriSpeech/README.TXT": b"mine"}, tmp_path / "data")
    site = serve(
        {
            "an4_sphere.tar.gz": tar_gz(an4() | strange),
            "dev-clean-2.tar.gz": tar_gz(librispeech("dev-clean-2", ["s01"]) | strange),
        }
    )
    sums = tmp_path / "sums"
    sums.write_text(checksum_list(site.files))
    from_site = ("--data-root", data, "--base-url", site.url, "--checksums", sums)
    for words in (("an4",), ("librispeech", "--data-sets", "dev_clean_2")):
        done = prepcli("download", *words, *from_site)
        assert done.code == 0, done.err
        warning = r"^prepcli: warning: files of the archive that are not part of \w+ were left out: 4$"
        assert re.search(warning, done.err, re.MULTILINE)
    assert {path.name for path in data.iterdir()} == {"an4", "LibriSpeech", "mine.json", "dev_clean_2.json"}
    assert {path.name for path in (data / "LibriSpeech").iterdir()} == {
        *("README.TXT", "SPEAKERS.TXT", "dev-clean-2", "dev-clean-2-processed")
    }
    assert (data / "mine.json").read_bytes() + (data / "LibriSpeech/README.TXT").read_bytes() == b"minemine"


def test_aishell(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    arguments = ["--base-url", serve().url, "--checksums", checksums, "--max-rejects", 1]
    done = prepcli("download", "aishell", "--data-root", data, *arguments)
    assert done.code == 0, done.err
    parts = {part: read_lines(data / f"data_aishell/{part}.json") for part in ("train", "dev", "test")}
    assert {part: len(records) for part, records in parts.items()} == {"train": 7, "dev": 4, "test": 4}
    assert parts["dev"][0] == {
        "audio_filepath": "wav/dev/S0724/BAC009S0724W0122.wav",
        "duration": 0.1,
        "text": "而对楼市成交抑制作用最大的限购",
        "speaker": "| Language:zh Dataset:AISHELL Speaker:S0724 |",
    }
    for part in parts.values():
        assert all((data / "data_aishell" / record["audio_filepath"]).is_file() for record in part)
    texts = [record["text"] for part in parts.values() for record in part]
    counts = Counter("".join(texts))
    vocabulary = (data / "data_aishell/vocab.txt").read_text().splitlines()
    assert sorted(vocabulary) == sorted(counts)
    assert [counts[character] for character in vocabulary] == sorted(counts.values(), reverse=True)
    assert not list(data.rglob("*.tar.gz"))
    reject = read_lines(tmp_path / "data.prepcli/sets/aishell/rejects.jsonl")[0]
    assert reject["reject_detail"] == "data_aishell/wav/train/S0003/BAC009S0003W0125.wav: no transcript names it"


def test_help_lists_corpora_with_size_licence_and_needs() -> None:
    text = " ".join(prepcli("download", "--help").out.split())
    for words in ("CC BY 4.0", "64 MB, licence not stated", "15.6 GB, Apache 2.0", "needs your copy", "public domain"):
        assert words in text


def test_the_list_has_every_corpus_with_a_command_of_its_own() -> None:
    listed = prepcli("download", "--list", "--json").json["corpora"]
    own = [name.removeprefix("download ") for name in (one.name for one in COMMANDS) if name.startswith("download ")]
    assert [one["name"] for one in listed if one["recipe"] == "own"] == [name for name in own if name != "lhotse"]
    assert next(one for one in listed if one["name"] == "fisher") == {
        "name": "fisher",
        "hours": 1960,
        "languages": "English",
        "licence": "LDC licence",
        "recipe": "own",
        "source": "your copy",
    }
    head, *rows = prepcli("download", "--list").out.splitlines()[:-1]
    assert [row.split()[0] for row in rows] == [one["name"].split()[0] for one in listed]
    column = head.index("licence")
    assert [row[column:].partition("  ")[0] for row in rows] == [one["licence"] for one in listed]


def test_an_archive_that_nobody_publishes_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nobody publishes toy"):
        fetch(Archive("toy.tar.gz", ()), tmp_path, lambda *_: None)
