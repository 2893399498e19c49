"""The same examples as NeMo's own reader takes from the same inputs."""

import gzip
import json
import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from prepcli.manifest.durations import read_input
from prepcli.manifest.inputs import resolve_input
from tests.manifest.conftest import write
from tests.manifest.test_datasets import write_cuts
from tests.manifest.test_input_cfg import CFG

pytestmark = pytest.mark.nemo


def nemo_cuts(spec: str) -> Any:
    """As scripts/speech_recognition/estimate_duration_bins.py opens its input."""
    pytest.importorskip("nemo.collections.common.data.lhotse.cutset")
    from nemo.collections.common.data.lhotse.cutset import read_cutset_from_config
    from nemo.collections.common.data.lhotse.dataloader import LhotseDataLoadingConfig
    from omegaconf import OmegaConf

    if "=" not in spec:
        key = "input_cfg" if spec.endswith(".yaml") else "shar_path" if Path(spec).is_dir() else "manifest_filepath"
        spec = f"{key}={spec}"
    more = ["metadata_only=true"]
    if spec.startswith("manifest_filepath=[["):
        # NeMo 3.0 takes weights for tarred data alone; of the tars it reads nothing here, but there must be as many.
        tars = ",".join(["[x.tar]"] * spec.count(".json"))
        more.append(f"tarred_audio_filepaths=[{tars}]")
    schema = OmegaConf.structured(LhotseDataLoadingConfig)
    return read_cutset_from_config(OmegaConf.merge(schema, OmegaConf.from_dotlist([spec, *more])))[0]


@pytest.mark.parametrize(
    "spec",
    [
        "a.json",
        "m__OP_0..2_CL_.json",
        "[[a.json,0.7],[b.json,0.3]]",
        "[[a.json],[b.json]]",
        "[[m__OP_0..2_CL_.json,0.7],[b.json,0.3]]",
        "manifest_filepath=m_(0..1).json",
        "shar",
        "cuts_path=all.jsonl",
        "cfg.yaml",
    ],
)
def test_the_same_durations(files: Path, spec: str) -> None:
    for number in range(2):
        write_cuts(files / "shar" / f"cuts.{number:06d}.jsonl.gz", 20 + number)
        real_cuts(files / "shar" / f"cuts.{number:06d}.jsonl.gz")
    write_cuts(files / "all.jsonl", 30, 31.5)
    real_cuts(files / "all.jsonl")
    write(files / "a.json", 1, 2.5, more=b'{"audio_filepath": "x", "duration": 9, "_skipme": true}\n')
    (files / "cfg.yaml").write_text(CFG.replace("{000000..000001}", "_OP_000000..000001_CL_"))
    ours = sorted(read_input(resolve_input(spec)).seconds)
    assert ours == sorted(cut.duration for cut in nemo_cuts(spec))
    assert len(ours) > 1


def real_cuts(path: Path) -> None:
    """Make the lines of `write_cuts` complete enough for lhotse."""
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    lines = []
    for number, line in enumerate(text.splitlines()):
        cut = json.loads(line)
        rate = 1000
        recording = {"id": f"r{number}", "sampling_rate": rate, "channel_ids": [0]}
        recording |= {"num_samples": 99 * rate, "duration": 99.0}
        recording["sources"] = [{"type": "file", "channels": [0], "source": "x.wav"}]
        lines.append(json.dumps(cut | {"id": f"c{number}", "supervisions": [], "recording": recording}) + "\n")
    data = "".join(lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize(
    "spec",
    ["[[a.json,0.7],[b.json,0.3]]", "[[a.json],[b.json]]", "nested.yaml", "unweighted.yaml"],
)
def test_shares_of_the_first_examples_are_those_nemo_draws_on_average(files: Path, spec: str) -> None:
    rng = random.Random(0)
    for name, first, count in (("a", 0, 900), ("b", 100, 300), ("c", 200, 80)):
        write(files / f"{name}.json", *(first + round(rng.uniform(1, 50), 2) for _ in range(count)))
    a, b, c = (f"{{type: nemo, manifest_filepath: {name}.json" for name in "abc")
    (files / "nested.yaml").write_text(
        f"- {{type: group, weight: 0.6, input_cfg: [{a}, weight: 0.2}}, {b}, weight: 0.8}}]}}\n- {c}, weight: 0.4}}\n"
    )
    (files / "unweighted.yaml").write_text(f"- {a}}}\n- {b}}}\n- {c}}}\n")
    wanted, rounds = 400, 40
    drawn: Counter[int] = Counter()
    for _ in range(rounds):  # NeMo's default seed is a new one each time
        drawn.update(int(cut.duration // 100) for cut in islice(nemo_cuts(spec), wanted))
    ours = Counter(int(second // 100) for second in read_input(resolve_input(spec), num_examples=wanted).seconds)
    assert sum(ours.values()) == wanted
    for number in range(3):
        # Four standard errors of the mean of a share, at its widest.
        assert ours[number] == pytest.approx(drawn[number] / rounds, abs=4 * (wanted / 4 / rounds) ** 0.5)
