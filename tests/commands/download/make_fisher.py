"""A small tree in the form of the LDC's Fisher English, with tones in the place of speech.

    python -m tests.commands.download.make_fisher FOLDER [CONVERSATIONS]

Each utterance is a tone of its own on its speaker's channel, and everything else is silence: so a slice tells where
its samples come from.
"""

import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.support.sphere_files import Samples, ulaw, ulaw_sphere, ulaw_values

RATE = 8000
FIRST_OF_PART_2 = 5851
WORDS = ("well", "yeah", "i think so", "you know", "my dog", "likes the park", "uh-huh", "that's great", "do you live")
TABLE = (
    "CALL_ID,DATE_TIME,TOPICID,SIG_GRADE,CNV_GRADE,APIN,ASX.DL,APHNUM,APHSET,APHTYP,BPIN,BSX.DL,BPHNUM,BPHSET,BPHTYP"
)


@dataclass(frozen=True)
class Said:
    """An utterance: when, on which channel (A or B), the tone in Hz, the text as transcribed."""

    start: float
    end: float
    channel: str
    hertz: float
    text: str

    @property
    def line(self) -> str:
        return f"{self.start:.2f} {self.end:.2f} {self.channel}: {self.text}"

    @property
    def span(self) -> slice:
        """Its samples."""
        return slice(round(self.start * RATE), round(self.end * RATE))


def tones(utterances: Iterable[Said], seconds: float) -> Samples:
    """Two channels of silence and tones, as they come back out of mu-law."""
    samples = np.zeros((round(seconds * RATE), 2), np.int16)
    for said in utterances:
        length = samples[said.span].shape[0]
        wave = 8000 * np.sin(2 * np.pi * said.hertz * (np.arange(length) + 0.5) / RATE)
        samples[said.span, "AB".index(said.channel)] = wave.astype(np.int16)
    return ulaw_values()[ulaw(samples)]


def folders(root: Path, number: int) -> tuple[Path, Path, Path]:
    """Where the LDC puts the recording, the transcript and the tables of a conversation."""
    part, corpus = (2, "LDC2005S13-Part2") if number >= FIRST_OF_PART_2 else (1, "LDC2004S13-Part1")
    group = f"{number // 100:03d}"
    transcripts = root / corpus / f"fe_03_p{part}_tran"
    audio = root / corpus / f"fisher_eng_tr_sp_d{part}" / "audio" / group
    return audio, transcripts / "data/trans" / group, transcripts / "doc"


def write_conversation(root: Path, number: int, lines: Sequence[Said | str], seconds: float) -> Samples:
    """Write recording and transcript; `lines` are utterances, or other lines. Returns the samples."""
    name = f"fe_03_{number:05d}"
    audio, transcripts, _ = folders(root, number)
    audio.mkdir(parents=True, exist_ok=True)
    transcripts.mkdir(parents=True, exist_ok=True)
    samples = tones((line for line in lines if isinstance(line, Said)), seconds)
    (audio / f"{name}.sph").write_bytes(ulaw_sphere(samples))
    text = [f"# {name}.sph", "# Transcribed at the LDC", ""]
    for line in lines:
        text += [line.line if isinstance(line, Said) else line, ""]
    (transcripts / f"{name}.txt").write_text("\n".join(text), encoding="utf-8")
    return samples


def write_table(root: Path, numbers: Sequence[int]) -> None:
    """Write the call data: conversation n is between the speakers 2n and 2n + 1."""
    rows: dict[Path, list[str]] = {}
    for number in numbers:
        doc = folders(root, number)[2]
        row = f"{number:05d},20030304_14:45:02,ENG10,2,2,{2 * number},f.a,X1,1,2,{2 * number + 1},m.a,X2,1,2"
        rows.setdefault(doc / f"{doc.parent.name[:8]}_calldata.tbl", [TABLE]).append(row)
    for path, table in rows.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(table) + "\n", encoding="utf-8")


def chat(number: int, seconds: float) -> list[Said]:
    """A conversation of two who take turns and now and then speak at once; the same for the same number."""
    draw = random.Random(number)
    lines: list[Said] = []
    now = 0.5
    while now + 5 < seconds:
        channel = "AB"[(number + len(lines)) % 2]
        length = draw.randrange(80, 400) / 100
        text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 7))) + draw.choice(["", "", " [laughter]", " [noise]"])
        lines.append(Said(round(now, 2), round(now + length, 2), channel, draw.randrange(200, 3000), text))
        now += max(0.3, length + draw.randrange(-30, 60) / 100)
    return lines


def make_fisher(root: Path, conversations: int = 20, seconds: float = 60.0) -> None:
    """Write a tree of both parts with that many conversations."""
    first = conversations - conversations // 2
    numbers = [*range(1, first + 1), *range(FIRST_OF_PART_2, FIRST_OF_PART_2 + conversations // 2)]
    for number in numbers:
        write_conversation(root, number, chat(number, seconds), seconds)
    write_table(root, numbers)


if __name__ == "__main__":
    make_fisher(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
