"""The index of a corpus: lines without an utterance, lines that cannot be used, and audio that comes back."""

import gzip
import io
import os
import shlex
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import (
    Files,
    aishell,
    aishell2,
    an4,
    checksum_list,
    common_voice,
    hifitts,
    librispeech,
    libritts,
    ljspeech,
    mls,
    tar_gz,
    vctk,
    write_files,
)
from tests.conftest import Lines, read_lines, tree
from tests.support.running import Outcome, prepcli


def test_an4_lines_without_an_utterance(serve: Serve, tmp_path: Path) -> None:
    from tests.commands.download.miniatures import an4, tar_gz

    files = an4()
    name = "an4/etc/an4_train.transcription"
    files[name] = b"<s> NO ID </s>\n<s> </s> (an251-fs01-b)\n" + files[name]
    site = serve({"an4_sphere.tar.gz": tar_gz(files)})
    done = prepcli("download", "an4", "--data-root", tmp_path / "d", "--base-url", site.url, "--max-rejects", 3)
    assert done.code == 0, done.err
    rejects = read_lines(tmp_path / "d.prepcli/sets/an4/rejects.jsonl")
    assert [reject["reject_detail"] for reject in rejects] == [
        f"{name}:1: the line does not end with a file id in brackets",
        f"{name}:2: the line has no words",
    ]


@pytest.mark.parametrize("nemo_layout", [False, True])
def test_aishell2_whose_audio_was_away(tmp_path: Path, nemo_layout: bool) -> None:
    """When it was indexed; `--retry-rejects` indexes it again, unless more than the audio has changed."""
    corpus = write_files(aishell2(nemo_layout), tmp_path / "corpus")
    speaker = corpus / ("wav/dev/D0012" if nemo_layout else "iOS/dev/wav/D0012")
    transcript = corpus / ("transcript/dev/trans.txt" if nemo_layout else "iOS/dev/trans.txt")
    arguments = ["download", "aishell2", "--audio-folder", corpus, "--max-rejects", 12, "--json"]
    whole = prepcli(*arguments, "--data-root", tmp_path / "whole")
    assert whole.code == 0

    speaker.rename(tmp_path / "away")
    arguments += ["--data-root", tmp_path / "data"]
    without = prepcli(*arguments)
    assert without.json["rejects_by_reason"] == {"missing_audio": 4}
    assert prepcli("status", tmp_path / "data", "--json").json["retry_with"].endswith(" --retry-rejects")
    assert prepcli(*arguments, "--retry-rejects").json["status"] == "nothing_to_do"
    (tmp_path / "away").rename(speaker)
    refused = prepcli(*arguments)
    assert refused.code == 2
    assert "has another content" in refused.error_line

    text = transcript.read_bytes()
    transcript.write_bytes(text.replace("也".encode(), "后".encode()))
    assert prepcli(*arguments, "--retry-rejects").code == 2
    transcript.write_bytes(text)
    again = prepcli(*arguments, "--retry-rejects")
    assert (again.code, again.json["records_out"], again.json["rejects_by_reason"]) == (0, 12, {})
    assert tree(tmp_path / "data") == tree(tmp_path / "whole")
    for more in ([], ["--retry-rejects"]):
        assert prepcli(*arguments, *more).json["status"] == "nothing_to_do"


def unpacked_aishell() -> Files:
    """AISHELL with the archives in it unpacked."""
    files = aishell()
    for name in [name for name in files if name.endswith(".tar.gz")]:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(files.pop(name)))) as tar:
            members = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
            files |= {f"data_aishell/wav/{name}": content.read() for name, content in members.items() if content}
    return files


LIBRISPEECH, LIBRITTS = "LibriSpeech/dev-clean-2/101/1011/101-1011", "LibriTTS/dev-clean/101/1011/101_1011"
CV = "cv-corpus-25.0-2026-03-09/en"
REPEATED: dict[str, tuple[Callable[[], Files], list[Any], str, str]] = {
    "librispeech": (
        lambda: librispeech("dev-clean-2", ["s01"]),
        ["--data-sets", "dev_clean_2", "--audio-format", "flac"],
        f"{LIBRISPEECH}.trans.txt",
        "101-1011-0000",
    ),
    "libritts": (
        lambda: libritts("dev-clean", ["s01"]),
        ["--data-sets", "dev_clean"],
        f"{LIBRITTS}.trans.tsv",
        "101_1011_000000_000000",
    ),
    "an4": (an4, [], "an4/etc/an4_test.transcription", "cen4-fs03-b"),
    "mls": (
        lambda: mls("mls_polish"),
        ["--language", "polish", "--archive-format", "flac"],
        "mls_polish/test/transcripts.txt",
        "1104_2104_000000",
    ),
    "common-voice": (common_voice, ["--language", "en"], f"{CV}/test.tsv", "common_voice_en_3000"),
    "hifitts": (hifitts, [], "hi_fi_tts_v0/9136_manifest_other_test.json", "audio/9136_other/"),
    "ljspeech": (ljspeech, ["--val-size", 2, "--test-size", 2], "LJSpeech-1.1/metadata.csv", "LJ001-0001"),
    "aishell": (
        unpacked_aishell,
        [],
        "data_aishell/transcript/aishell_transcript_v0.8.txt",
        "BAC009S0002W0122",
    ),
    "aishell2": (lambda: aishell2(nemo_layout=False), [], "iOS/dev/trans.txt", "ID0012W0001"),
}


def _download(corpus: str, files: Files, folder: Path, *options: object) -> tuple[Outcome, Lines]:
    copy = write_files(files, folder / "copy")
    place = "--audio-folder" if corpus == "aishell2" else "--extracted"
    words = ("download", corpus, place, copy, "--data-root", folder / "data", "--json", *options)
    done = prepcli(*words)
    (path,) = (folder / "data.prepcli/sets").glob("*/rejects.jsonl")
    return done, read_lines(path)


@pytest.mark.parametrize("corpus", REPEATED)
def test_an_id_that_comes_twice(corpus: str, tmp_path: Path) -> None:
    """The second line is a reject that names both places; the first is used, and so is the same id in other lists."""
    make, options, name, id = REPEATED[corpus]
    files = make()
    lines = files[name].decode().splitlines()
    at = next(number for number, line in enumerate(lines) if id in line)
    whole, rejects_of_whole = _download(corpus, files, tmp_path / "whole", *options, "--max-rejects", 20)
    files[name] = "".join(f"{line}\n" for line in [*lines, lines[at]]).encode()
    done, rejects = _download(corpus, files, tmp_path, *options, "--max-rejects", 20)
    assert done.code == 0, done.err
    assert (done.json["records_in"], done.json["records_out"]) == (
        whole.json["records_in"] + 1,
        whole.json["records_out"],
    )
    (reject,) = (one for one in rejects if "is there twice" in one["reject_detail"])
    assert reject["reject_reason"] == "bad_field"
    first, second = f"{name}:{at + 1}", f"{name}:{len(lines) + 1}"
    assert reject["reject_detail"].startswith(f"{second}: the id {id}")
    assert reject["reject_detail"].endswith(f" is there twice, in {first} and in {second}; the first is used")
    assert len(rejects) == len(rejects_of_whole) + 1


WITHOUT = {
    "librispeech": f"{LIBRISPEECH}.trans.txt",
    "libritts": f"{LIBRITTS}.trans.tsv",
    "an4": "an4/etc/an4_test.transcription",
    "mls": "mls_polish/test/transcripts.txt",
    "common-voice": f"{CV}/invalidated.tsv",
    "hifitts": "hi_fi_tts_v0/9136_manifest_other_test.json",
    "ljspeech": "LJSpeech-1.1/metadata.csv",
    "aishell": "data_aishell/transcript/aishell_transcript_v0.8.txt",
    "aishell2": "iOS/dev/trans.txt",
    "vctk": "txt/p225/p225_001.txt",
}


@pytest.mark.parametrize("corpus", WITHOUT)
def test_each_recording_without_a_transcript_is_listed(corpus: str, tmp_path: Path) -> None:
    """Once, and not counted for `--max-rejects`; all others are records, or rejects for another reason."""
    make, options, *_ = REPEATED.get(corpus, (vctk, ["--mic", "both"]))
    options = ["--language", "en", "--data-sets", "ALL"] if corpus == "common-voice" else options
    files, name = make(), WITHOUT[corpus]
    head, *lines = files[name].splitlines(keepends=True)
    if corpus in ("librispeech", "libritts", "vctk"):
        del files[name]  # the transcript of a chapter, or of an utterance
    else:
        files[name] = b"".join([head, *lines[:-1]])
    _, before = _download(corpus, make(), tmp_path / "before", *options, "--max-rejects", 99)
    bad = sum(one["reject_reason"] != "missing_transcript" for one in before)
    done, rejects = _download(corpus, files, tmp_path, *options, "--max-rejects", bad)
    assert done.code == 0, done.err
    audio = {".wav", ".flac", ".sph", ".opus", ".mp3"}
    recordings = {str(Path(name).with_suffix("")) for name in files if Path(name).suffix in audio and "/._" not in name}
    manifests = [Path(path) for path in done.json["outputs"].values()]
    paths = [path.parent / record["audio_filepath"] for path in manifests for record in read_lines(path)]
    in_records = {_name(path, tmp_path) for path in paths}
    unlisted = [one for one in rejects if one["reject_reason"] == "missing_transcript"]
    others = {_name(Path(one["audio_filepath"]), tmp_path) for one in rejects if one not in unlisted}
    names = [_name(Path(one["audio_filepath"]), tmp_path) for one in unlisted]
    assert len(names) == len(set(names)) == len(recordings - in_records - others) > 0
    assert recordings == (recordings & (in_records | others)) | set(names)
    assert not set(names) & (in_records | others)
    assert {one["reject_detail"].partition(": ")[2] for one in unlisted} == {"no transcript names it"}
    words = ("status", tmp_path / "data")
    assert f"unlisted {len(names)} named by no published transcript" in prepcli(*words).out
    assert prepcli(*words, "--json").json["left_out"] == len(names)
    assert done.json["left_out"] == len(names)


def _name(path: Path, folder: Path) -> str:
    """The path of a recording in the corpus, published or made of it, without suffix; empty if it is not in it."""
    name = os.path.splitext(os.path.normpath(path))[0]
    return next((name.removeprefix(f"{folder / place}/") for place in ("copy", "data") if f"/{place}/" in name), "")


def test_transcripts_that_come_back(tmp_path: Path) -> None:
    """`--retry-rejects` reads them, and the message says so; with another change it refuses as before."""
    files = librispeech("dev-clean-2", ["s01"])
    transcript = files.pop(f"{LIBRISPEECH}.trans.txt")
    options = ["--data-sets", "dev_clean_2", "--audio-format", "flac"]
    done, rejects = _download("librispeech", files, tmp_path, *options)
    assert (done.code, done.json["records_out"], len(rejects)) == (0, 2, 4)
    words: list[object] = ["--extracted", tmp_path / "copy", "--data-root", tmp_path / "data", *options]
    text = prepcli("download", "librispeech", *words)
    assert "unlisted  4 named by no published transcript (4 missing_transcript), listed in" in text.out
    retry = next(line.partition("retry with: ")[2] for line in text.out.splitlines() if "retry with: " in line)
    assert "when the transcript is there, retry with: " in text.out
    words = [*shlex.split(retry)[1:]]
    assert prepcli(*words, "--json").json["status"] == "nothing_to_do"
    (tmp_path / "copy" / f"{LIBRISPEECH}.trans.txt").write_bytes(transcript)
    again = prepcli(*words, "--json")
    assert (again.code, again.json["records_out"], again.json["rejects"]) == (0, 6, 0)


def test_transcripts_that_come_back_to_a_corpus_that_was_fetched(serve: Serve, tmp_path: Path) -> None:
    files = libritts("dev-clean", ["s01"])
    transcript = files.pop(f"{LIBRITTS}.trans.tsv")
    site = serve({"dev-clean.tar.gz": tar_gz(files)})
    (tmp_path / "sums").write_text(checksum_list(site.files))
    words = [
        "download",
        "libritts",
        "--data-root",
        tmp_path / "data",
        "--base-url",
        site.url,
        "--data-sets",
        "dev_clean",
    ]
    words += ["--checksums", tmp_path / "sums", "--max-rejects", 2, "--json"]
    assert prepcli(*words).json["rejects_by_reason"] == {"missing_audio": 1, "missing_transcript": 4}
    (tmp_path / "data" / f"{LIBRITTS}.trans.tsv").write_bytes(transcript)
    assert prepcli(*words).json["status"] == "nothing_to_do"
    again = prepcli(*words, "--retry-rejects")
    assert (again.code, again.json["records_out"], again.json["rejects_by_reason"]) == (0, 6, {"missing_audio": 2})


def test_clips_are_compared_with_all_tables(tmp_path: Path) -> None:
    """Also with those whose manifests are not asked for."""
    files = common_voice()
    done, rejects = _download("common-voice", files, tmp_path, "--language", "en", "--data-sets", "dev")
    assert (done.json["records_in"], rejects) == (4, [])
    for name in ("train", "validated"):
        del files[f"{CV}/{name}.tsv"]
    done, rejects = _download("common-voice", files, tmp_path / "fewer", "--language", "en", "--data-sets", "dev")
    assert done.json["rejects_by_reason"] == {"missing_transcript": 4}
    assert {Path(one["audio_filepath"]).name[:-5] for one in rejects} == {"common_voice_en_100"}


def test_an_id_that_is_twice_on_the_disk(tmp_path: Path) -> None:
    """A transcript names one recording; which of two it is, nobody can tell."""
    files = aishell2(nemo_layout=False)
    scp, wav = "iOS/dev/wav.scp", "iOS/dev/wav/D0012/other.wav"
    first = files[scp].decode().split()[0]
    files |= {wav: next(data for name, data in files.items() if name.endswith(".wav"))}
    files[scp] += f"{first}\twav/D0012/other.wav\n".encode()
    done, rejects = _download("aishell2", files, tmp_path, "--max-rejects", 1)
    assert [one["reject_detail"] for one in rejects] == [
        f"{scp}:5: the id {first} is there twice, in {scp}:1 and in {scp}:5; the first is used"
    ]
    assert (done.json["records_out"], rejects[0]["audio_filepath"]) == (12, str(tmp_path / "copy" / wav))
    files = unpacked_aishell()
    name = next(name for name in files if "/train/" in name)
    files[name.replace("/train/", "/test/")] = files[name]
    done, rejects = _download("aishell", files, tmp_path / "aishell", "--max-rejects", 2)
    details = [one["reject_detail"] for one in rejects if one["reject_reason"] == "bad_field"]
    assert len(details) == 1 and f"is there twice, in {name} and in {name.replace('/train/', '/test/')}" in details[0]
