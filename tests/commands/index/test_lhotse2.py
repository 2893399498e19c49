"""The judge of indexes: lhotse 2 makes the same, and reads by them what lhotse 1 reads in sequence."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from prepcli.formats.indexes import make_index
from tests.conftest import MINI_CORPUS, make_set
from tests.formats.test_indexes import NAMES, make_tar
from tests.support.lhotse2 import with_lhotse2

pytestmark = [pytest.mark.slow, pytest.mark.torch]

READ = """
import hashlib, json, sys
from pathlib import Path
import lhotse
from lhotse import CutSet
from lhotse.indexing import create_jsonl_index, create_tar_index

assert lhotse.__version__.startswith("2."), lhotse.__version__
folder = Path(sys.argv[1])
indexes = {}
for path in sorted((folder / "files").iterdir()):
    make = create_jsonl_index if path.suffix == ".jsonl" else create_tar_index
    indexes[path.name] = Path(make(path, output_path=folder / "theirs.idx")).read_bytes().hex()

from tests.commands.index.reading import described
fields = json.loads(sys.argv[2])
root = sys.argv[3]
before = sorted(str(path) for path in folder.rglob("*"))
cuts = CutSet.from_shar(fields=fields, indexed=True, indexes_root=root)
all_cuts = [described(cut) for cut in cuts]
drawn = {n: described(cuts[n]) for n in (47, 0, 20, 33)}
iterator = iter(cuts)
first = [described(next(iterator)) for _ in range(19)]
state = cuts.state_dict()
again = CutSet.from_shar(fields=fields, indexed=True, indexes_root=root)
again.load_state_dict(state)
rest = [described(cut) for cut in again]
assert sorted(str(path) for path in folder.rglob("*")) == before
print(json.dumps({"read": [all_cuts, drawn, first, rest], "indexes": indexes}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Sets, indexes and some files, and what lhotse 2 says of them: one process, which takes seconds to import it."""
    folder = tmp_path_factory.mktemp("lhotse 2")
    manifest = MINI_CORPUS / "manifest_with_context.json"
    make_set("manifest-to-shar", manifest, folder / "shar", "--shard-size", 20, "--indexed", "--audio-format", "wav")
    make_set("manifest-to-tarred", MINI_CORPUS / "manifest.json", folder / "tarred", "--num-shards", 2)
    (folder / "flat").mkdir()
    for path in (folder / "shar").glob("[ct]*/*"):
        (folder / "flat" / path.name.replace("recording", path.parent.name)).hardlink_to(path)
    files = folder / "files"
    files.mkdir()
    for number, (name, names) in enumerate(NAMES.items()):
        for format in (1, 2):  # GNU's and PAX's headers
            if len(names) % 2 == 0:
                make_tar(files / f"{number}_{name}_{format}.tar", names, format, lambda n: 700 * n)
    shutil.copy(folder / "shar/target_audio/recording.000001.tar", files / "ours.tar")
    for number, text in enumerate((b"", b"{}\n{}\n", b'{"a": 1}\n\n{}')):
        (files / f"{number}.jsonl").write_bytes(text)
    return folder, with_lhotse2(READ, folder, json.dumps(fields_of(folder / "shar")), folder / "shar/index")


def fields_of(out: Path) -> dict[str, list[str]]:
    return {name: sorted(map(str, (out / name).iterdir())) for name in ("cuts", "target_audio", "context_audio")}


def test_the_same_indexes(found: tuple[Path, Any]) -> None:
    folder, indexes = found[0], found[1]["indexes"]
    assert len(indexes) >= 10
    for name, theirs in indexes.items():
        path = folder / "files" / name
        ours = make_index(path, "jsonl" if path.suffix == ".jsonl" else "shar_tar")
        # lhotse 2 reads 10 kB at a time and takes for the size how far it has read: in rare cases one block less.
        end = int.from_bytes(bytes.fromhex(theirs)[-8:], "little")
        assert ours[:-8] == bytes.fromhex(theirs)[:-8], name
        assert end == path.stat().st_size or (path.stat().st_size % 10240 == 512), name


def test_the_same_cuts_as_lhotse_1_in_the_same_order(found: tuple[Path, Any]) -> None:
    lhotse = pytest.importorskip("lhotse")
    from tests.commands.index.reading import described

    folder, (all_cuts, drawn, first, rest) = found[0], found[1]["read"]
    cuts = [described(cut) for cut in lhotse.CutSet.from_shar(fields=fields_of(folder / "shar"))]
    assert len(cuts) == 48
    assert all_cuts == cuts
    assert drawn == {str(n): cuts[n] for n in (47, 0, 20, 33)}
    assert first == cuts[:19]
    assert rest == cuts[19:]
