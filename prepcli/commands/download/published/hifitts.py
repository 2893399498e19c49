"""Hi-Fi TTS (openslr.org/109): audio books of ten English readers, FLAC at 44.1 kHz."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import CorpusPart, Utterance, lines_of, of_openslr, speaker_name
from prepcli.errors import RejectReason

_TREE = "hi_fi_tts_v0"
_QUALITIES, _PARTS = ("clean", "other"), ("train", "dev", "test")
_MANIFEST = re.compile(r"(\d+)_manifest_(clean|other)_(train|dev|test)\.json")


@corpus("hifitts")
def download_hifitts(data_root: DataRoot, **more: Unpack[FetchArguments]) -> CorpusPart:
    """Fetch Hi-Fi TTS and make NeMo manifests of it.

    Writes D/hi_fi_tts_v0/audio/{clean,other}_{train,dev,test}.json with audio_filepath, duration, text, speaker (reader
    and quality, such as 9136_other), normalized_text and the other published fields. The recordings (44.1 kHz FLAC)
    stay unchanged. Paths are relative to the manifest, as the group_by preset hifitts of extend-context-audio needs
    them; of a copy, give the folder to both --data-root and --extracted. Each reader is in all three parts.

    The publisher gives no checksum: length, CRC and the end of the tar are checked; --checksums adds your own.

    Run the same command again to continue.

    Example: prepcli download hifitts --data-root data/

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_hifitts("data")
        >>> report.outputs["clean_train"]
        '/.../data/hi_fi_tts_v0/audio/clean_train.json'
    """
    return CorpusPart(
        corpus="hifitts",
        name="hifitts",
        archive=of_openslr(109, "hi_fi_tts_v0.tar.gz"),
        trees=(_TREE,),
        manifests=tuple(_manifest(quality, part) for quality in _QUALITIES for part in _PARTS),
        read=_read,
        recordings=(f"{_TREE}/audio/**/*.flac",),
    )


def _manifest(quality: str, part: str) -> str:
    return f"{_TREE}/audio/{quality}_{part}.json"  # paths from this folder fit the preset of --group-by


def _read(root: Path) -> Iterator[Utterance]:
    """Yield the utterances of the published manifests, such as `9136_manifest_other_train.json` of reader 9136.

    Paths in these manifests begin with `audio/`.
    """
    published = {found[0]: found for path in (root / _TREE).glob("*.json") if (found := _MANIFEST.fullmatch(path.name))}
    if not published:
        raise FileNotFoundError(2, "No such file or directory", str(root / _TREE / "92_manifest_clean_train.json"))
    for quality in _QUALITIES:
        for part in _PARTS:
            for name in sorted(published):
                reader = published[name][1]
                if published[name].groups()[1:] != (quality, part):
                    continue
                for where, line in lines_of(root, f"{_TREE}/{name}"):
                    yield _utterance(line, reader, quality, part, where)


def _utterance(line: str, reader: str, quality: str, part: str, where: str) -> Utterance:
    import msgspec

    manifest = _manifest(quality, part)
    try:
        published = msgspec.json.decode(line, type=dict[str, Any])
        path, normalized = str(published.pop("audio_filepath")), published.pop("text_normalized")
    except (msgspec.DecodeError, KeyError) as error:
        detail = f"the line is not a record with audio_filepath and text_normalized: {error}"
        return Utterance(manifest, "", {"text": line}, where, reason=RejectReason.MISSING_FIELD, detail=detail)
    seconds = published.pop("duration", None)
    speaker = speaker_name("en", "HiFiTTS", f"{reader}_{quality}")
    fields = {**published, "normalized_text": normalized, "speaker": speaker}
    duration = seconds if isinstance(seconds, float) else None
    return Utterance(manifest, f"{_TREE}/{path}", fields, where, duration, id=os.path.normpath(path))
