"""The readers of trainers find the same records in a data set as its catalogue."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from prepcli.audio.probe import probe
from prepcli.audio.read import read_segment
from prepcli.audio.segments import TARRED_SLICES, locate
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.named import manifests_of
from prepcli.manifest.sources import open_bytes
from tests.conftest import MINI_CORPUS, make_set
from tests.support.audio_files import write_short_corpus
from tests.support.containers import SOURCES


def catalogue(source: Path) -> list[dict[str, Any]]:
    found = []
    for one in manifests_of(str(source), SetInput()):
        with open_bytes(one) as lines:
            found += [json.loads(line) for line in lines]
    return found


def samples_of(record: dict[str, Any]) -> bytes:
    """The samples of a record, as int16."""
    path = record["audio_filepath"]
    info = probe(path)
    part = locate(path, info, record.get("offset") or 0.0, record["duration"], None, TARRED_SLICES)
    return read_segment(path, info, part.start, part.num_samples).tobytes()


@pytest.mark.torch
def test_webdataset(tmp_path: Path) -> None:
    import webdataset

    made = SOURCES["webdataset"](write_short_corpus(tmp_path, 6), tmp_path)
    urls = sorted(map(str, made.glob("*.tar")))
    wanted = {
        json.loads(one["json"])["text"]: (one["__key__"], soundfile.read(io.BytesIO(one["flac"]), dtype="int16")[0])
        for one in webdataset.WebDataset(urls, shardshuffle=False)
    }
    found = catalogue(made)
    assert len(wanted) == len(found) == 6
    for one in found:
        key, samples = wanted[one["text"]]
        assert one["id"] == key
        assert samples_of(one) == samples.tobytes()


@pytest.mark.nemo
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--slice-with-offset",)])
def test_nemo(options: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.common")
    from nemo.collections.common.data.lhotse.nemo_adapters import LazyNeMoTarredIterator

    make_set("manifest-to-tarred", MINI_CORPUS / "segments.json", tmp_path / "set", "--num-shards", 2, *options)
    pairs = [f"{tmp_path}/set/sharded_manifests/manifest__OP_0..1_CL_.json", f"{tmp_path}/set/audio__OP_0..1_CL_.tar"]
    wanted = sorted(
        (cut.supervisions[0].text, np.round(cut.load_audio()[0] * 32768).astype(np.int16).tobytes())
        for cut in LazyNeMoTarredIterator(*pairs, shard_seed=0)
    )
    found = sorted((one["text"], samples_of(one)) for one in catalogue(tmp_path / "set"))
    assert found == wanted
