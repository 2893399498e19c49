"""Every kind of data set becomes every other, with the audio byte for byte."""

from pathlib import Path

import pytest

from tests.support.audio_files import write_short_corpus
from tests.support.containers import SOURCES, audio_by_text, samples
from tests.support.running import prepcli

COUNT = 6
WRITERS = {
    "tarred": ("manifest-to-tarred", "--num-shards", 2),
    "shar": ("manifest-to-shar", "--shard-size", 4),
    "wenet": ("manifest-to-wenet", "--shard-size", 4),
    "parquet": ("manifest-to-parquet", "--shard-size", 4),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The manifest, and a set of each kind made of it."""
    base = tmp_path_factory.mktemp("sets")
    manifest = write_short_corpus(base / "corpus", COUNT)
    found = {"manifest": manifest}
    for number, (name, make) in enumerate(SOURCES.items()):
        folder = base / f"source{number}"
        folder.mkdir()
        found[name] = make(manifest, folder)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("source", SOURCES)
def test_audio_is_copied_byte_for_byte(source: str, writer: str, sources: dict[str, Path], tmp_path: Path) -> None:
    command, *options = WRITERS[writer]
    done = prepcli(command, sources[source], tmp_path / "out", *options, "--json")
    assert done.code == 0, done.err
    report = done.json
    assert (report["records_in"], report["records_out"], report["rejects"]) == (COUNT, COUNT, 0)
    expected = {record["text"]: data for _, record, data in samples(sources["manifest"])}
    assert audio_by_text(tmp_path / "out", writer) == expected


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("source", SOURCES)
def test_mels_are_those_of_the_files(source: str, sources: dict[str, Path], tmp_path: Path) -> None:
    options = ("--sampling-rate", 8000, "--mel-fmax", 4000)
    for name in (source, "manifest"):
        done = prepcli("manifest-to-mels", sources[name], tmp_path / name.replace(" ", "_"), *options)
        assert done.code == 0, done.err
    found, wanted = (
        sorted(path.read_bytes() for path in (tmp_path / name.replace(" ", "_") / "mels").iterdir())
        for name in (source, "manifest")
    )
    assert len(wanted) == COUNT
    assert found == wanted
