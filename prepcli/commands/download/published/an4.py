"""AN4, CMU's alphanumeric ("census") database of 1991: SPHERE, 16 kHz, 948 + 130 utterances."""

import re
from collections.abc import Iterator
from pathlib import Path

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import Archive, CorpusPart, Utterance, lines_of, speaker_name
from prepcli.errors import RejectReason

# NVIDIA's copy, which NeMo's tutorials use. The original at CMU is served by plain HTTP only, and neither has a
# checksum, so a download from CMU cannot be verified. Users who want it can pass its address as `--base-url`.
URLS = ("https://dldata-public.s3.us-east-2.amazonaws.com/an4_sphere.tar.gz",)
_PARTS = {"train": "an4_clstk", "test": "an4test_clstk"}
# `<s> ERASE C Q Q F SEVEN </s> (an253-fash-b)`; lines of the test part have no <s> and </s>.
_LINE = re.compile(r"^(.*?)\(([^()\s]+)\)$")
_MARKS = re.compile(r"</?s>", re.IGNORECASE)


@corpus("an4")
def download_an4(data_root: DataRoot, **more: Unpack[FetchArguments]) -> CorpusPart:
    """Fetch AN4 (CMU's census database) and make NeMo manifests of it.

    Writes D/an4/train_manifest.json, D/an4/test_manifest.json and a .wav next to each .sph. There is no published
    checksum of the archive: its length, its CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download an4 --data-root data/

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_an4("data")
        >>> report.outputs["train_manifest"]
        '/.../data/an4/train_manifest.json'
    """
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
        manifest = _manifest(part)
        for where, line in lines_of(root, f"an4/etc/an4_{part}.transcription"):
            found = _LINE.match(line)
            if found is None:
                reason, detail = RejectReason.MISSING_FIELD, "the line does not end with a file id in brackets"
                yield Utterance(manifest, "", {"text": line}, where, reason=reason, detail=detail)
                continue
            id = found[2]
            speaker = id[id.find("-") + 1 : id.rfind("-")]
            audio = f"an4/wav/{folder}/{speaker}/{id}"
            text = " ".join(_MARKS.sub(" ", found[1]).lower().split())
            fields = {"text": text, "speaker": speaker_name("en", "AN4", speaker)}
            yield Utterance(manifest, f"{audio}.sph", fields, where, target=f"{audio}.wav")
