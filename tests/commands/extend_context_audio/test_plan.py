"""Bundles of whole voices, and the merge of their parts, in bounded memory."""

import json
from pathlib import Path

import numpy as np
import pytest

from prepcli.commands.extend_context_audio import plan as context_plan
from prepcli.commands.extend_context_audio.plan import plan_bundles
from prepcli.formats.names import normal_path
from prepcli.manifest.index import ManifestIndex, index_manifests
from prepcli.manifest.parts import FieldKey


def make_index(folder: Path, speakers: list[str], durations: list[float] | None = None) -> ManifestIndex:
    lines = [
        {"audio_filepath": f"{n}.wav", "duration": durations[n] if durations else 2.0, "speaker": speaker}
        for n, speaker in enumerate(speakers)
    ]
    path = folder / "m.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return index_manifests([str(path)], keys={"path": normal_path, "group": FieldKey("speaker", str)})


def test_groups_stay_whole_and_lonely_records_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    speakers = [f"s{min(int(rng.exponential(40)), 200)}" for _ in range(3000)] + ["only"]
    index = make_index(tmp_path, speakers, [*rng.uniform(0.5, 20, 3000).tolist(), 3.0])
    plan = plan_bundles(index, None)
    seen: dict[str, int] = {}
    for number, (lo, hi) in enumerate(zip(plan.bounds[:-1], plan.bounds[1:], strict=True)):
        records = plan.order[lo:hi].tolist()
        assert records == sorted(records)
        assert records
        for record in records:
            assert seen.setdefault(speakers[record], number) == number
    counts = {speaker: speakers.count(speaker) for speaker in set(speakers)}
    assert sorted(plan.alone.tolist()) == [n for n, speaker in enumerate(speakers) if counts[speaker] == 1]
    assert sorted([*plan.order.tolist(), *plan.alone.tolist()]) == list(range(3001))
    assert plan.num_groups == sum(count > 1 for count in counts.values())
    assert len(plan.bounds) - 1 == pytest.approx(context_plan.NUM_BUNDLES, abs=2)
    of_speaker: dict[str, float] = {}
    for speaker, duration in zip(speakers, index.duration.tolist(), strict=True):
        of_speaker[speaker] = of_speaker.get(speaker, 0.0) + duration
    assert plan.largest_group == pytest.approx(max(of_speaker.values()))


def test_bundles_of_a_large_corpus_have_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_plan, "BUNDLE_SECONDS", 40.0)
    plan = plan_bundles(make_index(tmp_path, [f"s{n // 5}" for n in range(1000)]), None)
    assert np.diff(plan.bounds).tolist() == [20] * 50


def test_one_voice_and_no_pair(tmp_path: Path) -> None:
    plan = plan_bundles(make_index(tmp_path, ["a"] * 3), None)
    assert plan.bounds.tolist() == [0, 3]
    plan = plan_bundles(make_index(tmp_path, ["a", "b", "c"]), None)
    assert plan.bounds.tolist() == [0]
    assert plan.alone.tolist() == [0, 1, 2]
