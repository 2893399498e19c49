"""NeMo's input_cfg: weights, groups, and what is wrong."""

from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.manifest.datasets import Mix
from prepcli.manifest.inputs import resolve_input
from prepcli.manifest.mixing import leaves_of
from tests.manifest.test_datasets import write_cuts
from tests.manifest.test_inputs import seconds
from tests.support.running import prepcli

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
            "cfg.yaml has a multi_config, and each of its parts has bins of its own: give cfg.yaml:a or cfg.yaml:b as "
            "the input",
        ),
        (
            "- {type: nemo, manifest_filepath: a.json, audio_locator_tag: [audio]}",
            "audio_locator_tag in cfg.yaml must be text, not ['audio']: YAML takes [audio] for a list; "
            'write "[audio]", with quotes',
        ),
        ("{manifest_filepath: a.json, audio_locator_tag: [a]}", 'write "[a]", with quotes'),
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


PARTS = """\
model:
  train_ds:
    multi_config: true
    near: {manifest_filepath: a.json, max_duration: 9}
    far: {input_cfg: [{type: nemo, manifest_filepath: b.json}]}
    none: {shuffle: true}
"""


def test_a_part_of_a_multi_config(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("cfg.yaml").write_text(PARTS)
    assert seconds("cfg.yaml:near") == seconds("a.json")
    assert seconds("cfg.yaml:far") == seconds("input_cfg=cfg.yaml:far") == seconds("b.json")
    (leaf,) = leaves_of(resolve_input("cfg.yaml:near"))
    assert (leaf.settings.loader.max_duration, leaf.settings.training_config) == (9, "cfg.yaml")
    Path("list.yaml").write_text("- {type: nemo, manifest_filepath: a.json}\n")
    for spec, words in [
        (
            "cfg.yaml:other",
            "cfg.yaml has no part other: give cfg.yaml:near or cfg.yaml:far or cfg.yaml:none as the input",
        ),
        ("cfg.yaml:none", "cfg.yaml is a training config whose none of its multi_config names no data"),
        ("list.yaml:near", "list.yaml has no multi_config with a part near: it is a list of entries"),
    ]:
        with pytest.raises(UsageError) as raised:
            resolve_input(spec)
        assert words in str(raised.value)
