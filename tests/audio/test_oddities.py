"""A corpus of odd files: what is said of each, what is written, and what soundfile and ffmpeg read.

A file that is copied gives soundfile as many samples as the manifest says. A file is never cut to its first part.
"""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
import soundfile

from prepcli.audio.probe import probe
from prepcli.errors import RecordRejected
from tests.audio.bench import FIRST, Bench
from tests.audio.oddities import AGAIN, BOTH, BY_FFMPEG, COPIED, ODDITIES, REJECTED, Oddity, table
from tests.conftest import read_lines
from tests.support.running import prepcli
from tests.support.seeds import some_of
from tests.support.tools import need

DOCS = Path(__file__).parents[2] / "docs/formats.md"
CODEC_DELAY = 0.12
"""Seconds by which decoders differ at the ends of a file, or at the joints of files."""


def ffmpeg_seconds(path: Path) -> float:
    """The length of what ffmpeg decodes, whatever it thinks of the file."""
    command: list[str | Path] = [
        "ffmpeg",
        "-v",
        "quiet",
        "-nostdin",
        "-i",
        path,
        "-map",
        "0:a:0",
        "-f",
        "s16le",
        "-ac",
        "1",
        "-ar",
        "16000",
    ]
    return len(subprocess.run([*command, "-"], stdout=subprocess.PIPE, check=False).stdout) / 32000


def soundfile_seconds(data: bytes) -> float | None:
    """The length of what soundfile reads; None if it reads nothing."""
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    except (soundfile.SoundFileError, ValueError, MemoryError):  # the last two: a length that no array has
        return None
    return float(len(samples) / rate)


def check(tmp_path: Path, oddities: list[Oddity], by_ffmpeg: bool) -> None:
    """Make the files, a manifest and a tarred set of them, and compare all that is said of each."""
    (tmp_path / "work").mkdir()
    source = tmp_path / "source"
    source.mkdir()
    bench = Bench(tmp_path / "work")
    for oddity in oddities:
        (source / oddity.name).write_bytes(oddity.make(bench))
    manifest, tarred = tmp_path / "m.json", tmp_path / "tarred"
    listing = tmp_path / "list.txt"
    listing.write_text("".join(f"{source / oddity.name}\n" for oddity in oddities))
    outcome = prepcli("make-manifest", listing, manifest, "--max-rejects", 1000)
    assert outcome.code == 0, outcome.err
    outcome = prepcli("manifest-to-tarred", manifest, tarred, "--num-shards", 1, "--max-rejects", 1000)
    assert outcome.code == 0, outcome.err
    assert prepcli("verify", tarred).code == 0
    assert read_lines(tmp_path / "tarred.prepcli/rejects.jsonl") == []
    said = {Path(line["audio_filepath"]).name: line["duration"] for line in read_lines(manifest)}
    rejects = read_lines(tmp_path / "m.json.prepcli/rejects.jsonl")
    reasons = {Path(line["audio_filepath"]).name: line["reject_detail"] for line in rejects}
    lines = read_lines(tarred / "tarred_audio_manifest.json")
    wrong = []
    with tarfile.open(tarred / "audio_0.tar") as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    stored = {line["audio_filepath"]: line["duration"] for line in lines}
    by_stem = {name.rpartition("source_")[2].rpartition(".")[0]: name for name in members}
    for oddity in oddities:
        data = (source / oddity.name).read_bytes()
        whole = ffmpeg_seconds(source / oddity.name) if by_ffmpeg else oddity.seconds
        facts = f"{oddity.name}: ffmpeg {whole:.3f} s, soundfile {soundfile_seconds(data)} s, "
        if oddity.outcome == REJECTED:
            if oddity.words not in reasons.get(oddity.name, ""):
                wrong.append(facts + f"not rejected: {said.get(oddity.name)} {reasons.get(oddity.name)}")
            continue
        seconds = said.get(oddity.name)
        if seconds is None:
            wrong.append(facts + f"rejected: {reasons.get(oddity.name)}")
            continue
        name = by_stem[oddity.name.rpartition(".")[0]]
        member = members[name]
        facts += f"manifest {seconds} s, written {soundfile_seconds(member)} s in {name}"
        outcome_word = COPIED if member == data else AGAIN
        read = soundfile_seconds(member)
        if (
            outcome_word != oddity.outcome.replace(BY_FFMPEG, AGAIN)
            or read is None
            or abs(read - seconds) > 1e-4
            or abs(stored[name] - seconds) > 1e-4
            or (oddity.seconds and abs(seconds - oddity.seconds) > 0.02)
            or seconds < whole - CODEC_DELAY
        ):
            wrong.append(f"{facts}, {outcome_word}")
    assert wrong == [], "\n".join(wrong)


def test_files_that_are_made_without_programs(tmp_path: Path) -> None:
    check(tmp_path, [one for one in ODDITIES if not one.programs], by_ffmpeg=False)


@pytest.mark.slow
def test_all_files(tmp_path: Path) -> None:
    need("flac")
    need("ffmpeg")
    assert len(ODDITIES) > 60
    check(tmp_path, some_of(ODDITIES), by_ffmpeg=True)


def test_the_table_in_the_docs_is_that_of_these_files() -> None:
    assert f"<!-- oddities -->\n{table()}\n<!-- end of oddities -->" in DOCS.read_text()


FOLLOWED = {
    "wav_first_only.wav": {"head": FIRST, "ffmpeg": BOTH},
    "rest_au.au": {"head": FIRST},
    "rest_w64.w64": {"head": FIRST},
    "mp3_rates.mp3": {"ffmpeg": 5.3},
    "mp3_channels.mp3": {"ffmpeg": 5.3},
    "opus_joined.opus": {"ffmpeg": BOTH},
    "alac.caf": {"ffmpeg": FIRST},
}
"""Rejected files, each with the programs in the reason, and the seconds of what these write."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWED)
def test_advice_is_followed(name: str, tmp_path: Path) -> None:
    need("ffmpeg")
    oddity = next(one for one in ODDITIES if one.name == name)
    path = tmp_path / f"it's {name}"
    path.write_bytes(oddity.make(Bench(tmp_path)))
    with pytest.raises(RecordRejected) as caught:
        probe(path)
    commands = [part.partition(": ")[2] for part in caught.value.detail.split("; ") if " OUT" in part]
    assert [command.split()[0] for command in commands] == list(FOLLOWED[name])
    for command, seconds in zip(commands, FOLLOWED[name].values(), strict=True):
        subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, capture_output=True)
        written = next(tmp_path.glob("OUT*"))
        assert abs(probe(written).duration - seconds) < CODEC_DELAY
        written.unlink()
