"""lhotse and NeMo read sets straight from the store. boto3, which smart_open needs, lies aside in `.venv/boto3`."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import read_lines
from tests.storage.buckets import Bucket
from tests.support.forks import start_python
from tests.support.running import Prepcli, clean_environment

pytestmark = pytest.mark.nemo

_WITH_BOTO3 = """
import sys, lhotse.utils
# A fork may have these from a process without boto3.
for name in [name for name in sys.modules if name.partition(".")[0] == "smart_open"]:
    del sys.modules[name]
lhotse.utils.SmartOpen.smart_open = None
"""
_SHAR = """
import json, sys
from lhotse import CutSet
out, shards = sys.argv[1], int(sys.argv[2])
names = [f"{number:06d}" for number in range(shards)]
fields = {
    "cuts": [f"{out}/cuts/cuts.{name}.jsonl.gz" for name in names],
    "recording": [f"{out}/recording/recording.{name}.tar" for name in names],
}
cuts = CutSet.from_shar(fields=fields)
found = [(cut.supervisions[0].text, cut.load_audio().shape[1] / cut.sampling_rate) for cut in cuts]
print(json.dumps(found))
"""
_TARRED = """
import json, sys
from tests.support.nemo_loaders import read_all
out, last = sys.argv[1], int(sys.argv[2]) - 1
section = {
    "manifest_filepath": f"{out}/sharded_manifests/manifest__OP_0..{last}_CL_.json",
    "tarred_audio_filepaths": f"{out}/audio__OP_0..{last}_CL_.tar",
}
print(json.dumps(read_all(section)))
"""


@pytest.fixture(scope="module", autouse=True)
def nemo() -> None:
    """Imported here, for the forks."""
    pytest.importorskip("nemo.collections.asr")


def read_with(code: str, bucket: Bucket, *arguments: object) -> Any:
    """What Python code prints as JSON, in a process that imports boto3 as well."""
    folder = Path(sys.prefix) / "boto3"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing: run scripts/setup.sh")
    paths = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    environ = clean_environment(**bucket.store.environ, PYTHONPATH=paths)
    command = [sys.executable, "-c", _WITH_BOTO3 + code, *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        ended = start_python(command, stdout=out, stderr=err, env=environ).wait()
        texts = [(file.seek(0), file.read())[1] for file in (out, err)]
    assert ended == 0, texts
    return json.loads(texts[0].splitlines()[-1])


def test_lhotse_reads_a_shar_set(bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path) -> None:
    """Beside NeMo, which has imported lhotse already."""
    manifest = mini_corpus / "manifest.json"
    made = run("manifest-to-shar", manifest, bucket / "shar", "--shard-size", 20, "--work-dir", tmp_path)
    assert made.code == 0, made.err
    found = read_with(_SHAR, bucket, bucket / "shar", 3)
    records = read_lines(manifest)
    assert [text for text, _ in found] == [record["text"] for record in records]
    for (_, seconds), record in zip(found, records, strict=True):
        assert abs(seconds - record["duration"]) < 0.02


def test_nemo_reads_a_tarred_set(bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path) -> None:
    manifest = mini_corpus / "manifest.json"
    made = run("manifest-to-tarred", manifest, bucket / "tarred", "--num-shards", 3, "--work-dir", tmp_path)
    assert made.code == 0, made.err
    found = read_with(_TARRED, bucket, bucket / "tarred", 3)
    assert sorted(found) == sorted(record["text"] for record in read_lines(manifest))
