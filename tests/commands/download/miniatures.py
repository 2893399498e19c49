"""Miniature corpora in exactly the layouts in which the real ones are published, made from the short corpus."""

import bz2
import gzip
import hashlib
import io
import itertools
import json
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from tests.support import sphere_files

SHORT_CORPUS = Path(__file__).parents[2] / "data/short_corpus"
Files = dict[str, bytes]
SPEAKERS = sorted(folder.name for folder in SHORT_CORPUS.glob("s0*"))
RECORDS = [json.loads(line) for line in (SHORT_CORPUS / "manifest.json").read_text(encoding="utf-8").splitlines()]


def utterances(speaker: str) -> list[tuple[Path, str]]:
    """Recording and text of each utterance of a speaker of the short corpus."""
    mine = [record for record in RECORDS if record["audio_filepath"].startswith(f"{speaker}/")]
    return [(SHORT_CORPUS / record["audio_filepath"], record["text"]) for record in mine]


def tar(files: Files) -> bytes:
    """A tar of files, with a member for each folder, as GNU tar writes them; the same bytes each time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as out:
        folders: set[str] = set()
        for name, data in files.items():
            for parent in reversed(Path(name).parents[:-1]):
                if str(parent) not in folders:
                    folders.add(str(parent))
                    member = tarfile.TarInfo(str(parent))
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                    out.addfile(member)
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o444
            out.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def zipped(files: Files) -> bytes:
    """A zip of files, compressed, with the permissions that Info-ZIP writes; the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            member = zipfile.ZipInfo(name)
            member.external_attr, member.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            out.writestr(member, data)
    return buffer.getvalue()


def tar_gz(files: Files) -> bytes:
    return gzip.compress(tar(files), 1, mtime=0)


def librispeech(folder: str, speakers: list[str], copies: int = 1) -> Files:
    """`LibriSpeech/<folder>/101/1011/101-1011-0000.flac` …, two chapters for each speaker."""
    files: Files = {
        "LibriSpeech/README.TXT": b"A miniature.\n",
        "LibriSpeech/SPEAKERS.TXT": b";ID |SEX| SUBSET |MINUTES| NAME\n",
    }
    for copy, speaker in itertools.product(range(copies), speakers):
        number = 100 + 10 * copy + int(speaker[1:])
        own = utterances(speaker)
        for chapter, part in ((f"{number}1", own[:4]), (f"{number}2", own[4:])):
            place = f"LibriSpeech/{folder}/{number}/{chapter}/{number}-{chapter}"
            lines = []
            for index, (path, text) in enumerate(part):
                files[f"{place}-{index:04d}.flac"] = path.read_bytes()
                lines.append(f"{number}-{chapter}-{index:04d} {text.upper()}\n")
            files[f"{place}.trans.txt"] = "".join(lines).encode()
    return files


@lru_cache
def sphere(path: Path) -> bytes:
    """A recording as NIST SPHERE at 16 kHz."""
    samples, rate = soundfile.read(path, dtype="int16")
    samples = soxr.resample(samples, rate, 16000)
    return sphere_files.sphere(samples.tobytes(), "pcm", len(samples), 1, rate=16000)


def an4(copies: int = 1) -> Files:
    """`an4/etc/an4_train.transcription`, `an4/wav/an4_clstk/fash/an251-fash-b.sph` …, each speaker so many times."""
    files: Files = {}
    for part, folder, speakers, line in (
        ("train", "an4_clstk", ("s01", "s02"), "<s> {} </s> ({})\n"),
        ("test", "an4test_clstk", ("s03",), "{} ({})\n"),
    ):
        transcription, fileids = "", ""
        for copy, speaker in itertools.product(range(copies), speakers):
            name = f"f{speaker}{copy or ''}"
            for index, (path, text) in enumerate(utterances(speaker)[:3]):
                id = f"an{250 + index}-{name}-b" if index else f"cen4-{name}-b"
                files[f"an4/wav/{folder}/{name}/{id}.sph"] = sphere(path)
                transcription += line.format(text.upper(), id)
                fileids += f"{folder}/{name}/{id}\n"
        files[f"an4/etc/an4_{part}.transcription"] = transcription.encode()
        files[f"an4/etc/an4_{part}.fileids"] = fileids.encode()
    files["an4/LICENSE"] = b"\n"
    return files


def wav(path: Path, sampling_rate: int | None = None) -> bytes:
    """A recording as 16-bit WAV; `sampling_rate` changes what the header says, no more."""
    samples, rate = soundfile.read(path, dtype="int16")
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, sampling_rate or rate, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


MANDARIN = ["而 对 楼市 成交 抑制 作用 最 大 的 限 购", "也 成为 地方 政府 的 眼中 钉", "自 六月 底", "后"]


def aishell() -> Files:
    """`data_aishell/wav/S0002.tar.gz` with `train/S0002/*.wav`, and one transcript for all."""
    files: Files = {}
    transcript = ""
    for part, name, speaker in (("train", "S0002", "s01"), ("train", "S0003", "s02"), ("dev", "S0724", "s03"),
                                ("test", "S0764", "s04")):  # fmt: skip
        inner: Files = {}
        for index, ((path, _), text) in enumerate(zip(utterances(speaker), MANDARIN, strict=False)):
            id = f"BAC009{name}W{index + 122:04d}"
            inner[f"{part}/{name}/{id}.wav"] = wav(path)
            if (name, index) != ("S0003", 3):  # as in the real one, some recordings have no transcript
                transcript += f"{id} {text}\n"
        files[f"data_aishell/wav/{name}.tar.gz"] = tar_gz(inner)
    files["data_aishell/transcript/aishell_transcript_v0.8.txt"] = transcript.encode()
    return files


def aishell2(nemo_layout: bool) -> Files:
    """`iOS/data/{trans.txt,wav.scp,wav/}` and `iOS/{dev,test}`, or the folders that NeMo's script wants."""
    files: Files = {}
    for part, name, speaker in (("train", "C0001", "s01"), ("dev", "D0012", "s03"), ("test", "T0004", "s04")):
        place = f"iOS/{'data' if part == 'train' else part}"
        wavs = f"wav/{part}" if nemo_layout else f"{place}/wav"
        transcript, scp = "", ""
        for index, ((path, _), text) in enumerate(zip(utterances(speaker), MANDARIN, strict=False)):
            id = f"I{name}W{index + 1:04d}"
            files[f"{wavs}/{name}/{id}.wav"] = wav(path)
            transcript += f"{id}\t{text.replace(' ', '')}{' yes' if index == 1 else ''}\n"
            scp += f"{id}\twav/{name}/{id}.wav\n"
        files[f"transcript/{part}/trans.txt" if nemo_layout else f"{place}/trans.txt"] = transcript.encode()
        if not nemo_layout:
            files[f"{place}/wav.scp"] = scp.encode()
    return files


def ljspeech() -> Files:
    """`LJSpeech-1.1/metadata.csv` (id|text|normalised text, quotes unescaped) and `wavs/`."""
    files: Files = {}
    rows = ""
    for chapter, speaker in enumerate(SPEAKERS[:4], start=1):
        for index, (path, text) in enumerate(utterances(speaker), start=1):
            id = f"LJ{chapter:03d}-{index:04d}"
            files[f"LJSpeech-1.1/wavs/{id}.wav"] = wav(path)
            rows += f'{id}|"{text}" in 1455,|"{text}" in fourteen fifty-five,\n'
    files["LJSpeech-1.1/metadata.csv"] = rows.encode()
    files["LJSpeech-1.1/README"] = b"A miniature.\n"
    return files


def libritts(folder: str, speakers: list[str], tree: str = "LibriTTS") -> Files:
    """`LibriTTS/<folder>/101/1011/101_1011_000000_000000.{wav,original.txt,normalized.txt}` …, and what is odd in it.

    The last row of a chapter has no recording, the first sentence is not in `book.tsv`, which has more rows than the
    transcript, and a quotation mark stands alone. LibriTTS-R also has files of a Macintosh, and a damaged recording.
    """
    files: Files = {
        f"{tree}/SPEAKERS.txt": b";ID  |SEX| SUBSET           |MINUTES| NAME\n101  | F | "
        + folder.encode()
        + b"  | 25.03 | A Reader | of Books\n",
        f"{tree}/README_{tree}.txt": b"A miniature.\n",
    }
    for speaker in speakers:
        number = 100 + int(speaker[1:])
        own = utterances(speaker)
        for chapter, part in ((f"{number}1", own[:4]), (f"{number}2", own[4:])):
            place = f"{tree}/{folder}/{number}/{chapter}/{number}_{chapter}"
            rows, book = "", f"{number}_{chapter}_000099_000000\tnot kept\tnot kept\t1.5\n"
            for index, (path, text) in enumerate(part):
                id = f"{number}_{chapter}_{index // 2:06d}_{index % 2:06d}"
                original, normalized = f'"{text} in 1455', f'"{text} in fourteen fifty-five'
                files[f"{place.rpartition('/')[0]}/{id}.wav"] = wav(path)
                files[f"{place.rpartition('/')[0]}/{id}.original.txt"] = original.encode()
                files[f"{place.rpartition('/')[0]}/{id}.normalized.txt"] = normalized.encode()
                rows += f"{id}\t{original}\t{normalized}\n"
                if index:
                    book += f"{id}\t{original}\t{normalized}\t{20 + index}.25\n"
            rows += f"{number}_{chapter}_000098_000000\tNo recording.\tNo recording.\n"
            files[f"{place}.trans.tsv"] = rows.encode()
            files[f"{place}.book.tsv"] = book.encode()
            if tree == "LibriTTS_R":
                files[f"{place.rpartition('/')[0]}/._{number}_{chapter}.trans.tsv"] = b"\0\5\x16\7\0\2"
                files[f"{place.rpartition('/')[0]}/._{number}_{chapter}_000000_000000.wav"] = b"\0\5\x16\7\0\2"
    if tree == "LibriTTS_R":
        name = next(name for name in files if name.endswith(".wav") and "/._" not in name)
        files[name] = files[name][:-1000]
    return files


VCTK_SPEAKERS = """ID  AGE  GENDER  ACCENTS  REGION COMMENTS
p225  23  F    English    Southern  England
p280  25  F    French    France (mic2 files unavailable)
p315  22  M    American    New England (text files unavailable)
p362  29  F    American
s5  22  F  Scottish  Highlands
"""


def vctk() -> Files:
    """`txt/p225/p225_001.txt`, `wav48_silence_trimmed/p225/p225_001_mic{1,2}.flac`, without a folder above.

    As in the real one p280 has no recordings of mic2, p315 no texts, and p362 not all recordings.
    """
    files: Files = {"speaker-info.txt": VCTK_SPEAKERS.encode(), "README.txt": b"A miniature.\n"}
    for name, speaker in zip(("p225", "p280", "p315", "p362", "s5"), SPEAKERS, strict=False):
        for index, (path, text) in enumerate(utterances(speaker)[:4], start=1):
            id = f"{name}/{name}_{index:03d}"
            if name != "p315":
                files[f"txt/{id}.txt"] = f"{text} \n".encode()
            for mic in ("mic1", "mic2"):
                if (name, mic) != ("p280", "mic2") and (name, index) != ("p362", 2):
                    files[f"wav48_silence_trimmed/{id}_{mic}.flac"] = path.read_bytes()
    return files


def hifitts() -> Files:
    """`hi_fi_tts_v0/9136_manifest_other_train.json` and `audio/9136_other/12352/prideofjennico_01_castle_0001.flac` ….

    As in the real one reader 6097 is in both qualities and every reader in all parts. A line names a recording that is
    not there, one a path outside, and a recording is in no manifest.
    """
    files: Files = {"hi_fi_tts_v0/books_bandwidth.tsv": b"reader\tbook\tbandwidth\n", "hi_fi_tts_v0/LICENSE": b"\n"}
    readers = (("92", "clean"), ("6097", "clean"), ("6097", "other"), ("9136", "other"))
    for (reader, quality), speaker in zip(readers, SPEAKERS, strict=False):
        lines: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
        for index, (path, text) in enumerate(utterances(speaker)):
            name = f"audio/{reader}_{quality}/{12352 + index % 2}/prideofjennico_01_castle_{index:04d}.flac"
            files[f"hi_fi_tts_v0/{name}"] = path.read_bytes()
            part = "dev" if index == 3 else "test" if index > 3 else "train"
            plain = "".join(letter for letter in text.lower() if letter.isalpha() or letter == " ")
            record = {"audio_filepath": name, "text": plain, "duration": round(soundfile.info(path).duration, 2)}
            texts = {"text_no_preprocessing": f"{text} in 1455", "text_normalized": f"{text} in fourteen fifty-five"}
            record |= texts
            lines[part].append(json.dumps(record))
            if (reader, index) == ("92", 0):
                lines[part].append(json.dumps(record | {"audio_filepath": name.replace("0000", "0099")}))
                lines[part].append(json.dumps(record | {"audio_filepath": "audio/../../../x.flac"}))
                lines[part].append(json.dumps({"audio_filepath": 7, "text": plain}))
                files[f"hi_fi_tts_v0/{name.replace('0000', '0098')}"] = path.read_bytes()
        for part, texts_of_part in lines.items():
            manifest = f"hi_fi_tts_v0/{reader}_manifest_{quality}_{part}.json"
            files[manifest] = "".join(f"{line}\n" for line in texts_of_part).encode()
    return files


@lru_cache
def chapter(*paths: Path) -> tuple[bytes, list[tuple[float, float]]]:
    """A chapter as MP3 with two channels at 44.1 kHz, and the offset and duration of each recording in it."""
    parts: list[NDArray[np.float32]] = []
    spans: list[tuple[float, float]] = []
    for path in paths:
        samples, rate = soundfile.read(path, dtype="float32")
        samples = soxr.resample(samples, rate, 44100)
        spans.append((round(sum(len(one) for one in parts) / 44100 + 0.01, 2), round(len(samples) / 44100 - 0.02, 2)))
        parts.append(samples)
    buffer = io.BytesIO()
    both = np.concatenate(parts)
    soundfile.write(buffer, np.stack([both, both * 0.5], axis=1), 44100, format="MP3")
    return buffer.getvalue(), spans


def hifitts2() -> Files:
    """`manifest_22khz.json`, `chapters_22khz.json`, and the chapters below `chapters/`: MP3, whatever their names say.

    One chapter is gone, one was replaced by a longer one, one is damaged. An utterance is in no chapter, one ends after
    its chapter, one has a set that does not exist, and one a path outside. The list has a broken line.
    """
    files: Files = {}
    lines: list[dict[str, Any]] = []
    chapters: list[dict[str, Any]] = []
    sets = ("train", "train", "dev_seen", "test_unseen")
    for number, speaker in enumerate(SPEAKERS):
        for half, part in enumerate((utterances(speaker)[:3], utterances(speaker)[3:])):
            data, spans = chapter(*(path for path, _ in part))
            place = f"{9216 + number}/{2315 + half}/{9216 + number}_{2315 + half}_sea_fairies-{half + 1:02d}_baum"
            name, seconds = f"{place}.{'mp3' if half else 'flac'}", soundfile.info(io.BytesIO(data)).duration
            row = {"url": f"http://127.0.0.1:9/{name}", "chapter_filepath": name, "duration": seconds, "utterances": []}
            for index, ((offset, length), (_, text)) in enumerate(zip(spans, part, strict=True)):
                path = f"{place}_{index}.flac"
                row["utterances"].append({"audio_filepath": path, "offset": offset, "duration": length})
                record = {"audio_filepath": path, "speaker": str(9216 + number), "set": sets[(number + half) % 4]}
                measured = {"duration": length, "bandwidth": 11000, "wer": 1.5, "cer": 0.5, "text_source": "book"}
                lines.append(record | measured | {"text": text, "normalized_text": f"{text} normalized"})
            chapters.append(row)
            if (number, half) == (0, 0):
                odd = (
                    (f"{place}_8.flac", "train", 2.0),
                    ("../up.flac", "train", 0.5),
                    (f"{place}_7.flac", "x", 0.5),
                )
                for path, one, length in odd:
                    span = {"offset": seconds - 0.5, "duration": length}
                    row["utterances"].append({"audio_filepath": path} | span)
                    lines.append(lines[0] | {"audio_filepath": path, "set": one})
                lines.append(lines[0] | {"audio_filepath": f"{place}_99.flac"})
            if (number, half) == (1, 0):
                row["duration"] = seconds - 1.0
            if (number, half) != (1, 1):
                files[f"chapters/{name}"] = data[:100] if (number, half) == (2, 0) else data
    listed = [json.dumps(row) for row in chapters]
    listed.insert(3, '{"url": 7}')
    files["chapters_22khz.json"] = "".join(f"{line}\n" for line in listed).encode()
    files["manifest_22khz.json"] = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    return files


def mls(tree: str) -> Files:
    """`mls_polish_opus/train/audio/1234/5678/1234_5678_000000.opus`, `transcripts.txt`, `segments.txt`, ….

    As in the real one Opus says 48 kHz. The segments of the test part are in another order, a recording and a
    transcript are missing, and a speaker is not in the table.
    """
    files: Files = {
        f"{tree}/metainfo.txt": b" SPEAKER   |   GENDER   | PARTITION  |  MINUTES   |  BOOK ID   | TITLE | CHAPTER \n"
        b"  1101     |     F      |   train    |   20.1     |    2101    | A Title | A Chapter \n"
        b"  1102     |     M      |   train    |   1.5      |    2102    | A Title | A Chapter \n"
        b"  1103     |     M      |    dev     |   1.5      |    2103    | A Title | A Chapter \n"
    }
    suffix = "opus" if tree.endswith("opus") else "flac"
    ids: list[str] = []
    for part, speakers in (("train", ("s01", "s02")), ("dev", ("s03",)), ("test", ("s04",))):
        transcripts, segments = [], []
        for speaker in speakers:
            name = f"{1100 + int(speaker[1:])}_{2100 + int(speaker[1:])}"
            for index, (path, text) in enumerate(utterances(speaker)):
                id = f"{name}_{index:06d}"
                data = path.read_bytes() if suffix == "flac" else opus(path)
                if (part, index) != ("dev", 1):
                    files[f"{tree}/{part}/audio/{name.replace('_', '/')}/{id}.{suffix}"] = data
                transcripts.append(f"{id}\t{'' if (part, index) == ('dev', 2) else text.lower().strip('.')}\n")
                seconds = soundfile.info(path).duration
                segments.append(f"{id}\thttps://archive.example/{name}.mp3\t{index * 20.0}\t{index * 20.0 + seconds}\n")
                ids += [id] if part == "train" else []
        files[f"{tree}/{part}/transcripts.txt"] = "".join(transcripts).encode()
        files[f"{tree}/{part}/segments.txt"] = "".join(segments[::-1] if part == "test" else segments).encode()
    place = f"{tree}/train/limited_supervision"
    files[f"{place}/9hr/handles.txt"] = "".join(f"{id}\n" for id in ids[:4]).encode()
    for number in range(6):
        listed = [ids[5 + number], *(["9_9_9"] if number == 5 else [])]
        files[f"{place}/1hr/{number}/handles.txt"] = "".join(f"{id}\n" for id in listed).encode()
    return files


@lru_cache
def opus(path: Path) -> bytes:
    """A recording as Opus, with the rate that most encoders write in the header."""
    samples, rate = soundfile.read(path, dtype="float32")
    buffer = io.BytesIO()
    soundfile.write(buffer, soxr.resample(samples, rate, 48000), 48000, format="OGG", subtype="OPUS")
    return buffer.getvalue()


@lru_cache
def mp3(path: Path) -> bytes:
    samples, rate = soundfile.read(path, dtype="float32")
    buffer = io.BytesIO()
    soundfile.write(buffer, soxr.resample(samples, rate, 32000), 32000, format="MP3")
    return buffer.getvalue()


CV_COLUMNS = (
    *("client_id", "path", "sentence_id", "sentence", "sentence_domain", "up_votes", "down_votes", "age", "gender"),
    *("accents", "variant", "locale", "segment"),
)


def common_voice(release: str = "25.0-2026-03-09", language: str = "en", columns: Sequence[str] = CV_COLUMNS) -> Files:
    """`cv-corpus-25.0-2026-03-09/en/{train,…}.tsv`, `clips/*.mp3`, `clip_durations.tsv`.

    Quotation marks stand alone, a clip is empty, one is not there, one has no sentence, and one has no duration.
    """
    tree = f"cv-corpus-{release}/{language}"
    files: Files = {}
    tables: dict[str, list[str]] = {
        name: ["\t".join(columns)] for name in ("train", "dev", "test", "validated", "invalidated", "other")
    }
    durations = ["clip\tduration[ms]"]
    for part, speaker in zip(("train", "dev", "test", "invalidated", "other"), SPEAKERS, strict=False):
        for index, (path, text) in enumerate(utterances(speaker)[:4]):
            clip = f"common_voice_{language}_{1000 * int(speaker[1:]) + index}.mp3"
            data = mp3(path)
            if (part, index) != ("other", 1):
                files[f"{tree}/clips/{clip}"] = b"" if (part, index) == ("other", 2) else data
            if index:
                durations.append(f"{clip}\t{round(soundfile.info(path).duration * 1000)}")
            row = {
                "client_id": f"{speaker}{'f' * 125}",
                "path": clip if "variant" in columns else clip.removesuffix(".mp3"),
                "sentence": "" if (part, index) == ("other", 3) else f'"{text}',
                "up_votes": "2",
                "down_votes": "0",
                "age": "twenties" if index else "",
                "gender": "female_feminine" if index == 1 else "",
                "accents": "England English,slightly posh" if index == 1 else "",
                "accent": "england" if index == 1 else "",
                "locale": language,
            }
            line = "\t".join(row.get(column, "") for column in columns)
            for name in (part, *(["validated"] if part in ("train", "dev", "test") else [])):
                tables[name].append(line)
    files |= {f"{tree}/{name}.tsv": "".join(f"{line}\n" for line in lines).encode() for name, lines in tables.items()}
    files[f"{tree}/clip_durations.tsv"] = "".join(f"{line}\n" for line in durations).encode()
    return files


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "dev-clean-2.tar.gz": lambda: tar_gz(librispeech("dev-clean-2", ["s01", "s02"])),
    "train-clean-5.tar.gz": lambda: tar_gz(librispeech("train-clean-5", ["s03", "s04", "s05"])),
    "dev-clean.tar.gz": lambda: tar_gz(libritts("dev-clean", ["s01", "s02"])),
    "dev_clean.tar.gz": lambda: tar_gz(libritts("dev-clean", ["s01", "s02"], "LibriTTS_R")),
    "hi_fi_tts_v0.tar.gz": lambda: tar_gz(hifitts()),
    "VCTK-Corpus-0.92.zip": lambda: zipped(vctk()),
    "mls_polish_opus.tar.gz": lambda: tar_gz(mls("mls_polish_opus")),
    "cv-corpus-25.0-2026-03-09-en.tar.gz": lambda: tar_gz(common_voice()),
    "an4_sphere.tar.gz": lambda: tar_gz(an4()),
    "data_aishell.tgz": lambda: tar_gz(aishell()),
    "LJSpeech-1.1.tar.bz2": lambda: bz2.compress(tar(ljspeech())),
}


def write_files(files: Files, folder: Path) -> Path:
    """Lay files out below `folder`."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def checksum_list(archives: dict[str, bytes], algorithm: str = "md5") -> str:
    """Their checksums as `md5sum` prints them."""
    return "".join(f"{hashlib.new(algorithm, data).hexdigest()}  {name}\n" for name, data in archives.items())
