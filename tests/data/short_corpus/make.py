"""Make the short corpus from the mini corpus: `python tests/data/short_corpus/make.py`."""

import json
from pathlib import Path
from typing import Any

import soundfile

SHORT = Path(__file__).parent
MINI = SHORT.with_name("mini_corpus")
STEP = 441
"""Samples of 0.02 s: lengths are multiples of it, so durations are exact to the sample."""


def main() -> None:
    seconds: dict[str, float] = {}
    records = _read("manifest.json")
    for record in records:
        path = record["audio_filepath"]
        samples, rate = soundfile.read(MINI / path, dtype="int16")
        num_samples = len(samples) // 10 // STEP * STEP
        (SHORT / path).parent.mkdir(exist_ok=True)
        soundfile.write(SHORT / path, samples[:num_samples], rate)
        record["duration"] = seconds[path] = num_samples / rate
    _write("manifest.json", records)
    records = _read("manifest_with_context.json")
    for record in records:
        record["duration"] = seconds[record["audio_filepath"]]
        record["context_audio_duration"] = seconds[record["context_audio_filepath"]]
    _write("manifest_with_context.json", records)


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (MINI / name).read_text(encoding="utf-8").splitlines()]


def _write(name: str, records: list[dict[str, Any]]) -> None:
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    (SHORT / name).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
