"""Options of a data loader, merged into configs that people have."""

import stat
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from prepcli.errors import UsageError
from prepcli.manifest.loader_config import check_loader_config, write_loader_config
from tests.conftest import MINI_CORPUS
from tests.support.running import prepcli

OPTIONS: dict[str, Any] = {"use_bucketing": True, "num_buckets": 2, "bucket_duration_bins": [[1.5, 7], [3.25, 20]]}


def test_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "new.yaml"
    assert write_loader_config(path, OPTIONS) == [f"wrote 3 options into {path}, at its top"]
    assert yaml.safe_load((tmp_path / "new.yaml").read_text()) == OPTIONS
    assert "- [1.5, 7]\n" in (tmp_path / "new.yaml").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["new.yaml"]


@pytest.mark.parametrize("place", [("model", "train_ds"), ("data", "train_ds"), ("train_ds",), ()])
def test_the_other_keys_stay(tmp_path: Path, place: tuple[str, ...]) -> None:
    section: dict[str, Any] = {
        "manifest_filepath": "${data}/größer.json",
        "num_buckets": 30,
        "bucket_batch_size": [8, 4],
    }
    document: Any = section
    for name in reversed(place):
        document = {"first": 1, name: document, "other": {"lr": 1e-4, "none": None}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    notes = write_loader_config(path, OPTIONS)
    prefix = f"{path}: {'.'.join((*place, ''))}"
    assert notes == [  # as many batch sizes as bins: they may still be right
        f"{prefix}use_bucketing: new, True",
        f"{prefix}num_buckets: 30 -> 2",
        f"{prefix}bucket_duration_bins: new, [[1.5, 7], [3.25, 20]]",
        f"wrote {path}: 3 keys changed in {'.'.join(place) or 'its top level'}",
    ]
    section.update(OPTIONS)
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert found == document
    assert write_loader_config(path, OPTIONS) == [f"{path} has these options already; it was not changed"]
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == document


def test_batch_sizes_of_other_bins_are_taken_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model:\n  train_ds: {bucket_batch_size: [8, 4, 2]}\n  name: x\n")
    note = write_loader_config(path, OPTIONS)[-2]
    assert note.endswith(
        "took bucket_batch_size out of model.train_ds: it was for 3 bins ([8, 4, 2]); estimate the batch sizes "
        "again (prepcli estimate-batch-sizes)"
    )
    assert yaml.safe_load(path.read_text()) == {"model": {"train_ds": OPTIONS, "name": "x"}}


COMMENTED = """\
# What trains
model:
  train_ds:   # the data
    manifest_filepath: "${data}/größer.json"
    use_bucketing: yes
    num_buckets: 30   # tuned by hand
    # before bins
    bucket_duration_bins:
      - 1.0   # first
      - 2.0
    # after bins

    bucket_batch_size:
      - 8
      - 4
      - 2   # small
    # before workers
    num_workers: 4   # processes
  optim:
      name: 'adamw'
      betas: [0.9,    0.98]
# the end
"""


def test_comments_and_layout_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(COMMENTED)
    notes = write_loader_config(path, OPTIONS | {"max_duration": 12.5})
    assert [note.removeprefix(f"{path}: ") for note in notes] == [
        "model.train_ds.num_buckets: 30 -> 2",
        "model.train_ds.bucket_duration_bins: [1.0, 2.0] -> [[1.5, 7], [3.25, 20]]",
        "model.train_ds.max_duration: new, 12.5",
        "took bucket_batch_size out of model.train_ds: it was for 3 bins ([8, 4, 2]); estimate the batch sizes "
        "again (prepcli estimate-batch-sizes)",
        f"wrote {path}: 4 keys changed in model.train_ds",
    ]
    expected = COMMENTED.replace("num_buckets: 30", "num_buckets: 2")
    expected = expected.replace(":\n      - 1.0   # first\n      - 2.0\n", ": [[1.5, 7], [3.25, 20]]\n")
    expected = expected.replace("    bucket_batch_size:\n      - 8\n      - 4\n      - 2   # small\n", "")
    expected = expected.replace("# processes\n", "# processes\n    max_duration: 12.5\n")
    assert path.read_text() == expected


def test_many_bins_take_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("train_ds:\n  bucket_duration_bins:   # seconds\n    [1.0]")
    bins = [[n + 0.5, n] for n in range(60)]
    write_loader_config(path, {"bucket_duration_bins": bins, "num_buckets": 30})
    assert yaml.safe_load(path.read_text()) == {"train_ds": {"bucket_duration_bins": bins, "num_buckets": 30}}
    assert path.read_text().startswith("train_ds:\n  bucket_duration_bins:   # seconds\n    [[0.5, 0],")
    assert max(map(len, path.read_text().splitlines())) <= 120


@pytest.mark.parametrize(
    "text",
    [
        "train_ds:\n  num_buckets:\n  bucket_duration_bins: []\n",
        "train_ds:\n  name: |\n    a\n\n  # last\n",
        "# empty\n",
        "# empty",
        "a: &a [1]\ntrain_ds:\n  num_buckets: 3\n  other: *a\nb: 1",
        "defaults: &d {num_buckets: 7}\ntrain_ds:\n  <<: *d\n",
        "'train_ds': {num_buckets: 3, name: \"a:#b\"}\n",
        "train_ds: {}\n",
        "num_buckets : 3 # top\n",
    ],
)
def test_odd_layouts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    expected: Any = yaml.safe_load(text) or {}
    expected.get("train_ds", expected).update(OPTIONS)
    write_loader_config(path, OPTIONS)
    assert yaml.safe_load(path.read_text()) == expected
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in path.read_text().splitlines() if line.startswith("#")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "validation_ds: &v\n  a: 1\ntrain_ds: *v\n",
        "train_ds: &t\n  a: 1\nvalidation_ds: *t\n",
        "train_ds:\n  num_buckets: &n 30\nother: *n\n",
        "train_ds: {a: 1,  # why\n  b: 2}\n",
    ],
)
def test_what_cannot_be_edited_in_place_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match="without changing something else"):
        write_loader_config(path, OPTIONS)
    assert path.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("text", "words"), [("- 1\n", "not a mapping"), ("a: [\n", "not readable YAML"), ("text", "not a mapping")]
)
def test_other_files_are_refused_and_stay(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        write_loader_config(path, OPTIONS)
    assert path.read_text() == text


def test_nowhere_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        write_loader_config(tmp_path / "no" / "config.yaml", OPTIONS)
    with pytest.raises(UsageError, match="it is not a regular file"):
        write_loader_config(tmp_path, OPTIONS)


@pytest.mark.parametrize("set_to", ["20", "20.0", "${limit}", ".inf", "-1"])
def test_a_limit_of_the_user_stays_unless_another_is_given(tmp_path: Path, set_to: str) -> None:
    path = tmp_path / "config.yaml"
    text = f"train_ds:\n  max_duration: {set_to}\n"
    path.write_text(text)
    before = yaml.safe_load(text)["train_ds"]["max_duration"]
    notes = write_loader_config(path, OPTIONS | {"max_duration": 42.2959}, {"max_duration": None})
    assert yaml.safe_load(path.read_text())["train_ds"] == OPTIONS | {"max_duration": before}
    kept = f"train_ds.max_duration: stays {before} as the file has it; 42.2959 was estimated"
    assert any(kept in note for note in notes)
    assert any("estimate again with this limit" in note for note in notes) == (before in (20, -1))
    assert any("with this limit (-u 20)" in note for note in notes) == (before == 20)
    assert notes[-1] == f"wrote {path}: 3 keys changed in train_ds"
    # All is as it should be: only what differs is said again.
    (note,) = write_loader_config(path, OPTIONS | {"max_duration": 42.2959}, {"max_duration": None})
    assert kept in note
    notes = write_loader_config(path, {"bucket_duration_bins": [], "max_duration": 29.9}, {"max_duration": 30.0})
    assert f"{path}: train_ds.max_duration: {before} -> 29.9" in notes
    assert yaml.safe_load(path.read_text())["train_ds"]["max_duration"] == 29.9


def test_the_limit_that_the_command_was_given_too_stays(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("train_ds:\n  max_duration: 20\n")
    write_loader_config(path, OPTIONS | {"max_duration": 19.97}, {"max_duration": 20.0})
    assert yaml.safe_load(path.read_text())["train_ds"]["max_duration"] == 20


@pytest.mark.parametrize("set_to", ["", "???", "[1.0, 2.0, 3.0]", "[1.0, 2.0]"])
def test_a_limit_that_is_not_set_or_of_earlier_bins_is_written(tmp_path: Path, set_to: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"train_ds:\n  max_tps: {set_to}\n")
    write_loader_config(path, OPTIONS | {"max_tps": [5.0, 6.0]}, {"max_tps": None})
    assert yaml.safe_load(path.read_text())["train_ds"]["max_tps"] == [5.0, 6.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\ntrainer: {max_steps: 1}\n", "it has none of model.train_ds, data.train_ds, train_ds;"),
        ("model:\n  name: x\n", "it has none of"),
        ("train_ds:\nmodel: {a: 1}\n", "it has none of"),
        ("train_ds: {a: 1}\nmodel: {train_ds: {a: 1}}\n", "it has model.train_ds and train_ds;"),
    ],
)
def test_no_clear_place_is_refused_before_the_work(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match="it is not clear where the options belong: ") as raised:
        check_loader_config(path)
    assert words in str(raised.value)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["", "{}\n", "batch_duration: 300\n"])
def test_a_config_of_the_loader_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    write_loader_config(path, OPTIONS)
    assert yaml.safe_load(path.read_text()) == (yaml.safe_load(text) or {}) | OPTIONS


MULTI = """\
model:
  train_ds:
    multi_config: true   # a sampler for each
    seed: 1
    sampler_weights: {speech: 0.7, texts: 0.3}
    speech:
      input_cfg: speech.yaml
      num_buckets: 30   # by hand
    texts:
      input_cfg:
        - {type: txt, paths: a.txt}
"""
IN_SPEECH = MULTI.replace("num_buckets: 30", "num_buckets: 2").replace(
    "# by hand\n", "# by hand\n      use_bucketing: true\n      bucket_duration_bins: [[1.5, 7], [3.25, 20]]\n"
)
IN_TEXTS = (
    f"{MULTI}      use_bucketing: true\n      num_buckets: 2\n      bucket_duration_bins: [[1.5, 7], [3.25, 20]]\n"
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("speech.yaml", IN_SPEECH),
        ("input_cfg=speech.yaml", IN_SPEECH),
        ("./speech.yaml", IN_SPEECH),
        ("config.yaml:speech", IN_SPEECH),
        ("./config.yaml:texts", IN_TEXTS),
        ("own.yaml", IN_TEXTS),
    ],
)
def test_the_part_of_a_multi_config_that_reads_the_input(
    data: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NeMo reads the bins of a part, and ignores those next to the parts."""
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("- {type: txt, paths: a.txt}\n")  # the list of a part, for the command line
    for place in ("model.train_ds.", ""):
        path = Path("config.yaml")
        lines = (MULTI, text) if place else (textwrap.dedent(one.partition("train_ds:\n")[2]) for one in (MULTI, text))
        before, after = lines
        path.write_text(before)
        check_loader_config(path, data)
        part = "speech" if text == IN_SPEECH else "texts"
        assert f"{path}: {place}{part}.use_bucketing: new, True" in write_loader_config(path, OPTIONS, data=data)
        assert path.read_text() == after
        assert write_loader_config(path, OPTIONS, data=data) == [
            f"{path} has these options already; it was not changed"
        ]
        # Batch sizes go to the bins that they are for.
        sizes = {"bucket_duration_bins": OPTIONS["bucket_duration_bins"], "bucket_batch_size": [4, 2]}
        assert f"{path}: {place}{part}.bucket_batch_size: new, [4, 2]" in write_loader_config(path, sizes)


def test_no_part_or_several_that_read_the_input(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(MULTI)
    with pytest.raises(UsageError) as raised:
        check_loader_config(path, "other.yaml")
    assert "it has model.train_ds.speech and model.train_ds.texts, and none of them reads other.yaml" in str(
        raised.value
    )
    with pytest.raises(UsageError, match=r"it has model.train_ds.speech and model.train_ds.texts; write them"):
        check_loader_config(path)
    both = MULTI.replace("\n        - {type: txt, paths: a.txt}", " speech.yaml")
    path.write_text(both)
    with pytest.raises(UsageError, match=r"and several of them read speech.yaml"):
        write_loader_config(path, OPTIONS, data="speech.yaml")
    assert path.read_text() == both
    alone = both.partition("    texts:")[0]
    path.write_text(alone)
    assert f"{path}: model.train_ds.speech.use_bucketing: new, True" in write_loader_config(
        path, OPTIONS, data="other.yaml"
    )


@pytest.mark.nemo
def test_nemo_reads_the_bins_of_a_part(tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.asr")
    from nemo.collections.common.data.lhotse.dataloader import get_lhotse_dataloader_from_config
    from omegaconf import OmegaConf

    manifest = MINI_CORPUS / "manifest.json"
    parts = {name: {"manifest_filepath": str(manifest), "batch_duration": 20} for name in ("one", "other")}
    parts["other"]["manifest_filepath"] = str(MINI_CORPUS / "segments.json")
    shared = {"multi_config": True, "seed": 1, "shard_seed": 1, "shuffle": True, "use_lhotse": True}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"train_ds": shared | parts}))
    done = prepcli("estimate-bins", manifest, "-b", 4, "--write-config", config)
    assert done.code == 0, done.err
    assert "train_ds.one.num_buckets: new, 4" in done.err
    section = yaml.safe_load(config.read_text())["train_ds"]
    loader = get_lhotse_dataloader_from_config(OmegaConf.create(section), global_rank=0, world_size=1, dataset=object())
    one, other = loader.sampler.samplers
    assert one.duration_bins == section["one"]["bucket_duration_bins"]
    assert type(other).__name__ == "DynamicCutSampler"


CONFIG = "model:\n  train_ds:\n    num_buckets: 30\n    # the end\n"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "config.yaml"
    target.write_text(CONFIG)
    path = tmp_path / "link.yaml"
    path.symlink_to(Path("real") / "config.yaml")
    write_loader_config(path, OPTIONS)
    assert path.is_symlink()
    assert yaml.safe_load(target.read_text())["model"]["train_ds"] == OPTIONS
    new = tmp_path / "new.yaml"
    new.symlink_to("real/new.yaml")
    write_loader_config(new, OPTIONS)
    assert yaml.safe_load((tmp_path / "real" / "new.yaml").read_text()) == OPTIONS


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_permissions_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    path.chmod(mode)
    write_loader_config(path, OPTIONS)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_file_that_is_read_only_is_refused_before_the_work(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    path.chmod(0o444)
    for use in (lambda: check_loader_config(path), lambda: write_loader_config(path, OPTIONS)):
        with pytest.raises(UsageError, match="it is read-only"):
            use()
    assert path.read_text() == CONFIG


@pytest.mark.parametrize("text", [CONFIG, "# nothing yet\n", "num_buckets: 30\nbatch_size: 1"])
def test_line_ends_stay(tmp_path: Path, text: str) -> None:
    plain, windows = tmp_path / "plain.yaml", tmp_path / "windows.yaml"
    plain.write_bytes(text.encode())
    windows.write_bytes(text.replace("\n", "\r\n").encode())
    for path in (plain, windows):
        write_loader_config(path, OPTIONS)
    assert windows.read_bytes() == plain.read_bytes().replace(b"\n", b"\r\n")
    assert b"\r" not in plain.read_bytes()


def test_lines_of_both_kinds_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"a: 1\r\nb: 2\nnum_buckets: 30\r\nc: 3\n")
    write_loader_config(path, OPTIONS)
    assert path.read_bytes().startswith(b"a: 1\r\nb: 2\nnum_buckets: 2\r\nc: 3\n")


def test_aliases_without_an_end(tmp_path: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    path = tmp_path / "config.yaml"
    path.write_text(f"{CONFIG}a0: &a0 [1]\n{levels}")
    with pytest.raises(UsageError, match="repeat more than"):
        check_loader_config(path)
