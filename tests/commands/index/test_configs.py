"""Indexes of the sets that an input_cfg names."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from prepcli.formats.indexes import make_index, mirrored
from tests.commands.index.conftest import PLAIN
from tests.commands.index.test_command import index, indexes_in
from tests.conftest import copy_set


def test_configs(sets: Path, tmp_path: Path) -> None:
    tarred, shar = copy_set(sets / "bare", tmp_path), copy_set(sets / "shar", tmp_path)
    entries: list[dict[str, Any]] = [
        {
            "type": "group",
            "input_cfg": [
                {
                    "type": "nemo_tarred",
                    "manifest_filepath": f"{tarred}/sharded_manifests/manifest__OP_0..2_CL_.json",
                    "tarred_audio_filepaths": f"{tarred}/audio__OP_0..2_CL_.tar",
                    "weight": 0.5,
                },
                {"type": "nemo", "manifest_filepath": str(PLAIN), "weight": 0.5},
            ],
        }
    ]
    config = tmp_path / "input_cfg.yaml"
    config.write_text(yaml.safe_dump(entries))
    root = tmp_path / "all indexes"
    done = index(config, "--indexes-root", root, "--json").json
    assert (done["written"], len(done["sets"])) == (7, 2)
    assert (root / mirrored(PLAIN)).read_bytes() == make_index(PLAIN, "jsonl")
    assert indexes_in(tarred) == {}
    fields = {"cuts": f"{shar}/cuts/cuts._OP_000000..000002_CL_.jsonl"}
    fields |= {name: f"{shar}/{name}/recording.{{000000..000002}}.tar" for name in ("target_audio", "context_audio")}
    for shar_path in (fields, str(shar)):
        config.write_text(yaml.safe_dump([{"type": "lhotse_shar", "shar_path": shar_path}]))
        shutil.rmtree(shar / "index", ignore_errors=True)
        assert index(config, "--json").json["written"] == 9
        assert index(shar, "--check").code == 0
    config.write_text(yaml.safe_dump([*entries, {"type": "lhotse_shar", "shar_path": fields}]))
    refused = index(config)
    assert (refused.code, "give --indexes-root DIR for the indexes of all of them" in refused.error_line) == (2, True)
    assert index(config, "--indexes-root", root, "--json").json["written"] == 9
