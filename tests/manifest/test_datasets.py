"""Data sets as trainers read them: manifests, cuts, Shar and tarred sets, with weights."""

import gzip
import json
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.inputs import notes_on_input, resolve_input
from tests.manifest.conftest import write
from tests.manifest.test_inputs import seconds


def write_cuts(path: Path, *durations: float) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = {"id": "c", "start": 0, "channel": 0, "supervisions": [{"duration": 99}], "type": "MonoCut"}
    text = "".join(json.dumps(cut | {"duration": d, "recording": {"duration": 99}}) + "\n" for d in durations)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("a.json", [1, 2]),
        ("a.json,b.json", [1, 2, 3]),
        ("m_{0..2}.json", [10, 11, 12]),
        ("m__OP_0..2_CL_.json", [10, 11, 12]),
        ("[[a.json,0.7],[b.json,0.3]]", [1, 2, 3]),
        ("[[a.json],[b.json]]", [1, 2, 3]),
        ("[[a.json], [b.json, 2]]", [1, 2, 3]),
        ("[['a.json',0.7],[\"b.json\",0.3]]", [1, 2, 3]),
        ("[a.json,b.json]", [1, 2, 3]),
        ("[[a.json]]", [1, 2]),
        ("[a.json]", [1, 2]),
        ("m_[0..1].json", [10, 11]),
        ("[[m_[0..1].json,1],[m_{1,2}.json,1]]", [10, 11, 11, 12]),
        ("manifest_filepath=a.json", [1, 2]),
        ("manifest_filepath=[[a.json,0.7],[b.json,0.3]]", [1, 2, 3]),
        ("manifest_filepath='b.json'", [3]),
    ],
)
def test_manifests(files: Path, spec: str, expected: list[float]) -> None:
    assert seconds(spec) == expected


def test_weights_and_shape(files: Path) -> None:
    a, b = DataSet(("a.json",)), DataSet(("b.json",))
    assert resolve_input("[[a.json,0.7],[b.json,0.3]]") == Mix((a, b), (0.7, 0.3))
    assert resolve_input("[[a.json],[b.json,2]]") == Mix((a, b), (None, 2.0))
    assert resolve_input("a.json,b.json") == DataSet(("a.json", "b.json"))


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_shar_directories(tmp_path: Path, suffix: str) -> None:
    for number in range(3):
        write_cuts(tmp_path / "shar" / "cuts" / f"cuts.{number:06d}.{suffix}", number + 1, 0.5)
    cuts = tmp_path / "shar" / "cuts"
    expected = [0.5, 0.5, 0.5, 1, 2, 3]
    for spec in (
        str(tmp_path / "shar"),
        str(cuts),
        f"shar_path={cuts}",
        f"shar_path=[{cuts}]",
        f"{cuts}/cuts.{{000000..000002}}.{suffix}",
    ):
        assert seconds(spec) == expected
    assert seconds(f"cuts_path={cuts}/cuts.000001.{suffix}") == [0.5, 2]


def test_a_shar_set_by_its_fields(tmp_path: Path) -> None:
    """As in a shell, where NeMo's scripts take the same; and as `train_ds.yaml` has it."""
    for number in range(2):
        write_cuts(tmp_path / "shar" / f"cuts.{number:06d}.jsonl.gz", number + 1, 0.5)
    cuts = f"{tmp_path}/shar/cuts"
    for cuts_of in (
        f"[{cuts}.000000.jsonl.gz, '{cuts}.000001.jsonl.gz']",
        f"{cuts}.{{000000..000001}}.jsonl.gz",
        f'"{cuts}._OP_000000..000001_CL_.jsonl.gz"',
    ):
        assert seconds(f"shar_path={{cuts: {cuts_of}, target_audio: [a.tar, b.tar]}}") == [0.5, 0.5, 1, 2]
        assert seconds(f"shar_path={{target_audio:a_{{0..1}}.tar,cuts:{cuts_of}}}") == [0.5, 0.5, 1, 2]
    with pytest.raises(UsageError, match="must have the field `cuts`"):
        resolve_input("shar_path={target_audio: a.tar}")
    config = tmp_path / "train_ds.yaml"
    config.write_text(
        f"train_ds: {{use_lhotse: true, shar_path: {{cuts: '{cuts}._OP_000000..000001_CL_.jsonl.gz'}}}}\n"
    )
    assert seconds(str(config)) == seconds(f"input_cfg={config}") == [0.5, 0.5, 1, 2]
    assert notes_on_input(resolve_input(str(config))) == []


def test_tarred_sets(tmp_path: Path) -> None:
    for number in range(11):
        write(tmp_path / "set" / "sharded_manifests" / f"manifest_{number}.json", number + 1)
    write(tmp_path / "set" / "tarred_audio_manifest.json", *range(1, 12))
    found = resolve_input(str(tmp_path / "set"))
    assert isinstance(found, DataSet)
    assert [Path(path).name for path in found.paths] == [f"manifest_{number}.json" for number in range(11)]
    assert seconds(str(tmp_path / "set")) == list(range(1, 12))


def test_a_tarred_set_with_one_manifest_and_one_in_buckets(tmp_path: Path) -> None:
    write(tmp_path / "one" / "tarred_audio_manifest.json", 1, 2)
    assert seconds(str(tmp_path / "one")) == [1, 2]
    for number in range(1, 11):
        write(tmp_path / "set" / f"bucket{number}" / "tarred_audio_manifest.json", number)
    found = resolve_input(str(tmp_path / "set"))
    assert isinstance(found, Mix)
    assert found.weights == (None,) * 10
    assert [Path(one.paths[0]).parent.name for one in found.parts if isinstance(one, DataSet)][-2:] == [
        *("bucket9", "bucket10")
    ]
    assert seconds(str(tmp_path / "set")) == list(range(1, 11))
