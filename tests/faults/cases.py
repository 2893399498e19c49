"""The commands that are disturbed: each makes its inputs once, and has about three small units."""

import importlib.util
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands.download.lhotse_trees import ljspeech
from tests.commands.download.miniatures import an4, hifitts2, tar_gz, write_files
from tests.commands.download.server import Site, serving
from tests.conftest import SHORT_CORPUS, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.conversations import write_conversations
from tests.support.running import prepcli
from tests.support.tools import need_package

NUM_RECORDS = 9


@dataclass(frozen=True)
class Place:
    """Where a command reads and writes: `inputs`, `template` (what is in `run` before) and `run`."""

    folder: Path
    stack: ExitStack

    @property
    def inputs(self) -> Path:
        return self.folder / "inputs"

    @property
    def template(self) -> Path:
        return self.folder / "template"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def out(self) -> Path:
        return self.run / "out"

    def manifest(self, first: int = 0, count: int = NUM_RECORDS, name: str = "manifest.json") -> Path:
        """Records of the short corpus, as files of our own."""
        records = read_lines(SHORT_CORPUS / "manifest_with_context.json")[first : first + count]
        for record in records:
            for field in ("audio_filepath", "context_audio_filepath"):
                path = self.inputs / record[field]
                path.parent.mkdir(exist_ok=True)
                path.write_bytes((SHORT_CORPUS / record[field]).read_bytes())
                record[field] = str(path)
        return write_lines(self.inputs / name, records)


def _made(*arguments: object) -> None:
    done = prepcli(*arguments)
    assert done.code == 0, done.err


def _export(command: str, *options: object) -> Callable[[Place], list[object]]:
    return lambda place: [command, place.manifest(), place.out, *options]


def _tarred(place: Place) -> list[object]:
    return ["manifest-to-tarred", place.manifest(), place.out, "--num-shards", 3, "--target-sample-rate", 8000]


def _reshuffled(place: Place) -> list[object]:
    _made("manifest-to-tarred", place.manifest(), place.inputs / "set", "--num-shards", 2)
    return ["manifest-to-wenet", place.inputs / "set", place.out, "--shard-size", 3, "--shuffle"]


def _conversations(form: str) -> Callable[[Place], list[object]]:
    def make(place: Place) -> list[object]:
        chats = write_conversations(place.manifest())
        return ["conversations-to-tarred", chats, place.out, "--shard-size", 3, "--form", form]

    return make


def _concat(place: Place) -> list[object]:
    # The set notes no path of its own, so it can be made where it is copied to each time.
    _made("manifest-to-tarred", place.manifest(count=6, name="first.json"), place.out, "--num-shards", 2)
    place.run.rename(place.template)
    return ["manifest-to-tarred", place.manifest(6, 9), "--concat-to", place.out]


def _undo(place: Place) -> list[object]:
    _made("manifest-to-tarred", place.manifest(count=6, name="first.json"), place.out, "--num-shards", 2)
    _made("manifest-to-tarred", place.manifest(6, 3, name="more.json"), "--concat-to", place.out)
    place.run.rename(place.template)
    return ["manifest-to-tarred", "--undo-concat", place.out]


def _codes(place: Place) -> list[object]:
    shar = place.inputs / "shar"
    _made("manifest-to-shar", place.manifest(), shar, "--shard-size", 3)
    return ["extend-codec-codes", shar, "--codec-model", "toy", "--pool-duration", 0.2, "--output-dir", place.out]


def _codes_of_files(place: Place) -> list[object]:
    options = ("--codec-model", "toy", "--pool-duration", 0.5, "--output-dir", place.out)
    return ["extend-codec-codes", place.manifest(), *options]


def _codes_for(form: str, codec: str, *options: object) -> Callable[[Place], list[object]]:
    def make(place: Place) -> list[object]:
        write_audio(place.inputs / "voice.wav", 0.2, 24000)
        reference = ("--ref-audio", place.inputs / "voice.wav") if form == "qwen3-tts" else ()
        words = ("--codec-model", codec, "--output-dir", place.out, *reference, *options)
        return ["extend-codec-codes", place.manifest(), "--output-form", form, *words]

    return make


def _context(place: Place) -> list[object]:
    options = ("--speaker-model", "toy", "--context-min-ssim", 0, "--context-min-duration", 0.1)
    return ["extend-context-audio", place.manifest(count=14), place.out, *options, "--max-rejects", 14]


def _make_manifest(place: Place) -> list[object]:
    place.manifest(count=24)
    (place.inputs / "manifest.json").unlink()
    return ["make-manifest", place.inputs, place.run / "out.json", "--absolute-paths"]


def _fix_durations(place: Place) -> list[object]:
    return ["fix-durations", place.manifest(), place.run / "out.json"]


def _filter(place: Place) -> list[object]:
    rules = ("--drop", "duration > quantile(duration, 0.8)", "--unique", "text")
    return ["filter", place.manifest(count=24), place.run / "out.json", *rules]


def _marks(place: Place) -> list[object]:
    _made("manifest-to-tarred", place.manifest(count=6, name="first.json"), place.out, "--num-shards", 2)
    _made("manifest-to-tarred", place.manifest(6, 3, name="more.json"), "--concat-to", place.out)
    place.run.rename(place.template)
    return ["filter", place.out, "--drop", "duration > quantile(duration, 0.5)", "--skipme"]


def _split(place: Place) -> list[object]:
    return ["split", place.manifest(count=24), place.out, "--part", "train=0.75", "--part", "test=0.25", "--by", "none"]


def _duplicates(place: Place) -> list[object]:
    manifest = place.manifest()
    prints = place.run / "all.prints"
    words: list[object] = ["find-duplicates", manifest, manifest, place.run / "out.jsonl"]
    return [*words, "--by", "audio,near-audio,text", "--write-prints", prints]


def _score(place: Place) -> list[object]:
    need_package("pyloudnorm")
    return ["score", place.manifest(), place.run / "out.json"]


def _segment(place: Place) -> list[object]:
    manifest = place.manifest()
    (place.inputs / "times").mkdir()
    for record in read_lines(manifest):
        stem = Path(record["audio_filepath"]).stem
        (place.inputs / f"times/{stem}.rttm").write_text(f"SPEAKER {stem} 1 0 0.1 <NA> <NA> anna <NA> <NA>\n")
    times = ("--times", place.inputs / "times", "--rttm-out", place.run / "rttm")
    return ["segment", manifest, place.run / "out.json", "--by", "windows", "--window", 0.1, "--min", 0.02, *times]


def _texts(place: Place) -> list[object]:
    for name in ("a.en", "a.de"):
        (place.inputs / name).write_text("".join(f"{name} {number}\n" for number in range(30)))
    return ["texts-to-shards", place.inputs / "a.en", place.out, "--target", place.inputs / "a.de", "--num-shards", 3]


def _prepare_texts(place: Place) -> list[object]:
    lines = "".join(f"Line {number} of a text that somebody may read.\n" for number in range(30))
    (place.inputs / "texts.txt").write_text(lines)
    return ["prepare-texts", place.inputs / "texts.txt", place.run / "out.json"]


def _index(place: Place) -> list[object]:
    place.template.mkdir()
    _made("manifest-to-shar", place.manifest(), place.template / "shar", "--shard-size", 3, "--indexed")
    shutil.rmtree(place.template / "shar" / "index")
    _made("manifest-to-tarred", place.manifest(), place.template / "tarred", "--num-shards", 3)
    return ["index", place.run / "shar", place.run / "tarred"]


def _download(place: Place) -> list[object]:
    site = place.stack.enter_context(serving(Site({"an4_sphere.tar.gz": tar_gz(an4())})))
    return ["download", "an4", "--data-root", place.out, "--base-url", site.url]


def _lhotse(place: Place) -> list[object]:
    """The manifests of a recipe that has ended: importing lhotse would take longer than all else."""
    if importlib.util.find_spec("lhotse") is None:
        pytest.skip("lhotse is not installed")
    words = ["download", "lhotse", "ljspeech", *ljspeech(place.inputs / "corpus"), "--data-root", place.out]
    _made(*words)
    shutil.rmtree(place.out)
    place.run.rename(place.template)
    return words


def _chapters(place: Place) -> list[object]:
    copy = write_files(hifitts2(), place.inputs)
    whole = [line for line in read_lines(copy / "manifest_22khz.json") if line["speaker"] in ("9219", "9220")]
    write_lines(copy / "manifest_22khz.json", whole[:NUM_RECORDS])
    return ["download", "hifitts2", "--data-root", place.out, "--metadata", copy, "--chapters", copy / "chapters"]


def _blend(place: Place) -> list[object]:
    manifest = place.manifest()
    _made("manifest-to-tarred", manifest, place.inputs / "tarred", "--num-shards", 2)
    return ["blend", f"a={place.inputs / 'tarred'}:0.7", f"b={manifest}:0.3", place.run / "mix.yaml", "--no-check"]


def _write_config(place: Place) -> list[object]:
    place.template.mkdir()
    (place.template / "config.yaml").write_text("train_ds:\n  batch_duration: 100  # seconds\n")
    return ["estimate-bins", place.manifest(), "-b", 3, "--write-config", place.run / "config.yaml"]


def _mels(place: Place) -> list[object]:
    write_audio(place.inputs / "talk.wav", 4.0, 22050)
    records = [
        {"audio_filepath": "talk.wav", "offset": number * 0.3, "duration": 0.3, "text": str(number)}
        for number in range(NUM_RECORDS)
    ]
    return ["manifest-to-mels", write_lines(place.inputs / "manifest.json", records), place.out, "--devices", "cpu"]


CASES: dict[str, Callable[[Place], list[object]]] = {
    "tarred": _tarred,
    "concat": _concat,
    "shar": _export("manifest-to-shar", "--shard-size", 3, "--indexed"),
    "wenet": _export("manifest-to-wenet", "--shard-size", 3),
    "parquet": _export("manifest-to-parquet", "--shard-size", 3),
    "conversations": _conversations("nemo"),
    "pairs": _conversations("sharegpt-webdataset"),
    "texts": _texts,
    "reshuffled": _reshuffled,
    "omnilingual": _export("manifest-to-parquet", "--form", "omnilingual", "--corpus", "c", "--set-split", "train"),
    "mels": _mels,
    "convert": _export("convert-audio", "--force-codec", "flac"),
    "codes": _codes,
    "codes-of-files": _codes_of_files,
    "omnivoice": _codes_for("omnivoice", "toy8", "--shard-size", 3),
    "qwen3-tts": _codes_for("qwen3-tts", "toy16", "--pool-duration", 0.5),
    "context": _context,
    "make-manifest": _make_manifest,
    "fix-durations": _fix_durations,
    "filter": _filter,
    "marks": _marks,
    "split": _split,
    "duplicates": _duplicates,
    "score": _score,
    "segment": _segment,
    "prepare-texts": _prepare_texts,
    "index": _index,
    "download": _download,
    "lhotse": _lhotse,
    "chapters": _chapters,
    "blend": _blend,
    "write-config": _write_config,
}

ONCE: dict[str, Callable[[Place], list[object]]] = {"undo": _undo}
"""Commands that leave nothing for a second call to do, and so refuse it."""
