"""LibriSpeech (openslr.org/12) and Mini LibriSpeech (openslr.org/31): read English audio books, FLAC at 16 kHz."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import CorpusPart, Utterance, choose, lines_of, of_openslr, speaker_name
from prepcli.interface.options import Option

# Name of the archive without .tar.gz -> OpenSLR's resource, bytes, checksum.
# Bytes: the archives' sizes in Kaldi's egs/librispeech and egs/mini_librispeech, local/download_and_untar.sh.
# SHA-256 of 12: torchaudio/datasets/librispeech.py. MD5 of 31: openslr.org/resources/31/md5sum.txt.
_ARCHIVES = {
    "dev-clean": (12, 337926286, "sha256:76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3"),
    "dev-other": (12, 314305928, "sha256:12661c48e8c3fe1de2c1caa4c3e135193bfb1811584f11f569dd12645aa84365"),
    "test-clean": (12, 346663984, "sha256:39fde525e59672dc6d1551919b1478f724438a95aa55f874b576be21967e6c23"),
    "test-other": (12, 328757843, "sha256:d09c181bba5cf717b3dee7d4d592af11a3ee3a09e08ae025c5506f6ebe961c29"),
    "train-clean-100": (12, 6387309499, "sha256:d4ddd1d5a6ab303066f14971d768ee43278a5f2a0aa43dc716b0e64ecbbbf6e2"),
    "train-clean-360": (12, 23049477885, "sha256:146a56496217e96c14334a160df97fffedd6e0a04e66b9c5af0d40be3c792ecf"),
    "train-other-500": (12, 30593501606, "sha256:ddb22f27f96ec163645d53215559df6aa36515f26e01dd70798188350adcb6d2"),
    "dev-clean-2": (31, 126046265, "md5:6d7ab67ac6a1d2c993d050e16d61080d"),
    "train-clean-5": (31, 332954390, "md5:5df7d4e78065366204ca6845bb08f490"),
}
_NAMES = tuple(name.replace("-", "_") for name in _ARCHIVES)
_GROUPS = {"ALL": _NAMES[:7], "mini": _NAMES[7:]}


@corpus("librispeech")
def download_librispeech(
    data_root: DataRoot,
    *,
    data_sets: Annotated[
        str,
        Option(
            "dev_clean, dev_other, test_clean, test_other, train_clean_100, train_clean_360, train_other_500, "
            "separated by commas; ALL of these; or mini (dev_clean_2 and train_clean_5)."
        ),
    ] = "dev_clean",
    audio_format: Annotated[
        Literal["wav", "flac"], Option("wav: convert the published FLAC; flac: use it unchanged.")
    ] = "wav",
    **more: Unpack[FetchArguments],
) -> list[CorpusPart]:
    """Fetch LibriSpeech or Mini LibriSpeech and make NeMo manifests of it.

    Writes D/LibriSpeech/<set>-processed/*.wav and D/<data_set>.json with audio_filepath, duration, lower-case text,
    speaker and chapter. Paths are relative to the manifest. The archives are checked with the published checksums.

    Run the same command again to continue, also in the middle of an archive; other data sets can be added later.

    Example: prepcli download librispeech --data-root data/ --data-sets dev_clean,train_clean_100

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_librispeech("data", data_sets="mini")
        >>> report.outputs["dev_clean_2"]
        '/.../data/dev_clean_2.json'
    """
    names = choose("LibriSpeech", data_sets, _NAMES, _GROUPS)
    return [_data_set(name, audio_format) for name in names]


def _data_set(name: str, audio_format: str) -> CorpusPart:
    folder = name.replace("_", "-")
    resource, num_bytes, checksum = _ARCHIVES[folder]
    manifest = f"{name}.json"
    processed = f"LibriSpeech/{folder}-processed"
    return CorpusPart(
        corpus="librispeech",
        name=name,
        archive=of_openslr(resource, f"{folder}.tar.gz", num_bytes, checksum),
        trees=(f"LibriSpeech/{folder}",),
        manifests=(manifest,),
        read=partial(
            _read,
            tree=f"LibriSpeech/{folder}",
            manifest=manifest,
            processed=processed if audio_format == "wav" else None,
        ),
        recordings=(f"LibriSpeech/{folder}/**/*.flac",),
        converted=(f"{processed}/*.wav",),
        settings={"data_set": name, "audio_format": audio_format},
    )


def _read(root: Path, tree: str, manifest: str, processed: str | None) -> Iterator[Utterance]:
    """Yield the utterances chapter by chapter.

    A transcript such as `<tree>/84/121123/84-121123.trans.txt` has lines `84-121123-0000 GO DO YOU HEAR`. `processed`
    is the folder of converted audio; None if the audio stays FLAC.
    """
    for transcript in sorted((root / tree).glob("*/*/*.trans.txt")):
        speaker, chapter = transcript.parts[-3:-1]
        folder = f"{tree}/{speaker}/{chapter}"
        for where, line in lines_of(root, f"{folder}/{transcript.name}"):
            id, text = (*line.split(maxsplit=1), "")[:2]
            target = f"{processed}/{id}.wav" if processed else None
            fields = {"text": text.lower(), "speaker": speaker_name("en", "LibriSpeech", speaker), "chapter": chapter}
            yield Utterance(manifest, f"{folder}/{id}.flac", fields, where, target=target)
