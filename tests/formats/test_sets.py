from pathlib import Path

import pytest

from prepcli.formats.mels import MelSet
from prepcli.formats.parquet import ParquetSet
from prepcli.formats.sets import open_set, sets_in
from prepcli.formats.shar_set import CodesSet, SharSet
from prepcli.formats.tarred import TarredSet
from prepcli.formats.wenet import WenetSet
from prepcli.storage.paths import relative

TARRED = ("audio_0.tar", "audio_1.tar", "sharded_manifests/manifest_0.json", "sharded_manifests/manifest_1.json")
SHAR = ("cuts/cuts.000000.jsonl", "target_audio/recording.000000.tar", "codes_x/target_codes/codes.000000.tar")


def make(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (TARRED, TarredSet),
        (("tarred_audio_manifest.json",), TarredSet),
        (("bucket1/audio_0.tar",), TarredSet),
        (SHAR, SharSet),
        (("cuts.000000.jsonl.gz", "recording.000000.tar"), SharSet),
        (SHAR[2:], CodesSet),
        (("target_codes/codes.000000.tar",), CodesSet),
        (("shards.list", "data.list"), WenetSet),
        (("filelists/all_mel_text_filelist.txt",), MelSet),
        (("data-000000.parquet",), ParquetSet),
        (("audio_a.tar", "cuts.jsonl", "bucket1/a.json", "bucket1_old/audio_0.tar", "codes_x/a.npy"), type(None)),
        ((), type(None)),
    ],
)
def test_kinds(tmp_path: Path, names: tuple[str, ...], kind: type) -> None:
    assert type(open_set(make(tmp_path, *names))) is kind


def test_a_folder_with_several_sets(tmp_path: Path) -> None:
    """Codes are part of the Shar set whose cuts lie beside them."""
    assert [one.kind for one in sets_in(make(tmp_path, *SHAR, *TARRED))] == ["shar", "tarred"]


def test_sets_whose_files_are_gone(tmp_path: Path) -> None:
    published = ("shards.list", "cuts/cuts.000000.jsonl.gz", "data-000000.parquet")
    assert [one.kind for one in sets_in(tmp_path, published)] == ["shar", "wenet", "parquet"]


@pytest.mark.parametrize(
    ("published", "kind"),
    [
        ("codes_x/target_codes/codes.000000.tar", "codes"),
        ("cuts/cuts.000000.jsonl", "shar"),
        ("data.list", "wenet"),
        ("filelists/all_mel_text_filelist.txt", "mels"),
        ("data-000000.parquet", "parquet"),
        ("data.lst", "omnivoice"),
        ("m_withAudioCodes_mimi.jsonl", "qwen3-tts"),
    ],
)
def test_a_set_of_which_nothing_is_left(tmp_path: Path, published: str, kind: str) -> None:
    assert [one.kind for one in sets_in(tmp_path, [published])] == [kind]
    assert list(sets_in(tmp_path, ["notes.txt"])) == []


def test_shards_for_wenet_that_were_moved(tmp_path: Path) -> None:
    make(tmp_path, "a_000000000.tar", "elsewhere/a_000000001.tar")
    listed = f"/gone/a_000000000.tar\n{tmp_path}/elsewhere/a_000000001.tar\n"
    (tmp_path / "shards.list").write_text(listed)
    one = WenetSet(tmp_path / "shards.list", is_raw=False)
    assert one.tars == [tmp_path / "a_000000000.tar", tmp_path / "elsewhere/a_000000001.tar"]
    assert list(one.files()) == [tmp_path / "shards.list", *one.tars]


def test_files_are_those_of_the_entry(tmp_path: Path) -> None:
    one = TarredSet(make(tmp_path, *TARRED, "tarred_audio_manifest.json"))
    assert [relative(path, tmp_path) for path in one.files()] == list(TARRED)
    assert one.entry() == {
        "type": "nemo_tarred",
        "manifest_filepath": f"{tmp_path}/sharded_manifests/manifest__OP_0..1_CL_.json",
        "tarred_audio_filepaths": f"{tmp_path}/audio__OP_0..1_CL_.tar",
    }
    (tmp_path / TARRED[3]).unlink()  # then the manifest of the whole set is the one that fits
    one = TarredSet(tmp_path)
    assert one.entry()["manifest_filepath"] == f"{tmp_path}/tarred_audio_manifest.json"


def test_tars_of_an_addition_that_is_not_complete(tmp_path: Path) -> None:
    folder = make(tmp_path / "out", *TARRED, "audio_2.tar", "sharded_manifests/manifest_2.json")
    (folder / "metadata.yaml").write_text("dataset_config:\n  num_shards: 2\n")
    make(tmp_path, "out.prepcli/version_1/plan.json")
    one = TarredSet(folder)
    assert list(one.shards) == list(one.manifests) == [0, 1]
    make(tmp_path, "out.prepcli/version_1/done/finish.json")
    assert list(TarredSet(folder).shards) == [0, 1, 2]
