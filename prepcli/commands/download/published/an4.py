"""AN4, CMU's alphanumeric ("census") database of 1991: SPHERE, 16 kHz, 948 + 130 utterances."""

import re
from collections.abc import Iterator
from pathlib import Path

from prepcli.commands.download.data_set import CorpusPart, Utterance, lines_of, speaker_name
from prepcli.commands.download.fetch import Archive
from prepcli.errors import RejectReason

# NVIDIA's copy, which NeMo's tutorials use. The original at CMU is served by plain HTTP only, and neither has a
# checksum, so a download from CMU cannot be verified. Users who want it can pass its address as `--base-url`.
URLS = ("https://dldata-public.s3.us-east-2.amazonaws.com/an4_sphere.tar.gz",)
_PARTS = {"train": "an4_clstk", "test": "an4test_clstk"}
# `<s> ERASE C Q Q F SEVEN </s> (an253-fash-b)`; lines of the test part have no <s> and </s>.
_LINE = re.compile(r"^(.*?)\(([^()\s]+)\)$")
_MARKS = re.compile(r"</?s>", re.IGNORECASE)


def data_set() -> CorpusPart:
    """The whole corpus: train and test."""
    return CorpusPart(
        corpus="an4",
        name="an4",
        archive=Archive("an4_sphere.tar.gz", URLS),
        trees=("an4",),
        manifests=tuple(_manifest(part) for part in _PARTS),
        read=_read,
        recordings=tuple(f"an4/wav/{folder}/**/*.sph" for folder in _PARTS.values()),
        converted=tuple(f"an4/wav/{folder}/**/*.wav" for folder in _PARTS.values()),
    )


def _manifest(part: str) -> str:
    return f"an4/{part}_manifest.json"


def _read(root: Path) -> Iterator[Utterance]:
    """Yield the utterances of `an4/etc/an4_train.transcription` and `an4_test.transcription`.

    The recording of an id such as `an253-fash-b` is `an4/wav/an4_clstk/fash/an253-fash-b.sph`.
    """
    for part, folder in _PARTS.items():
        transcript = f"an4/etc/an4_{part}.transcription"
        for number, line in lines_of(root / transcript):
            found = _LINE.match(line)
            if found is None:
                yield Utterance(
                    _manifest(part),
                    "",
                    {"text": line},
                    f"{transcript}:{number}",
                    reason=RejectReason.MISSING_FIELD,
                    detail="the line does not end with a file id in brackets",
                )
                continue
            id = found[2]
            speaker = id[id.find("-") + 1 : id.rfind("-")]
            audio = f"an4/wav/{folder}/{speaker}/{id}"
            text = " ".join(_MARKS.sub(" ", found[1]).lower().split())
            yield Utterance(
                _manifest(part),
                f"{audio}.sph",
                {"text": text, "speaker": speaker_name("en", "AN4", speaker)},
                f"{transcript}:{number}",
                target=f"{audio}.wav",
            )
