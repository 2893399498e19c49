"""Manifests with odd lines for a job with a model, whose process is larger than those of the other fuzz tests."""

from pathlib import Path

import pytest
from hypothesis import example, given

from tests.fuzz.calls import check_call, check_report, json_lines, scratch
from tests.fuzz.examples import examples
from tests.fuzz.test_manifests import A_YEAR, HUGE_DURATION, HUGE_OFFSET, PLAIN
from tests.fuzz.test_manifests import audio as audio  # a fixture
from tests.support.toy_voice import use_toy_voice


@pytest.mark.torch
@examples(25)
@given(PLAIN)
@example(HUGE_OFFSET)
@example(HUGE_DURATION)
@example(A_YEAR)
def test_context_audio(audio: Path, data: bytes) -> None:
    with scratch() as folder, pytest.MonkeyPatch.context() as patch:
        use_toy_voice(patch.setattr)
        (folder / "m.json").write_bytes(data)
        out = folder / "out"
        arguments = ["--audio-base-dir", audio, "--num-workers", 1, "--speaker-model", "toy"]
        arguments += ["--context-min-duration", 0.1, "--context-min-ssim", -1, "--devices", "cpu"]
        done = check_call(folder, out, "extend-context-audio", folder / "m.json", out, *arguments)
        if done.code != 2:
            report = check_report(folder / "out.prepcli", [data])
            (manifest,) = out.glob("*.json")
            assert len(json_lines(manifest)) == report["records_out"]
