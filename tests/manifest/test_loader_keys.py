"""The section of a training config that a loader reads."""

import json
from pathlib import Path
from typing import Any

import pytest

from prepcli.manifest.datasets import DataSet
from prepcli.manifest.inputs import files_of, notes_on_input, resolve_input
from prepcli.manifest.loader_keys import LoaderKeys
from tests.manifest.conftest import write


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
    assert (data.paths, data.settings.loader) == (("a_0.json", "a_1.json"), LoaderKeys("answer", max_duration=20))
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
    assert (data.settings.loader.min_duration, data.settings.loader.max_duration, data.settings.text_field) == (
        1,
        None,
        "x",
    )
    assert notes_on_input(data) == ["inner.yaml has keys that are not used here: max_duration"]
