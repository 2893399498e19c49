"""Tiny corpora in the layouts that recipes of lhotse read."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.audio_files import write_audio

Tree = Callable[[Path], list[str]]
"""Writes a corpus in a folder; returns the arguments of the recipe, and its options after `--`."""


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def ljspeech(folder: Path) -> list[str]:
    """Two texts for each file; one line has no file."""
    rows = [f"LJ001-000{number}|Text {number}.|text {['one', 'two', 'three'][number]}" for number in range(3)]
    _text(folder / "metadata.csv", "\n".join(rows) + "\n")
    for number in range(2):
        write_audio(folder / f"wavs/LJ001-000{number}.wav", 0.5 + number / 8, seed=number)
    return [str(folder)]


def vctk(folder: Path) -> list[str]:
    """Speakers with age, gender, accent and region; a recording without a text."""
    _text(
        folder / "speaker-info.txt",
        "ID AGE GENDER ACCENTS REGION\n225 23 F English Southern England\n226 22 M English Surrey\n",
    )
    for number, name in enumerate(("p225_001", "p226_001", "p226_002")):
        write_audio(folder / f"wav48/{name[:4]}/{name}.wav", 0.5, rate=48000, seed=number)
        if number < 2:
            _text(folder / f"txt/{name[:4]}/{name}.txt", f"Please call {name}.\n")
    return [str(folder)]


def stcmds(folder: Path) -> list[str]:
    """A text file beside each recording."""
    for number, name in enumerate(("20170001P00001A0001", "20170001P00002I0002")):
        write_audio(folder / f"ST-CMDS-20170001_1-OS/{name}.wav", 0.5, rate=16000, seed=number)
        _text(folder / f"ST-CMDS-20170001_1-OS/{name}.txt", f"你好 {number}")
    return [str(folder)]


def primewords(folder: Path) -> list[str]:
    """One JSON with all texts."""
    rows = [{"file": f"u{number}.wav", "text": f"文本 {number}", "user_id": f"s{number}"} for number in range(3)]
    top = folder / "primewords_md_2018_set1"
    _text(top / "set1_transcript.json", json.dumps(rows))
    for number in range(3):
        write_audio(top / f"audio_files/0/00/u{number}.wav", 0.5, rate=16000, seed=number)
    return [str(folder)]


def aishell(folder: Path) -> list[str]:
    """Three parts."""
    lines = []
    for number, part in enumerate(("train", "train", "dev", "test")):
        name = f"BAC009S000{number}W0001"
        write_audio(folder / f"data_aishell/wav/{part}/S000{number}/{name}.wav", 0.5, rate=16000, seed=number)
        lines.append(f"{name} 今天 天气 {number}\n")
    _text(folder / "data_aishell/transcript/aishell_transcript_v0.8.txt", "".join(lines))
    return [str(folder)]


def baker_zh(folder: Path) -> list[str]:
    """Two lines for each recording; custom fields."""
    lines = []
    for number in range(2):
        write_audio(folder / f"Wave/00000{number}.wav", 0.5, rate=48000, seed=number)
        lines.append(f"00000{number}\t卡尔普#2陪外孙#1玩滑梯#4。\n\tka2 er2 pu3\n")
    _text(folder / "ProsodyLabeling/000001-010000.txt", "".join(lines))
    return [str(folder)]


def aspire(folder: Path) -> list[str]:
    """Segments of long recordings; one of them ends half a millisecond after the audio."""
    top = folder / "IARPA-ASpIRE-Dev-Sets-v2.0/data"
    for number, part in enumerate(("dev", "dev_test")):
        name = f"0{number}_call"
        write_audio(top / f"dev_and_dev_test_audio/ASpIRE_single_{part}/{name}.wav", 4.0, seed=number)
        lines = [f"{name} 1 A 0.25 1.75 we begin here\n", f"{name} 1 B 2.00 4.0005 and end there\n"]
        _text(top / f"dev_and_dev_test_STM_files/{part}.stm", "".join(lines))
    return [str(folder)]


def must_c(folder: Path) -> list[str]:
    """Segments in YAML, and a file with their translations."""
    for number, part in enumerate(("dev", "tst-COMMON", "tst-HE", "train")):
        top = folder / f"en-de/data/{part}"
        write_audio(top / f"wav/ted_{number}.wav", 4.0, rate=16000, seed=number)
        rows = [
            f"- {{duration: 1.5, offset: {start}, speaker_id: spk.1, wav: ted_{number}.wav}}\n" for start in (0.5, 2.25)
        ]
        _text(top / f"txt/{part}.yaml", "".join(rows))
        _text(top / f"txt/{part}.de", "ein Satz\nnoch ein Satz\n")
    return [str(folder), "--", "--tgt-lang", "de"]


def cmu_arctic(folder: Path) -> list[str]:
    """A speaker per folder."""
    for number, voice in enumerate(("bdl", "slt")):
        top = folder / f"cmu_us_{voice}_arctic"
        write_audio(top / "wav/arctic_a0001.wav", 0.5, rate=16000, seed=number)
        _text(top / "etc/txt.done.data", '( arctic_a0001 "Author of the danger trail." )\n')
    return [str(folder)]


def thchs_30(folder: Path) -> list[str]:
    """A text beside each recording, in another folder than the parts."""
    for number, part in enumerate(("train", "dev", "test")):
        name = f"A{number}_1"
        write_audio(folder / f"data_thchs30/{part}/{name}.wav", 0.5, rate=16000, seed=number)
        _text(folder / f"data_thchs30/data/{name}.wav.trn", "绿 是 阳春\nlv4 shi4\nl v4\n")
    return [str(folder)]


def librispeech(folder: Path) -> list[str]:
    """FLAC in folders of speakers and chapters."""
    for number, part in enumerate(("dev-clean", "test-clean")):
        chapter = folder / f"{part}/1{number}/20"
        names = [f"1{number}-20-000{line}" for line in range(2)]
        for line, name in enumerate(names):
            write_audio(chapter / f"{name}.flac", 0.5 + line / 4, rate=16000, seed=line)
        _text(chapter / f"1{number}-20.trans.txt", "".join(f"{name} A TEXT\n" for name in names))
    return [str(folder)]


def mls(folder: Path) -> list[str]:
    """A language by its name, and genders."""
    top = folder / "mls_german"
    _text(top / "metainfo.txt", "SPEAKER | GENDER\n 77 | F \n")
    for number, part in enumerate(("train", "dev", "test")):
        name = f"77_1_00000{number}"
        write_audio(top / f"{part}/audio/77/1/{name}.flac", 0.5, rate=16000, seed=number)
        _text(top / f"{part}/transcripts.txt", f"{name}\tein text\n")
    return [str(folder), "--", "--flac"]


TREES: dict[str, Tree] = {
    "aishell": aishell,
    "aspire": aspire,
    "baker-zh": baker_zh,
    "cmu-arctic": cmu_arctic,
    "librispeech": librispeech,
    "ljspeech": ljspeech,
    "mls": mls,
    "must-c": must_c,
    "primewords": primewords,
    "stcmds": stcmds,
    "thchs-30": thchs_30,
    "vctk": vctk,
}
"""The corpora by the names of their recipes."""


def install_stand_in(folder: Path) -> Path:
    """Write a stand-in for lhotse and a corpus with one recording; returns the folder for PYTHONPATH.

    The stand-in is quickly imported, and does what `corpus/behaviour` says.
    """
    package = folder / "site/lhotse/bin"
    package.mkdir(parents=True)
    for place in (package, package.parent):
        (place / "__init__.py").touch()
    (package / "lhotse.py").write_text(_STAND_IN)
    write_audio(folder / "corpus/a.wav", 1.0)
    return folder / "site"


_STAND_IN = """
import json, os, sys, time
from pathlib import Path

def cli():
    _, command, recipe, *more, corpus, out = sys.argv
    corpus, out = Path(corpus), Path(out)
    assert command == "prepare" and not list(out.iterdir())
    with (corpus / "starts").open("a") as starts:
        starts.write(f"{os.getpid()} {' '.join(more)}\\n")
    behaviour = (corpus / "behaviour").read_text() if (corpus / "behaviour").exists() else ""
    print("it reads", recipe, flush=True)
    source = {"type": "file", "channels": [0], "source": str(corpus / "a.wav")}
    recording = {"id": "a", "sources": [source], "sampling_rate": 8000, "num_samples": 8000, "duration": 1.0}
    (out / "toy_recordings_all.jsonl").write_text(json.dumps(recording) + "\\n")
    exec(behaviour)
    for number, part in enumerate(("all",) if "parts" not in behaviour else ("all", "dev")):
        (out / f"toy_recordings_{part}.jsonl").write_text(json.dumps(recording) + "\\n")
        speech = {"id": f"s{number}", "recording_id": "a", "start": 0.0, "duration": 1.0, "text": "hi"}
        (out / f"toy_supervisions_{part}.jsonl").write_text(json.dumps(speech) + "\\n")
"""
