import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli.errors import UsageError
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.durations import read_input
from prepcli.manifest.input_files import files_of
from prepcli.manifest.inputs import notes_on_input, resolve_input
from prepcli.manifest.loader_keys import LoaderKeys
from tests.support.running import prepcli


def write(path: Path, *durations: float, more: bytes = b"") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"audio_filepath": "a.wav", "duration": d}).encode() for d in durations]
    path.write_bytes(b"".join(line + b"\n" for line in lines) + more)
    return str(path)


def write_cuts(path: Path, *durations: float) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = {"id": "c", "start": 0, "channel": 0, "supervisions": [{"duration": 99}], "type": "MonoCut"}
    text = "".join(json.dumps(cut | {"duration": d, "recording": {"duration": 99}}) + "\n" for d in durations)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def seconds(spec: str, **options: float) -> list[float]:
    return sorted(read_input(resolve_input(spec), **options).seconds.tolist())  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Manifests a.json (1, 2), b.json (3), m_0..m_2.json (10, 11, 12) in the working directory."""
    write(tmp_path / "a.json", 1, 2)
    write(tmp_path / "b.json", 3)
    for number in range(3):
        write(tmp_path / f"m_{number}.json", 10 + number)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


def test_a_path_that_exists_is_a_path(files: Path) -> None:
    for name in ("manifest_filepath=x.json", "[a,b].json", "x=y.json", "[[z]]"):
        write(files / name, 7)
        assert seconds(name) == [7]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nothing.json", "manifest not found: nothing.json"),
        ("audio=a.json", "known are manifest_filepath, shar_path, cuts_path, input_cfg"),
        ("[[a.json,x]]", "[path, weight above 0]"),
        ("[[a.json,-1],[b.json,1]]", "[path, weight above 0]"),
        ("[[a.json,1e999],[b.json,1]]", "[path, weight above 0]"),
        ("[[a.json,1,2]]", "[path, weight above 0]"),
        ("[[nothing.json,1],[b.json,1]]", "not found: nothing.json"),
        ("cuts_path=a.json", "must be a .jsonl"),
        ("cuts_path=nothing.jsonl", "cuts_path not found"),
        ("shar_path=a.json", "is not a directory with cuts"),
        ("shar_path=.", "holds neither Shar"),
        ("input_cfg=nothing.yaml", "input_cfg not found"),
        (".", "holds neither Shar"),
    ],
)
def test_wrong_inputs(files: Path, spec: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_input(spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


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


@pytest.mark.parametrize("place", ["", "train_ds", "model.train_ds", "data.train_ds"])
def test_training_configs(files: Path, place: str) -> None:
    """The data of the section, which limits they have, and by name the keys that cannot be followed."""
    section: Any = {
        "manifest_filepath": "a__OP_0..1_CL_.json",
        "tarred_audio_filepaths": "a__OP_0..1_CL_.tar",
        "cuts_path": "???",
        "sample_rate": 16000,
        "max_duration": 20,
        "text_field": "answer",
        "lang_field": "${model.lang}",
        "perturb_speed": True,
        "max_tps": [20.0, 30.0],
        "truncate_duration": None,
        "min_duratoin": 1,
    }
    write(files / "a_0.json", 1)
    write(files / "a_1.json", 2)
    for name in reversed(place.split(".") if place else ()):
        section = {name: section, "optim": {}}
    (files / "train.yaml").write_text(json.dumps(section))
    data = resolve_input("train.yaml")
    assert isinstance(data, DataSet)
    assert (data.paths, data.notes.loader) == (("a_0.json", "a_1.json"), LoaderKeys("answer", max_duration=20))
    assert notes_on_input(data) == [
        "train.yaml has keys that are not used here: lang_field, perturb_speed, min_duratoin"
    ]
    assert list(files_of(data)) == ([] if place else ["train.yaml"]) + ["a_0.json", "a_1.json"]


def test_keys_of_an_included_file(files: Path) -> None:
    """NeMo reads limits from the training config alone."""
    (files / "inner.yaml").write_text(
        "{max_duration: 1.5, text_field: x, input_cfg: [{type: nemo, manifest_filepath: a.json}]}"
    )
    (files / "outer.yaml").write_text("{min_duration: 1, input_cfg: [{type: group, input_cfg: inner.yaml}]}")
    data = resolve_input("outer.yaml")
    assert isinstance(data, DataSet)
    assert (data.notes.loader.min_duration, data.notes.loader.max_duration, data.notes.text_field) == (1, None, "x")
    assert notes_on_input(data) == ["inner.yaml has keys that are not used here: max_duration"]


def test_mixed_cuts_end_with_their_last_track(tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl"
    tracks = [{"cut": {"duration": 4}}, {"offset": 3.5, "cut": {"duration": 1.25}}]
    lines = [{"type": "MixedCut", "tracks": tracks}, {"type": "PaddingCut", "duration": 2}, {"type": "MonoCut"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_input(resolve_input(str(path)))
    assert sorted(found.seconds) == [2, 4.75]
    assert found.first_rejected == f"{path}:3: the cut has no duration above 0"


def test_numbers_that_no_double_holds_do_not_hide_a_mixed_cuts_duration(tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl"
    path.write_text('{"type": "MixedCut", "tracks": [{"cut": {"duration": 4, "custom": {"score": 1e5000}}}]}\n')
    assert seconds(str(path)) == [4]


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


CFG = """
- type: group
  weight: 0.75
  tags: {task: asr}
  input_cfg:
    - {type: nemo_tarred, manifest_filepath: a.json, tarred_audio_filepaths: a.tar, weight: 0.5, tags: {lang: en}}
    - type: nemo_tarred
      manifest_filepath: m__OP_0..1_CL_.json
      tarred_audio_filepaths: audio__OP_0..1_CL_.tar
      weight: 0.5
- type: lhotse_shar
  shar_path: {cuts: "shar/cuts.{000000..000001}.jsonl.gz", recording: none.tar}
  weight: 0.25
"""


def test_input_cfg(files: Path) -> None:
    for number in range(2):
        write_cuts(files / "shar" / f"cuts.{number:06d}.jsonl.gz", 20 + number)
    write_cuts(files / "all.jsonl", 30)
    (files / "cfg.yaml").write_text(CFG)
    (files / "outer.yaml").write_text(
        "input_cfg:\n"
        "  - {type: group, input_cfg: cfg.yaml}\n"
        "  - {type: lhotse, cuts_path: all.jsonl}\n"
        "  - {type: lhotse_shar, shar_path: [shar, [shar, 2]]}\n"
        "  - {type: nemo, manifest_filepath: [[a.json], [b.json]]}\n"
    )
    assert seconds("cfg.yaml") == seconds("input_cfg=cfg.yaml") == [1, 2, 10, 11, 20, 21]
    assert seconds("outer.yaml") == [1, 1, 2, 2, 3, 10, 11, 20, 20, 20, 21, 21, 21, 30]
    found = resolve_input("cfg.yaml")
    assert isinstance(found, Mix)
    assert found.weights == (0.75, 0.25)
    assert isinstance(found.parts[0], Mix)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a list of entries"),
        ("[]", "must be a list of entries"),
        ("a: 1", "must be a list of entries (- type: ...), not a mapping with the keys a"),
        ("train_ds: {shuffle: true}", "is a training config whose train_ds names no data (input_cfg, "),
        ("model: {train_ds: {input_cfg: mix.yaml}}", "input_cfg not found: mix.yaml"),
        ("model: {train_ds: {input_cfg: cfg.yaml}}", "includes itself: cfg.yaml -> cfg.yaml"),
        ("{type: nemo, manifest_filepath: a.json}", "not a mapping with the keys type, manifest_filepath"),
        ("{manifest_filepath: a.json, max_duration: long}", "max_duration in cfg.yaml must be a number, not 'long'"),
        ("{manifest_filepath: a.json, prompt_format: 3}", "prompt_format in cfg.yaml must be text, not 3"),
        (
            "train_ds: {multi_config: true, sampler_weights: {a: 1}, a: {input_cfg: mix.yaml}, b: {input_cfg: []}}",
            "is a training config with a multi_config, of which each part has bins of its own: give what one of them "
            "reads: "
            "input_cfg=mix.yaml (a), the list of its input_cfg, in a file of its own (b)",
        ),
        ("- a.json", "has the type None"),
        ("- {type: txt, paths: x}", "has the type 'txt'; prepcli reads nemo,"),
        ("- {type: nemo}", "type nemo has no manifest_filepath"),
        ("- {type: lhotse_shar}", "no shar_path or cuts_path"),
        ("- {type: lhotse_shar, shar_path: {recording: x.tar}}", "must have the field `cuts`"),
        ("- {type: nemo, manifest_filepath: 3}", "must be a path or a list"),
        (
            "- {type: nemo, manifest_filepath: a.json, weight: 1}\n- {type: nemo, manifest_filepath: b.json}",
            "each needs one above 0; found None",
        ),
        (
            "- {type: nemo, manifest_filepath: a.json, weight: 0}\n"
            "- {type: nemo, manifest_filepath: b.json, weight: 1}",
            "each needs one above 0; found 0",
        ),
        (
            "- {type: nemo, manifest_filepath: a.json, weight: .inf}\n"
            "- {type: nemo, manifest_filepath: b.json, weight: 1}",
            "each needs one above 0; found inf",
        ),
        ("- {type: group, input_cfg: cfg.yaml}", "includes itself: cfg.yaml -> cfg.yaml"),
        ("- {type: [", "is not readable YAML"),
        (
            "- {type: nemo, manifest_filepath: a.json, weight: 1}\n"
            f"- {{type: nemo, manifest_filepath: b.json, weight: 1{'0' * 400}}}",
            "(401 characters)",
        ),
    ],
)
def test_wrong_input_cfgs(files: Path, text: str, words: str) -> None:
    (files / "cfg.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        resolve_input("cfg.yaml")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["estimate-bins", "inspect", "index", "blend"])
def test_aliases_that_repeat_without_an_end(files: Path, command: str) -> None:
    levels = "".join(
        f"- {{type: group, input_cfg: &g{n} [{', '.join([f'{{type: group, input_cfg: *g{n - 1}}}'] * 9)}]}}\n"
        for n in range(1, 12)
    )
    first = "- {type: group, input_cfg: &g0 [{type: nemo, manifest_filepath: a.json}]}\n"
    (files / "cfg.yaml").write_text(first + levels)
    words = ("a=cfg.yaml", "out.yaml") if command == "blend" else ("cfg.yaml",)
    done = prepcli(command, *words, cwd=files)
    assert (done.code, "aliases (*name) in it repeat more than" in done.error_line) == (2, True)


def test_the_first_unusable_line_is_named_with_its_place(files: Path) -> None:
    write(files / "b.json", 3, more=b'\n{"audio_filepath": "x"}\n{\n{"_skipme": 1}\n')
    found = read_input(resolve_input("[[a.json],[b.json]]"))
    assert (found.num_rejected, found.num_skipped) == (2, 1)
    assert found.first_rejected == "b.json:3: there is no duration"


def test_another_kind_of_file_is_refused(files: Path) -> None:
    (files / "x.json").write_text("text\n" * 5000)
    with pytest.raises(UsageError, match=r"does not look like a NeMo manifest.*\(line 1: broken JSON"):
        read_input(resolve_input("x.json"))


def test_durations_are_in_the_order_of_the_files(files: Path) -> None:
    assert read_input(DataSet(("b.json", "a.json")), num_workers=2).seconds.tolist() == [3, 1, 2]


def test_workers_change_nothing(tmp_path: Path) -> None:
    # Above the size from which workers are used.
    values = np.random.default_rng(0).uniform(0.1, 30, 150_000).round(3).tolist()
    path = write(tmp_path / "m.json", *values)
    with open(path, "ab") as file:  # noqa: PTH123
        file.write((b'{"audio_filepath": "%s", "duration": 1.0}\n' % (b"x" * 100)) * 40_000)
    assert Path(path).stat().st_size > 8 << 20
    alone = read_input(DataSet((path,))).seconds
    assert alone[:150_000].tolist() == values
    assert np.array_equal(read_input(DataSet((path, path)), num_workers=2).seconds, np.tile(alone, 2))
