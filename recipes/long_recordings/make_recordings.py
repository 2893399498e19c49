"""Makes three long recordings of the small corpus in this repository, each with its subtitles.

Usage: make_recordings.py FOLDER

Each recording has the sentences of two or three speakers, with a pause after each sentence and a longer one before
another speaker. Each cue of its SRT has a sentence, from its first sound to its last.
"""

import json
import sys
from pathlib import Path

import numpy as np
import soundfile

CORPUS = Path(__file__).parents[2] / "tests/data/mini_corpus"
RECORDINGS = {"lecture": ("s01", "s02", "s03"), "interview": ("s04", "s05"), "podcast": ("s06", "s07", "s08")}
PAUSES = (0.3, 0.5, 0.9, 0.3, 0.6, 2.0)
"""Seconds of silence after each of the six sentences of a speaker."""
MARGIN = 0.05
"""Seconds of silence at both ends of each sentence of the corpus."""


def main(folder: Path) -> None:
    """Write all recordings and subtitles into `folder`."""
    folder.mkdir(parents=True)
    lines = [json.loads(line) for line in (CORPUS / "manifest.json").read_text(encoding="utf-8").splitlines()]
    for name, speakers in RECORDINGS.items():
        parts, cues, at = list[np.ndarray](), list[str](), 0
        for line in (line for speaker in speakers for line in lines if line["audio_filepath"].startswith(speaker)):
            samples, rate = soundfile.read(CORPUS / line["audio_filepath"], dtype="int16")
            silence = np.zeros(round(PAUSES[len(cues) % len(PAUSES)] * rate), np.int16)
            start, end = at / rate + MARGIN, (at + len(samples)) / rate - MARGIN
            cues.append(f"{len(cues) + 1}\n{_time(start)} --> {_time(end)}\n{line['text']}\n")
            parts += [samples, silence]
            at += len(samples) + len(silence)
        soundfile.write(folder / f"{name}.flac", np.concatenate(parts), rate, subtype="PCM_16")
        (folder / f"{name}.srt").write_text("\n".join(cues), encoding="utf-8")


def _time(seconds: float) -> str:
    """The time in an SRT, such as 00:01:02,500."""
    milliseconds = round(1000 * seconds)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d},{rest % 1000:03d}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
