"""The inputs of the calls: a small corpus, the same in each kind of data set, broken ones, and miniatures of corpora.

Nothing here is made by prepcli: an input must not change with what is compared. Each input is a folder or file of one
name, whole in itself; paths in it start from the folder in which the calls run.
"""

import gzip
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import soundfile

from tests.commands.download import lhotse_trees, make_fisher, miniatures
from tests.commands.download.published.test_hub5 import stm, write_tree
from tests.conftest import MINI_CORPUS, SHORT_CORPUS, Lines, read_lines, write_lines
from tests.golden import toy_codec
from tests.support.audio_files import write_audio
from tests.support.containers import SOURCES
from tests.support.conversations import conversations_of
from tests.support.tars import write_tar
from tests.support.tokenizer_models import corpus_texts, train_sentencepiece

THEN = 1_700_000_000
"""The time of all files: plans and archives may hold it."""
SPEAKERS = ("s01", "s03", "s05", "s07")


def records(*speakers: str) -> Lines:
    """Records of the short corpus, all languages, 0.1 to 0.6 s each."""
    lines = read_lines(SHORT_CORPUS / "manifest_with_context.json")
    return [line for line in lines if line["audio_filepath"][:3] in (speakers or SPEAKERS)]


def with_audio(folder: Path, name: str, lines: Lines) -> Path:
    """Write a manifest, and the audio of its lines below its folder."""
    for line in lines:
        for field in ("audio_filepath", "context_audio_filepath"):
            if field in line and (SHORT_CORPUS / line[field]).exists():
                path = folder / line[field]
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(SHORT_CORPUS / line[field], path)
    return write_lines(folder / name, lines)


def without_context(lines: Lines) -> Lines:
    return [{name: line[name] for name in line if not name.startswith("context_")} for line in lines]


def corpus(folder: Path) -> None:
    """24 records of 4 speakers; 6 more of another; segments of a long file; texts beside the audio, and in a list."""
    with_audio(folder, "with_context.json", records())
    with_audio(folder, "manifest.json", without_context(records()))
    with_audio(folder, "more.json", without_context(records("s02")))
    with_audio(folder, "both.json", without_context(records("s02") + records("s01")))
    for line in records():
        (folder / line["audio_filepath"]).with_suffix(".txt").write_text(f"{line['text']}\n", encoding="utf-8")
    write_audio(folder / "voice.wav", 0.5, 24000)
    shutil.copytree(MINI_CORPUS / "long", folder / "long")
    shutil.copy(MINI_CORPUS / "segments.json", folder)
    turns = (("0.05", "2.40", "a"), ("2.30", "2.00", "b"), ("4.59", "3.10", "a"), ("8.05", "8.60", "b"))
    lines = [f"SPEAKER s01 1 {start} {seconds} <NA> <NA> {who} <NA> <NA>\n" for start, seconds, who in turns]
    (folder / "turns.rttm").write_text("".join(lines))
    wrong = [line | {"duration": line["duration"] + 0.1 * (number % 3)} for number, line in enumerate(records())]
    with_audio(folder, "wrong_durations.json", without_context(wrong))
    names = [f"{line['audio_filepath']}|{line['text']}|{line['speaker'][-5:-2]}\n" for line in records()]
    (folder / "filelist.txt").write_text("".join(names), encoding="utf-8")
    (folder / "list.txt").write_text("".join(f"{line['audio_filepath']}\n" for line in records()), encoding="utf-8")
    rows = [f'{line["audio_filepath"]},"{line["text"]}",{line["lang"]}\n' for line in records()]
    (folder / "table.csv").write_text("path,sentence,locale\n" + "".join(rows), encoding="utf-8")
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in corpus_texts()), encoding="utf-8")


def chats(folder: Path) -> None:
    """Conversations in NeMo's form, of ShareGPT, ms-swift and Qwen, and such that cannot be used."""
    lines = without_context(records("s01", "s05"))
    with_audio(folder, "manifest.json", lines)
    (folder / "manifest.json").unlink()
    write_lines(folder / "nemo.jsonl", conversations_of(lines))
    pairs = [(line["audio_filepath"], line["text"]) for line in lines]
    share_gpt = [
        {"sound": path, "conversations": [{"from": "human", "value": "<sound>"}, {"from": "gpt", "value": text}]}
        for path, text in pairs
    ]
    swift = [
        {"audios": [path, path], "messages": [said("user", "<audio><audio>Compare."), said("assistant", text)]}
        for path, text in pairs
    ]
    qwen = [
        {"messages": [said("user", [{"type": "audio", "audio_url": path}]), said("assistant", text)]}
        for path, text in pairs
    ]
    for name, objects in {"share_gpt": share_gpt, "swift": swift, "qwen": qwen}.items():
        write_lines(folder / f"{name}.jsonl", objects)
    bad: Lines = [swift[0] | {"audios": []}, swift[1] | {"audios": ["none.wav", "none.wav"]}, {"messages": []}]
    write_lines(folder / "bad.jsonl", [*bad, {"messages": [said("narrator", "x")]}, *share_gpt])


def said(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def bad_lines(folder: Path) -> None:
    """Every third line cannot be used, or is odd: what the gate decides."""
    texts = [json.dumps(line, ensure_ascii=False) for line in without_context(records())]
    with_audio(folder, "manifest.json", records())
    first = without_context(records())[0]
    odd: list[Any] = [
        "{", "[1, 2]", "", "null", '{"audio_filepath": "s01/s01_u1.flac"', first | {"duration": -1.0},
        first | {"duration": "0.1"}, first | {"duration": None}, first | {"text": 7}, first | {"text": ["a"]},
        first | {"text": None}, first | {"audio_filepath": 3}, {"duration": 1.0, "text": "no path"},
        first | {"offset": 100.0}, first | {"offset": -0.5}, first | {"offset": 0.05, "duration": 0.5},
        first | {"offset": 0.0, "duration": 0.1006}, first | {"_skipme": True}, first | {"sampling_rate": 8000},
        first | {"speaker": 5}, first | {"lang": False}, first | {"id": "twice"}, first | {"id": "twice"},
        first | {"audio_filepath": "../away.flac"},
    ]  # fmt: skip
    lines = [line if isinstance(line, str) else json.dumps(line) for line in odd]
    lines += ['{"audio_filepath": "s01/s01_u1.flac", "duration": NaN, "text": "x", "speaker": NaN}']
    joined = [line for pair in zip(texts, lines, strict=False) for line in pair] + lines[len(texts) :]
    data = "\n".join(joined).encode() + b'\n{"audio_filepath": "s01/\xff.flac", "duration": 1, "text": "x"}\n'
    (folder / "manifest.json").write_bytes(data)


def bad_audio(folder: Path) -> None:
    """One file each is missing, empty, cut, damaged, noise, a folder; one has another duration, one two channels."""
    lines = without_context(records())
    with_audio(folder, "manifest.json", lines)
    paths = [folder / line["audio_filepath"] for line in lines]
    paths[1].unlink()
    paths[3].write_bytes(b"")
    paths[5].write_bytes(paths[5].read_bytes()[:-400])
    data = bytearray(paths[7].read_bytes())
    data[len(data) // 2] ^= 0xFF
    paths[7].write_bytes(data)
    paths[9].write_bytes(bytes(range(256)) * 20)
    paths[11].unlink()
    paths[11].mkdir()
    lines[13]["duration"] += 1.0
    samples, rate = soundfile.read(paths[15], dtype="int16", always_2d=True)
    soundfile.write(paths[15], samples.repeat(2, 1), rate)
    write_lines(folder / "manifest.json", lines)


def many_rejects(folder: Path) -> None:
    """Half of the files are missing: more than --max-rejects allows."""
    lines = without_context(records())
    with_audio(folder, "manifest.json", lines)
    for line in lines[::2]:
        (folder / line["audio_filepath"]).unlink()


def _source(kind: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        manifest = with_audio(folder.with_name("draft"), "manifest.json", without_context(records("s01", "s05")))
        SOURCES[kind](manifest, folder)
        shutil.rmtree(manifest.parent)

    return make


def _data(line: dict[str, Any], field: str = "audio_filepath") -> bytes:
    path: Path = SHORT_CORPUS / line[field]
    return path.read_bytes()


def _recording(name: str, line: dict[str, Any], field: str, source: dict[str, Any]) -> dict[str, Any]:
    info = soundfile.info(str(SHORT_CORPUS / line[field]))
    size = {"num_samples": info.frames, "duration": info.duration}
    return {"id": name, "sources": [source], "sampling_rate": info.samplerate, "channel_ids": [0], **size}


def _cut(name: str, line: dict[str, Any], recording: dict[str, Any]) -> dict[str, Any]:
    length = {"start": 0, "duration": recording["duration"], "channel": 0}
    words = {"text": line["text"], "speaker": line["speaker"], "language": line["lang"]}
    speech = {"id": f"{name}-0", "recording_id": recording["id"], **length, **words}
    return {"id": name, **length, "supervisions": [speech], "recording": recording, "type": "MonoCut"}


def shar(folder: Path) -> None:
    """Two shards as lhotse writes them: cuts, and their recordings under the cuts' names."""
    lines = without_context(records())
    for name in ("cuts", "recording"):
        (folder / name).mkdir(parents=True)
    for shard, part in enumerate((lines[:12], lines[12:])):
        cuts, members = [], []
        for number, line in enumerate(part):
            name = f"cut-{12 * shard + number}"
            recording = _recording(name, line, "audio_filepath", {"type": "memory", "channels": [0], "source": ""})
            members += [(f"{name}.flac", _data(line)), (f"{name}.json", json.dumps(recording).encode())]
            cuts.append(_cut(name, line, {**recording, "sources": [{**recording["sources"][0], "type": "shar"}]}))
        text = "".join(f"{json.dumps(cut)}\n" for cut in cuts)
        (folder / f"cuts/cuts.{shard:06d}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        write_tar(folder / f"recording/recording.{shard:06d}.tar", members)


def wenet(folder: Path) -> None:
    lines = records()
    folder.mkdir()
    for shard, part in enumerate((lines[:12], lines[12:])):
        named = [(Path(line["audio_filepath"]).stem, line) for line in part]
        pairs = [((f"{name}.txt", line["text"].encode()), (f"{name}.flac", _data(line))) for name, line in named]
        write_tar(folder / f"shards_{shard:09d}.tar", [member for pair in pairs for member in pair])
    (folder / "shards.list").write_text("".join(f"wenet/shards_{shard:09d}.tar\n" for shard in range(2)))


def cuts(folder: Path) -> None:
    """Cuts in one file, and recordings and supervisions apart."""
    lines = without_context(records())
    with_audio(folder, "manifest.json", lines)
    (folder / "manifest.json").unlink()
    named = [(f"rec-{number}", line) for number, line in enumerate(lines)]
    sources = [{"type": "file", "channels": [0], "source": f"cuts/{line['audio_filepath']}"} for line in lines]
    recordings = [_recording(*pair, "audio_filepath", source) for pair, source in zip(named, sources, strict=True)]
    made = [_cut(f"cut-{one['id']}", line, one) for one, line in zip(recordings, lines, strict=True)]
    for name, documents in {
        "cuts": made,
        "recordings": recordings,
        "supervisions": [cut["supervisions"][0] for cut in made],
    }.items():
        (folder / ("" if name == "cuts" else "apart")).mkdir(exist_ok=True)
        path = folder / ("" if name == "cuts" else "apart") / f"{name}.jsonl.gz"
        path.write_bytes(gzip.compress("".join(f"{json.dumps(one)}\n" for one in documents).encode(), mtime=0))


def kaldi(folder: Path) -> None:
    """A data directory; the text of an utterance is missing."""
    lines = without_context(records())
    with_audio(folder, "manifest.json", lines)
    (folder / "manifest.json").unlink()
    names = [f"utt{number:03d}" for number in range(len(lines))]
    for name, values in {
        "wav.scp": [f"kaldi/{line['audio_filepath']}" for line in lines],
        "text": [line["text"] for line in lines],
        "utt2spk": [line["audio_filepath"][:3] for line in lines],
    }.items():
        rows = [f"{key} {value}\n" for key, value in zip(names, values, strict=True)]
        (folder / name).write_text("".join(rows[: -1 if name == "text" else None]), encoding="utf-8")


def tokens(folder: Path) -> None:
    """A tokenizer, and data configs of texts and of a manifest."""
    folder.mkdir()
    train_sentencepiece(folder / "tokenizer.model")
    for name, texts in {"a.txt": corpus_texts(), "b.txt": corpus_texts()[::-1]}.items():
        (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    pair = "{type: txt_pair, source_paths: tokens/a.txt, target_paths: tokens/b.txt}"
    (folder / "texts.yaml").write_text(f"- {pair}\n")
    (folder / "train.yaml").write_text("train_ds:\n  batch_duration: 100  # seconds\n")


def copies(folder: Path) -> None:
    """Corpora that users have a copy of."""
    miniatures.write_files(miniatures.aishell2(nemo_layout=False), folder / "aishell2")
    miniatures.write_files(miniatures.hifitts2(), folder / "hifitts2")
    lhotse_trees.ljspeech(folder / "ljspeech")
    make_fisher.make_fisher(folder / "fisher", 4, 20.0)
    said = [make_fisher.Said(0.5, 5.0, "A", 300, "HE IS A POLICE OFFICER")]
    write_tree(folder / "hub5", {"en_4156": said}, [stm("en_4156", said[0])], 8.0)
    (folder / "archives").mkdir()
    name = "cv-corpus-25.0-2026-03-09-en.tar.gz"
    (folder / "archives" / name).write_bytes(miniatures.ARCHIVES[name]())
    with tarfile.open(folder / "archives" / name) as tar:
        tar.extractall(folder / "common_voice")  # Python 3.11.2 of Debian 12 knows no `filter`


def published(folder: Path) -> None:
    """What the server serves, and the checksums of it."""
    folder.mkdir()
    archives = {name: make() for name, make in miniatures.ARCHIVES.items()}
    miniatures.write_files(archives, folder)
    (folder / "sums.txt").write_text(miniatures.checksum_list(archives))


def plugin(folder: Path) -> None:
    """A codec as a package of its own, which Python finds in the folder of the calls: `--codec-model golden:1`."""
    folder.mkdir()
    shutil.copy(toy_codec.__file__, folder / "golden_codec.py")
    (folder / "golden_codec-1.dist-info").mkdir()
    (folder / "golden_codec-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: golden-codec\nVersion: 1\n")
    (folder / "golden_codec-1.dist-info/entry_points.txt").write_text("[prepcli.codecs]\ngolden = golden_codec:load\n")


INPUTS: dict[str, Callable[[Path], None]] = {
    "corpus": corpus,
    "chats": chats,
    "bad_lines": bad_lines,
    "bad_audio": bad_audio,
    "many_rejects": many_rejects,
    "nemo_tarred": _source("tarred of NeMo"),
    "shar": shar,
    "wenet": wenet,
    "webdataset": _source("webdataset"),
    "datasets": _source("parquet of datasets"),
    "omnilingual": _source("parquet of bytes"),
    "zip": _source("zip, stored"),
    "zip_deflated": _source("zip, deflated"),
    "tar_gz": _source("compressed tar"),
    "cuts": cuts,
    "kaldi": kaldi,
    "tokens": tokens,
    "copies": copies,
    "published": published,
    "plugin": plugin,
}


def make_inputs(folder: Path) -> None:
    """Write all inputs into a folder."""
    with patch("time.time", lambda: float(THEN)):  # which zip and gzip write into their headers
        for name, make in INPUTS.items():
            if not (folder / name).exists() and name.startswith(("nemo", "web", "datasets", "omni", "zip", "tar")):
                (folder / name).mkdir(parents=True)
            make(folder / name)
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (THEN, THEN))
