"""VCTK 0.92: newspaper sentences, read by 110 English speakers of many accents, from two microphones, FLAC, 48 kHz."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.commands.download.arguments import DataRoot, FetchArguments, corpus
from prepcli.commands.download.data_set import Archive, CorpusPart, Utterance, lines_of, speaker_name
from prepcli.errors import RejectReason
from prepcli.interface.options import Option

_TOP = "VCTK-Corpus-0.92"
_AUDIO = "wav48_silence_trimmed"


@corpus("vctk")
def download_vctk(
    data_root: DataRoot,
    *,
    mic: Annotated[Literal["mic1", "mic2", "both"], Option("The microphone; each has a manifest.")] = "mic2",
    **more: Unpack[FetchArguments],
) -> CorpusPart:
    """Fetch VCTK 0.92 and make NeMo manifests of it.

    Writes D/VCTK-Corpus-0.92/mic2.json (or mic1.json, or both), with audio_filepath, duration, text, speaker and, if
    they are published, age, gender, accent and region. The recordings (48 kHz FLAC) stay unchanged. All speakers read
    some of the same sentences: a split must keep both speakers and texts apart.

    Rejects are expected: speaker p315 has no texts, p280 no recordings of mic2, and p362 not all.

    Run the same command again to continue.

    Example: prepcli download vctk --data-root data/

    Examples:
        >>> import prepcli
        >>> report = prepcli.download_vctk("data")
        >>> report.outputs["mic2"]
        '/.../data/VCTK-Corpus-0.92/mic2.json'
    """
    mics = ("mic1", "mic2") if mic == "both" else (mic,)
    return CorpusPart(
        corpus="vctk",
        name="vctk",
        archive=Archive(
            "VCTK-Corpus-0.92.zip",
            ("https://datashare.ed.ac.uk/bitstream/handle/10283/3443/VCTK-Corpus-0.92.zip",),
            11747302977,
            # tensorflow/datasets, tensorflow_datasets/url_checksums/vctk.txt
            "sha256:f96258be9fdc2cbff6559541aae7ea4f59df3fcaf5cf963aae5ca647357e359c",
        ),
        top=_TOP,
        trees=(f"{_TOP}/{_AUDIO}", f"{_TOP}/txt"),
        manifests=tuple(f"{_TOP}/{one}.json" for one in mics),
        read=partial(_read, mics=mics),
        recordings=tuple(f"{_AUDIO}/**/*_{one}.flac" for one in mics),
        settings={"mic": mic},
    )


def _read(root: Path, mics: tuple[str, ...]) -> Iterator[Utterance]:
    """Yield the utterances of each microphone.

    The line of `txt/p225/p225_001.txt` is the text of `wav48_silence_trimmed/p225/p225_001_mic{1,2}.flac`.
    """
    speakers = dict(_speakers(root))
    for mic in mics:
        manifest = f"{_TOP}/{mic}.json"
        for path in sorted((root / "txt").glob("*/[!.]*.txt")):
            speaker, id = path.parent.name, path.stem
            lines = [line for _, line in lines_of(root, f"txt/{speaker}/{path.name}")]
            fields = {"text": " ".join(lines), "speaker": speaker_name("en", "VCTK", speaker)}
            fields |= speakers.get(speaker, {})
            source, where = f"{_AUDIO}/{speaker}/{id}_{mic}.flac", f"txt/{speaker}/{path.name}:1"
            utterance = Utterance(manifest, source, fields, where)
            if len(lines) > 1:
                utterance.reason, utterance.detail = RejectReason.BAD_FIELD, f"the file has {len(lines)} lines, not 1"
            yield utterance


def _speakers(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each speaker's id and fields (age, gender, accent, region).

    Each line is a speaker, such as `p225  23  F  English  Southern  England`; titles in the first line do no harm. A
    line may have fewer columns, and a remark in brackets at its end. Fields without a value are left out.
    """
    for _, line in lines_of(root, "speaker-info.txt"):
        speaker, age, gender, accent, *region = (*line.partition("(")[0].split(), "", "", "", "")
        about = {"age": int(age) if age.isdecimal() else age, "gender": gender, "accent": accent}
        about["region"] = " ".join(region).strip()
        yield speaker, {name: value for name, value in about.items() if value != ""}
