"""The jobs of the kill matrix and of the soak test: what each is given, and when it is killed and continued."""

import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prepcli.commands.exports.mels.clips import RECORDS_PER_UNIT
from tests.commands.download.lhotse_trees import install_stand_in
from tests.commands.download.make_fisher import folders, make_fisher
from tests.commands.download.miniatures import SPEAKERS, an4, checksum_list, librispeech, tar_gz
from tests.commands.download.server import Site, serving
from tests.conftest import MINI_CORPUS, Lines, make_set, read_lines, write_lines
from tests.jobs.killing import Case, Environ, Victim, kill_a_worker, kill_main, undisturbed
from tests.support.audio_files import write_audio
from tests.support.conversations import conversations_of
from tests.support.running import Process
from tests.support.shar_sets import make, rewrite_tar


def with_missing(records: Lines, count: int, step: int) -> Lines:
    """The records, and some without audio between them."""
    for number in range(count):
        records.insert(step * number, {"audio_filepath": f"missing_{number}.wav", "duration": 1.0, "text": ""})
    return records


def segments(turns: int, missing: int, step: int) -> Lines:
    """The mini corpus so many times, as segments whose offsets differ, and records without audio."""
    records = [
        record | {"audio_filepath": str(MINI_CORPUS / record["audio_filepath"]), "offset": turn * 0.01, "duration": 0.9}
        for turn in range(turns)
        for record in read_lines(MINI_CORPUS / "manifest.json")
    ]
    return with_missing(records, missing, step)


def tarred(folder: Path) -> Case:
    """1.5 s of work."""
    manifest = write_lines(folder / "manifest.json", segments(5, 7, 30))
    options = ("--num-shards", 12, "--slice-with-offset", "--target-sample-rate", 16000, "--shuffle")
    return undisturbed(Case("manifest-to-tarred", manifest, options, 12, 7), folder)


def reshuffled(folder: Path) -> Case:
    """A tarred set as the input, with a line whose member is missing and a member that no line names."""
    make_set("manifest-to-tarred", write_lines(folder / "m.json", segments(5, 0, 1)), folder / "set", "--num-shards", 4)
    lines = folder / "set" / "sharded_manifests" / "manifest_0.json"
    first, *others = read_lines(lines)
    write_lines(lines, [first | {"audio_filepath": "missing.flac"}, *others])
    options = ("--num-shards", 12, "--slice-with-offset", "--target-sample-rate", 16000, "--shuffle")
    return undisturbed(Case("manifest-to-tarred", folder / "set", options, 12, 1), folder)


def shar(folder: Path, *more: str) -> Case:
    """Three files per shard, which must appear together; the target or the context of seven records is missing."""
    corpus = read_lines(MINI_CORPUS / "manifest.json")
    records = []
    for turn in range(3):
        for number, record in enumerate(corpus):
            other = corpus[number + 1 if number % 6 == 0 else number - 1]
            context = {"context_audio_offset": turn * 0.01, "context_audio_duration": 0.9}
            context["context_audio_filepath"] = other["audio_filepath"]
            records.append(record | {"offset": turn * 0.01, "duration": 0.9} | context)
    for number in range(7):
        which = "context_audio_filepath" if number % 2 else "audio_filepath"
        records.insert(20 * number, records[number] | {which: f"missing_{number}.wav"})
    manifest = write_lines(folder / "manifest.json", records)
    size = -(-len(records) // 12)
    options = ("--audio-base-dir", MINI_CORPUS, "--shard-size", size, "--target-sample-rate", 44100, "--shuffle", *more)
    return undisturbed(Case("manifest-to-shar", manifest, options, 12, 7), folder)


def indexed_shar(folder: Path) -> Case:
    """Plain cuts, and indexes of all fields beside the shards; an index appears after its data."""
    case = shar(folder, "--indexed")
    assert sum(name.endswith(".idx") for name in case.undisturbed) == 3 * case.num_units
    return case


class ListCase(Case):
    """`shards.list` has the same bytes in every folder if its paths are relative to that folder."""

    def arguments(self, out: Path) -> list[object]:
        return [*super().arguments(out), "--relative-to", out]


def export(make: type[Case], command: str, folder: Path) -> Case:
    """Segments that are resampled, and three records without audio, in 12 files."""
    manifest = write_lines(folder / "manifest.json", records := segments(3, 3, 40))
    options = ("--shard-size", -(-len(records) // 12), "--target-sample-rate", 44100, "--shuffle")
    return undisturbed(make(command, manifest, options, 12, 3), folder)


def mels(folder: Path) -> Case:
    """Hundreds of small files for each unit: segments of a long file, and three records without audio."""
    write_audio(folder / "talk.wav", 60.0, 22050)
    records = [
        {"audio_filepath": "talk.wav", "offset": number * 0.03, "duration": 0.4, "text": str(number)}
        for number in range(6 * RECORDS_PER_UNIT - 3)
    ]
    manifest = write_lines(folder / "manifest.json", with_missing(records, 3, 60))
    return undisturbed(Case("manifest-to-mels", manifest, ("--devices", "cpu"), 6, 3), folder)


def conversations(folder: Path) -> Case:
    """Conversations of segments that are resampled, and three without audio, in 12 shards."""
    chats = write_lines(folder / "chats.jsonl", conversations_of(segments(3, 3, 40)))
    options = ("--num-shards", 12, "--target-sample-rate", 44100, "--shuffle")
    return undisturbed(Case("conversations-to-tarred", chats, options, 12, 3), folder)


def texts(folder: Path) -> Case:
    """Pairs of lines in a new order, three of them empty, in 12 shards."""
    for name in ("texts.en", "texts.de"):
        lines = ["" if number % 50_000 == 7 else f"{name} {number}" for number in range(150_000)]
        (folder / name).write_text("\n".join(lines) + "\n")
    options = ("--target", folder / "texts.de", "--num-shards", 12, "--shuffle", "--max-rejects", 3)
    return undisturbed(Case("texts-to-shards", folder / "texts.en", options, 12, 3, verified=False), folder)


def omnilingual(folder: Path) -> Case:
    """A file for each of five languages, and one for three records without language and audio."""
    manifest = write_lines(folder / "manifest.json", segments(3, 3, 40))
    options = ("--form", "omnilingual", "--corpus", "mini", "--set-split", "train", "--set-lang", "en")
    return undisturbed(Case("manifest-to-parquet", manifest, options, 6, 3), folder)


def converted(folder: Path) -> Case:
    """Files that several records share, in units of 64 records, and three records without audio."""
    records = [record for record in segments(4, 0, 1) for _ in range(2)]
    manifest = write_lines(folder / "manifest.json", with_missing(records, 3, 60))
    options = ("--target-sample-rate", 44100)
    return undisturbed(Case("convert-audio", manifest, options, 7, 3, units="files_*"), folder)


def make_manifest(folder: Path) -> Case:
    """The mini corpus ten times by links, and seven damaged files; the output is a file."""
    for turn in range(10):
        for path in sorted(MINI_CORPUS.glob("s0*/*.flac")):
            link = folder / f"audio/{turn}/{path.name}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    for number in range(7):
        (folder / f"audio/{number}/s03_u3.flac").unlink()
        (folder / f"audio/{number}/s03_u3.flac").write_bytes(b"fLaC")
    options = ("--absolute-paths", "--speaker-pattern", r"s\d+")
    more: dict[str, Any] = {"units": "lines_*", "verified": False, "module": "tests.jobs.slow_probe"}
    case = undisturbed(Case("make-manifest", folder / "audio", options, 15, 7, **more), folder)
    assert [*case.undisturbed] == ["."]
    return case


def filtered(folder: Path) -> Case:
    """Lines of 3 MB in 64 units; the output is a file. A line without a duration is a reject."""
    records = [
        {"audio_filepath": f"/audio/{number}.wav", "duration": number % 20 + 0.5, "text": str(number) * 30}
        for number in range(16_000)
    ]
    records[100] = {"audio_filepath": "/audio/x.wav"}
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--drop", "duration > quantile(duration, 0.9)", "--unique", "text", "--max-rejects", 1)
    more: dict[str, Any] = {"units": "lines_*", "verified": False}
    return undisturbed(Case("filter", manifest, options, 64, 1601, **more), folder)


def divided(folder: Path) -> Case:
    """Lines of 3 MB in 64 units, of 40 speakers, for two parts; a third of the hours is in no part."""
    records = [
        {"audio_filepath": f"/audio/{n}.wav", "duration": n % 20 + 0.5, "speaker": str(n % 40), "text": str(n) * 30}
        for n in range(16_000)
    ]
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--part", "train=0.5", "--part", "test=800")
    return undisturbed(Case("split", manifest, options, 64, 6400, units="lines_*", verified=False), folder)


def duplicates(folder: Path) -> Case:
    """Segments of the mini corpus six times, of which each is there twice, and three records without audio."""
    records = with_missing([*segments(3, 0, 1), *segments(3, 0, 1)] * 8, 3, 100)
    for record in records:
        record["duration"] = 1.03  # shorter ones have no fingerprint
    manifest = write_lines(folder / "manifest.json", records)
    case = Case("find-duplicates", manifest, ("--by", "audio,near-audio"), 5, 3, units="audio_*", verified=False)
    return undisturbed(case, folder)


def scores(folder: Path) -> Case:
    """Segments of the mini corpus in five units; three records have no audio."""
    manifest = write_lines(folder / "manifest.json", with_missing(segments(8, 0, 1) * 3, 3, 400))
    case = Case("score", manifest, (), 5, 3, units="records_*", verified=False)
    return undisturbed(case, folder)


def segmented(folder: Path) -> Case:
    """Hours of recordings in six units, by the words of a file of all; three recordings have no audio."""
    write_audio(folder / "talk.wav", 3600.0, 8000)
    paths = [folder / f"talk{number}.wav" for number in range(12)]
    for path in paths:
        path.symlink_to("talk.wav")
    records = [{"audio_filepath": str(path), "duration": 3600.0} for path in paths]
    rows = [f"talk{talk} 1 {3 * number} 0.4 word{number}\n" for talk in range(12) for number in range(1200)]
    (folder / "all.ctm").write_text("".join(rows))
    for record in with_missing(records, 3, 4):
        record["audio_filepath"] = str(folder / record["audio_filepath"])
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--by", "times", "--times", folder / "all.ctm", "--join-pause", 3, "--max-rejects", 3)
    more: dict[str, Any] = {"units": "records_*", "verified": False}
    return undisturbed(Case("segment", manifest, options, 6, 3, **more), folder)


def voices(folder: Path) -> Case:
    """The mini corpus with two names for each speaker, and three records without audio."""
    records = read_lines(MINI_CORPUS / "manifest.json")
    for number, record in enumerate(records):
        record["audio_filepath"] = str(MINI_CORPUS / record["audio_filepath"])
        record["speaker"] += f" {number % 2}"
    for number in range(3):
        records.insert(11 * number, dict(records[0], audio_filepath=f"missing_{number}.wav"))
    options = ("--by", "speaker", "--speaker-model", "toy", "--min-voice-similarity", 0.9, "--max-rejects", 3)
    more: dict[str, Any] = {"units": "speakers_*", "module": "tests.support.toy_voice", "verified": False}
    manifest = write_lines(folder / "manifest.json", records)
    return undisturbed(Case("find-duplicates", manifest, options, 16, 3, **more), folder)


def context(folder: Path) -> Case:
    """The mini corpus with each speaker in two groups: 16 bundles; three records without audio."""
    records = read_lines(MINI_CORPUS / "manifest.json")
    for number, record in enumerate(records):
        record["audio_filepath"] = str(MINI_CORPUS / record["audio_filepath"])
        record["speaker"] += f" {number % 2}"
    for number in range(3):
        records.insert(11 * number, dict(records[0], audio_filepath=f"missing_{number}.wav"))
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--speaker-model", "toy", "--context-min-ssim", 0, "--context-min-duration", 1, "--max-rejects", 3)
    more: dict[str, Any] = {"units": "bundle_*", "module": "tests.support.toy_voice", "verified": False}
    return undisturbed(Case("extend-context-audio", manifest, options, 16, 3, **more), folder)


CODES: dict[str, Any] = {"module": "tests.support.toy_codec", "out_option": "--output-dir", "records": "codes_toy"}


def noisy_shar(folder: Path, size: int, bad: int, step: int) -> Path:
    """The mini corpus in shards, of some of which a recording is damaged."""
    made = folder / "shar"
    make(MINI_CORPUS / "manifest_with_context.json", made, "--shard-size", size)
    for number in range(bad):
        tar = made / f"target_audio/recording.{step * number:06d}.tar"
        rewrite_tar(tar, lambda content: content.__setitem__(2, (content[2][0], b"noise")))
    return made


def codes(folder: Path) -> Case:
    """A unit is a shard of Shar."""
    options = ("--codec-model", "toy", "--pool-duration", 1, "--max-rejects", 3)
    source = noisy_shar(folder, 4, 3, 3)
    return undisturbed(Case("extend-codec-codes", source, options, 12, 3, units="shards_*", **CODES), folder)


def codes_of_manifest(folder: Path) -> Case:
    """Three files of a manifest are missing; contexts are in other units. The lines hold whole paths of codes."""
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")
    for number, record in enumerate(records):
        for name in ("audio_filepath", "context_audio_filepath"):
            record[name] = str(MINI_CORPUS / record[name])
        if number % 16 == 15:
            record["audio_filepath"] = f"missing_{number}.wav"
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--codec-model", "toy", "--pool-duration", 5, "--max-rejects", 3)
    case = Case("extend-codec-codes", manifest, options, 20, 3, units="records_*", place=folder / "out", **CODES)
    return undisturbed(case, folder)


def codes_for(form: str, codec: str, *options: object) -> Callable[[Path], Case]:
    """Three files of a manifest are missing; lines and lists hold whole paths."""

    def make(folder: Path) -> Case:
        records = segments(1, 3, 12)
        write_audio(folder / "voice.wav", 0.2, 24000)
        for record in records:
            record["ref_audio"] = str(folder / "voice.wav")
        manifest = write_lines(folder / "manifest.json", records)
        words = ("--codec-model", codec, "--output-form", form, "--max-rejects", 3, *options)
        more: dict[str, Any] = {**CODES, "records": f"codes_{codec}", "place": folder / "out"}
        units = {"omnivoice": "shard_*", "qwen3-tts": "records_*"}[form]
        return undisturbed(Case("extend-codec-codes", manifest, words, 17, 3, units=units, **more), folder)

    return make


class FisherCase(Case):
    """`manifest` is the LDC's tree."""

    def arguments(self, out: Path) -> list[object]:
        where = ["--ldc-root", self.manifest, "--dest-root", out]
        return ["download", "fisher", *where, *self.options, "--num-workers", 2]


def fisher(folder: Path) -> Case:
    """Sixty conversations, one without its recording: hundreds of small files, a few conversations at a time."""
    make_fisher(folder / "ldc", 60, 50.0)
    (folders(folder / "ldc", 7)[0] / "fe_03_00007.sph").unlink()
    options = ("--min-slice-duration", 0, "--max-rejects", 0.1)
    case = FisherCase("download fisher", folder / "ldc", options, 12 + 2 + 2, 0, units="t*_*", verified=False)
    rejects = undisturbed(replace(case, is_job=False), folder)
    listed = read_lines(folder / "out.prepcli/rejects.jsonl")
    assert {line["reject_reason"] for line in listed} == {"missing_audio"}
    return replace(rejects, num_rejects=len(listed), is_job=True)


class IndexCase(Case):
    """`index` writes files one by one; those of a killed run that are not done have a `~` in their names."""

    def arguments(self, out: Path) -> list[object]:
        return ["index", self.manifest, "--indexes-root", out, "--num-workers", 2]

    def progress(self, out: Path) -> int:
        return len(list(out.rglob("x*.idx")))

    def tree(self, out: Path) -> dict[str, str]:
        return {name: digest for name, digest in super().tree(out).items() if "~" not in name}


def index(folder: Path) -> Case:
    """Sixty tars."""
    make_set("manifest-to-tarred", MINI_CORPUS / "manifest.json", folder / "one", "--num-shards", 1, "--no-index")
    (folder / "many").mkdir()
    for number in range(60):
        shutil.copy(folder / "one/audio_0.tar", folder / f"many/x{number}.tar")
    case = undisturbed(IndexCase("index", folder / "many", (), 60, 0, verified=False, is_job=False), folder)
    assert len(case.undisturbed) == 60
    return case


@dataclass(frozen=True)
class FetchCase(Case):
    """A corpus from a server, whose connection breaks after 5 MB: there is time to be killed while a part lies there.

    `manifest` is the name of the archive. Fetching and unpacking are the work of one process.
    """

    site: Site | None = None

    def arguments(self, out: Path) -> list[object]:
        assert self.site is not None
        where = ["--data-root", out, "--base-url", self.site.url]
        return [*self.command.split(), *where, *self.options, "--num-workers", 2]

    def start(self, out: Path, *more: object, environ: Environ = None) -> Process:
        assert self.site is not None
        self.site.cut_after[:] = [5_000_000] * 3
        return super().start(out, *more, environ={"no_proxy": "127.0.0.1"} | (environ or {}))

    def progress(self, out: Path) -> int:
        """1 and 2: fetched; 3 and 4: unpacked; 5: all is unpacked; 6 and more: units."""
        part, work = out / f"archives/{self.manifest}.part", self.workspace(out)
        if (work / "unpacked.json").exists():
            return 5 + max(super().progress(out), 0)
        try:
            if unpacked := sum(1 for _ in (work / "unpacking").rglob("*.flac")):
                return 3 + (unpacked >= 120)
            size = part.stat().st_size
        except FileNotFoundError:  # it has just been moved
            return 0
        return (size > 0) + (size >= 5_000_000)

    def half(self, out: Path) -> list[str]:
        return [name for name in super().half(out) if not name.startswith("archives/")]


_SERVERS = ExitStack()
"""Open until this process ends."""


def fetched(folder: Path, command: str, name: str, archive: bytes, *options: object) -> Case:
    """The case of a download, after one whole run."""
    (folder / "md5sum.txt").write_text(checksum_list({name: archive}))
    site = _SERVERS.enter_context(serving(Site({name: archive})))
    data_set = name.partition(".")[0].replace("-", "_").removesuffix("_sphere")
    more: dict[str, Any] = {"records": f"sets/{data_set}", "units": "batch_*", "verified": False, "is_job": False}
    checksums = ("--checksums", folder / "md5sum.txt")
    case = FetchCase(f"download {command}", name, (*options, *checksums), 9, 0, **more, site=site)
    return undisturbed(case, folder)


def download(folder: Path) -> Case:
    """Every speaker five times: 240 utterances in 4 units, 12 MB."""
    archive = tar_gz(librispeech("dev-clean-2", SPEAKERS, copies=5))
    case = fetched(folder, "librispeech", "dev-clean-2.tar.gz", archive, "--data-sets", "dev_clean_2")
    assert sum(name.endswith(".wav") for name in case.undisturbed) == 240
    return case


def download_an4(folder: Path) -> Case:
    """Nine units."""
    return fetched(folder, "an4", "an4_sphere.tar.gz", tar_gz(an4(copies=60)))


@dataclass(frozen=True)
class LhotseCase(Case):
    """A corpus that a recipe of lhotse prepares, in a process of its own. `manifest` is the corpus."""

    site: Path = Path()
    """Has the stand-in for lhotse."""

    def arguments(self, out: Path) -> list[object]:
        return [*self.command.split(), self.manifest, "--data-root", out, *self.options, "--num-workers", 2]

    def start(self, out: Path, *more: object, environ: Environ = None) -> Process:
        return super().start(out, *more, environ={"PYTHONPATH": str(self.site)} | (environ or {}))

    def progress(self, out: Path) -> int:
        """1: the recipe has written a part of its output; 2: it has ended; 3 and more: units of the manifest."""
        state = self.workspace(out) / "sets/lhotse-ljspeech"
        if not (state / "prepared.json").exists():
            return int(any(state.glob("run-*/*")))
        return 2 + len(list((out / "toy_all.json.prepcli").glob(f"*/units/{self.units}/unit.json")))

    def tree(self, out: Path) -> dict[str, str]:
        return {name: digest for name, digest in super().tree(out).items() if ".prepcli/" not in name}


RECIPE = """
with (out / "toy_recordings_all.jsonl").open("w") as lines:
    for number in range(120):
        print(json.dumps(recording | {"id": f"r{number}"}), file=lines, flush=True)
        time.sleep(0.002)
sys.exit(0)
"""


def download_lhotse(folder: Path) -> Case:
    """A recipe that writes 120 recordings one by one, and the manifest of them."""
    site = install_stand_in(folder)
    (folder / "corpus/behaviour").write_text(RECIPE)
    more: dict[str, Any] = {"units": "lines_*", "module": "tests.jobs.slow_probe", "verified": False, "is_job": False}
    case = LhotseCase("download lhotse ljspeech", folder / "corpus", (), 8, 0, **more, site=site)
    case = undisturbed(case, folder)
    assert [*case.undisturbed] == ["toy_all.json"]
    return case


@dataclass(frozen=True)
class Job:
    """A job, and the moments of its rows; what is the same for all jobs is tried at more of them by `tarred`.

    Jobs whose processes import PyTorch have few rows; `python -m tests.soak` kills them as often as all others.
    """

    make: Callable[[Path], Case]
    kills: tuple[tuple[Victim, int, int], ...] = ((kill_main, 0, 1), (kill_a_worker, 3, 5))
    """Who is killed after how many steps, and how many ranks continue."""
    world_sizes: tuple[int, ...] = (2,)
    """How many ranks continue where one of two was killed."""
    signals: tuple[tuple[signal.Signals, int], ...] = ((signal.SIGTERM, 2),)
    """Which signals end it in good order after how many steps."""
    launches: tuple[tuple[Victim, int], ...] = ()
    """Which of three ranks is killed after how many steps, whose work the others do."""


INT, USR1, TERM = ((number, 2) for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM))
ALL = tuple((victim, *moment) for victim in (kill_main, kill_a_worker) for moment in ((0, 1), (3, 2), (8, 5)))
FETCHING = (*((kill_main, steps, 1) for steps in (1, 3, 4, 6)), (kill_a_worker, 7, 2))
STOPS = tuple((signal.SIGTERM, steps) for steps in (1, 3, 6))
JOBS = {
    "tarred": Job(tarred, ALL, (1, 2, 5), (TERM, USR1, INT)),
    "reshuffled": Job(reshuffled, ((kill_main, 0, 2), (kill_a_worker, 3, 5))),
    "shar": Job(shar, world_sizes=(5,), signals=(USR1,)),
    "indexed-shar": Job(indexed_shar, ((kill_a_worker, 8, 1),), (), ()),
    "wenet": Job(lambda folder: export(ListCase, "manifest-to-wenet", folder), ((kill_a_worker, 3, 5),), (), ()),
    "mels": Job(mels, ((kill_a_worker, 2, 5),), (), ()),
    "parquet": Job(lambda folder: export(Case, "manifest-to-parquet", folder), ((kill_main, 4, 1),), (), (INT,)),
    "conversations": Job(conversations, ((kill_main, 0, 2), (kill_a_worker, 3, 5))),
    "texts": Job(texts, ((kill_a_worker, 2, 5),), (), ()),
    "omnilingual": Job(omnilingual, ((kill_a_worker, 2, 1),), (), (USR1,)),
    "convert": Job(converted, ((kill_main, 0, 2), (kill_a_worker, 2, 1)), ()),
    "make-manifest": Job(make_manifest, ((kill_main, 5, 5), (kill_a_worker, 5, 2))),
    "filter": Job(filtered, ((kill_main, 0, 2), (kill_a_worker, 3, 5))),
    "split": Job(divided, ((kill_main, 0, 2), (kill_a_worker, 3, 1))),
    "duplicates": Job(duplicates, ((kill_main, 0, 2), (kill_a_worker, 2, 1))),
    "score": Job(scores, ((kill_main, 0, 2),), (5,), ()),
    "segment": Job(segmented, ((kill_main, 0, 2), (kill_a_worker, 2, 3))),
    "voices": Job(voices, ((kill_main, 3, 5),), (), ()),
    "context": Job(
        context,
        ((kill_a_worker, 6, 5),),
        (5,),
        (INT,),
        ((kill_a_worker, 1),),
    ),
    "codes": Job(
        codes,
        ((kill_main, 0, 1), (kill_a_worker, 3, 2)),
        (5,),
        launches=((kill_main, 0),),
    ),
    "codes-of-manifest": Job(
        codes_of_manifest,
        ((kill_a_worker, 3, 1),),
        (),
        (),
        ((kill_main, 2),),
    ),
    "omnivoice": Job(codes_for("omnivoice", "toy8", "--shard-size", 3), ((kill_main, 3, 2),), (), ()),
    "qwen3-tts": Job(codes_for("qwen3-tts", "toy16", "--pool-duration", 2.5), ((kill_a_worker, 3, 2),), (), ()),
    "fisher": Job(fisher, signals=(INT,)),
    "download": Job(download, FETCHING, (), STOPS),
    "lhotse": Job(
        download_lhotse,
        ((kill_main, 1, 1), (kill_a_worker, 1, 1), (kill_main, 2, 2), (kill_a_worker, 4, 2)),
        (),
        ((signal.SIGTERM, 1), (signal.SIGTERM, 4)),
    ),
    "index": Job(index, tuple((kill_main, steps, 1) for steps in (1, 30)), (), ()),
}
