"""verify finds every way in which a Shar set can be broken, with and without the records beside it."""

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import MINI_CORPUS, SHORT_CORPUS, copy_set, read_lines, write_lines
from tests.support.audio_files import write_short_corpus
from tests.support.running import prepcli
from tests.support.shar_sets import Members, make, read_cuts, rewrite_tar, with_contexts


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    manifest = write_lines(folder / "m.json", with_contexts(read_lines(write_short_corpus(folder, 24))))
    make(manifest, folder / "out", "--shard-size", 8)
    return folder / "out"


def rewrite_cuts(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    cuts = read_cuts(path)
    change(cuts)
    path.write_bytes(gzip.compress("".join(json.dumps(cut) + "\n" for cut in cuts).encode(), mtime=0))


def target(out: Path) -> Path:
    return out / "target_audio/recording.000001.tar"


def context(out: Path) -> Path:
    return out / "context_audio/recording.000001.tar"


def cuts(out: Path) -> Path:
    return out / "cuts/cuts.000001.jsonl.gz"


def cut_within_a_member(out: Path) -> None:
    os.truncate(target(out), target(out).stat().st_size // 2 + 100)


def cut_between_members(out: Path) -> None:
    with tarfile.open(context(out)) as tar:
        os.truncate(context(out), tar.getmembers()[6].offset)


def cut_off_the_end_blocks(out: Path) -> None:
    os.truncate(context(out), context(out).stat().st_size - 1024)


def lose_a_pair(out: Path) -> None:
    rewrite_tar(context(out), lambda content: content.__delitem__(slice(4, 6)))


def lose_the_last_pair(out: Path) -> None:
    """lhotse takes the shortest field for the length of the shard, without a word."""
    rewrite_tar(context(out), lambda content: content.__delitem__(slice(-2, None)))


def lose_a_manifest(out: Path) -> None:
    rewrite_tar(target(out), lambda content: content.pop(5))


def lose_the_last_manifest(out: Path) -> None:
    rewrite_tar(target(out), lambda content: content.pop())


def swap_two_pairs(out: Path) -> None:
    def change(content: Members) -> None:
        content[2:4], content[4:6] = content[4:6], content[2:4]

    rewrite_tar(context(out), change)


def manifest_before_the_data(out: Path) -> None:
    def change(content: Members) -> None:
        content[2], content[3] = content[3], content[2]

    rewrite_tar(target(out), change)


def damage_audio(out: Path) -> None:
    def change(content: Members) -> None:
        name, data = content[2]
        content[2] = (name, data[:100] + bytes(1000) + data[1100:])

    rewrite_tar(context(out), change)


def change_manifest(out: Path, **fields: object) -> None:
    def change(content: Members) -> None:
        name, text = content[3]
        content[3] = (name, json.dumps(json.loads(text) | fields).encode())

    rewrite_tar(context(out), change)


def wrong_number_of_samples(out: Path) -> None:
    change_manifest(out, num_samples=5)


def wrong_rate(out: Path) -> None:
    change_manifest(out, sampling_rate=16000)


def wrong_duration(out: Path) -> None:
    change_manifest(out, duration=99.0)


def two_sources(out: Path) -> None:
    change_manifest(out, sources=[1, 2])


def no_manifest(out: Path) -> None:
    change_manifest(out, sampling_rate="no")


def lose_a_cut(out: Path) -> None:
    rewrite_cuts(cuts(out), lambda found: found.pop(3))


def lose_the_last_cut(out: Path) -> None:
    rewrite_cuts(cuts(out), lambda found: found.pop())


def a_cut_of_another_length(out: Path) -> None:
    rewrite_cuts(cuts(out), lambda found: found[3].update(duration=9.0))


def no_placeholder(out: Path) -> None:
    rewrite_cuts(cuts(out), lambda found: found[3].pop("recording"))


def no_supervision(out: Path) -> None:
    rewrite_cuts(cuts(out), lambda found: found[3].update(supervisions=[]))


def torn_cuts(out: Path) -> None:
    os.truncate(cuts(out), cuts(out).stat().st_size - 20)


def blank_line(out: Path) -> None:
    cuts(out).write_bytes(gzip.compress(gzip.decompress(cuts(out).read_bytes()) + b"\n"))


def lose_a_tar(out: Path) -> None:
    context(out).unlink()


def lose_the_cuts(out: Path) -> None:
    cuts(out).unlink()


def an_id_in_two_shards(out: Path) -> None:
    """Whole and aligned, shard by shard."""
    for field, extension in (("cuts", "jsonl.gz"), ("target_audio", "tar"), ("context_audio", "tar")):
        files = sorted((out / field).iterdir())
        assert files[0].name.endswith(extension)
        shutil.copy(files[0], files[1])


def a_text_that_is_a_number(out: Path) -> None:
    rewrite_cuts(cuts(out), lambda found: found[3]["supervisions"][0].update(text=12))


def a_cut_without_a_length(out: Path) -> None:
    rewrite_cuts(cuts(out), lambda found: found[3].pop("duration"))


DAMAGE: dict[Callable[[Path], None], str] = {
    cut_within_a_member: "target_audio/recording.000001.tar: broken after",
    cut_between_members: "context_audio/recording.000001.tar: cut off",
    cut_off_the_end_blocks: "context_audio/recording.000001.tar: cut off",
    lose_a_pair: "recording 3 is cut-",
    lose_the_last_pair: "context_audio/recording.000001.tar: 7 recordings, but cuts.000001.jsonl.gz has 8 cuts",
    lose_a_manifest: "not by its manifest",
    lose_the_last_manifest: "has no manifest after it",
    swap_two_pairs: "recording 2 is cut-",
    manifest_before_the_data: "not by its manifest",
    damage_audio: "context_audio/recording.000001.tar: cut-",
    wrong_number_of_samples: "its manifest says 5 samples at 22050 Hz, the audio has",
    wrong_rate: "samples at 16000 Hz, the audio has",
    wrong_duration: "its manifest says 99.0 s",
    two_sources: "2 sources; lhotse expects one",
    no_manifest: "its manifest is not a recording",
    lose_a_cut: "target_audio/recording.000001.tar: recording 4 is cut-",
    lose_the_last_cut: "target_audio/recording.000001.tar: 8 recordings, but cuts.000001.jsonl.gz has 7 cuts",
    a_cut_of_another_length: "the cut lasts 9.0 s",
    no_placeholder: "cuts/cuts.000001.jsonl.gz:4: no recording",
    no_supervision: "cuts/cuts.000001.jsonl.gz:4: no supervision",
    a_text_that_is_a_number: "cuts/cuts.000001.jsonl.gz:4: text is 12; it must be a string",
    a_cut_without_a_length: "lasts 0 s, so it has no audio",
    torn_cuts: "cuts/cuts.000001.jsonl.gz: cannot be read",
    blank_line: "cuts/cuts.000001.jsonl.gz:9: not a cut",
    lose_a_tar: "context_audio/recording.000001.tar: missing; the shards of every field must be numbered 0 to 2",
    lose_the_cuts: "cuts/cuts.000001.jsonl.gz: missing",
    an_id_in_two_shards: "occurs 2 times: cuts.000000.jsonl.gz, cuts.000001.jsonl.gz",
}


@pytest.mark.slow
@pytest.mark.parametrize("records", ["with records", "without records"])
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_is_found(whole: Path, tmp_path: Path, damage: Callable[[Path], None], records: str) -> None:
    out = copy_set(whole, tmp_path, records=records == "with records")
    damage(out)
    done = prepcli("verify", out, "--json")
    assert done.code == 1, done.err
    assert (done.json["kind"], done.json["status"], done.err) == ("shar", "broken", "")
    assert any(DAMAGE[damage] in problem for problem in done.json["problems"]), done.json["problems"]
    hashes = any("its hash differs" in problem for problem in done.json["problems"])
    assert hashes == (records == "with records" and damage not in (lose_a_tar, lose_the_cuts))


def test_what_is_whole(whole: Path) -> None:
    report = prepcli("verify", whole, "--json").json
    assert (report["status"], report["shards"], report["records"], report["members"]) == ("ok", 3, 24, 48)
    assert report["hashes_known"]


def test_bytes_that_still_make_sense_are_found_by_their_hash(whole: Path, tmp_path: Path) -> None:
    out = copy_set(whole, tmp_path, records=True)

    def change(content: Members) -> None:
        name, data = content[0]
        samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
        file = io.BytesIO()
        soundfile.write(file, np.flip(samples), rate, format="FLAC")
        content[0] = (name, file.getvalue())

    rewrite_tar(target(out), change)
    assert "target_audio/recording.000001.tar: not the bytes that were published" in prepcli("verify", out).out
    shutil.rmtree(tmp_path / "out.prepcli")
    assert prepcli("verify", out).code == 0


def test_a_lost_last_shard_and_an_unfinished_run(whole: Path, tmp_path: Path) -> None:
    """Only the records beside the set can tell."""
    out = copy_set(whole, tmp_path, records=True)
    for path in out.glob("*/*.000002.*"):
        path.unlink()
    assert "cuts/cuts.000002.jsonl.gz: was published, but is missing" in prepcli("verify", out).out
    arguments = [whole.with_name("m.json"), tmp_path / "half", "--shard-size", 8]
    assert prepcli("manifest-to-shar", *arguments, "--rank", 0, "--world-size", 2).code == 0
    half = prepcli("verify", tmp_path / "half")
    assert (half.code, "is not finished: 1 of 3 units are done" in half.error_line) == (2, True)


@pytest.mark.torch
def test_numbers_that_no_double_holds(tmp_path: Path) -> None:
    """lhotse reads 1e5000 in a custom field, as infinity."""
    from lhotse import CutSet

    record = read_lines(SHORT_CORPUS / "manifest.json")[0]
    text = json.dumps(record | {"score": [-1, {"n": "MANY"}]}).replace('"MANY"', "1e5000")
    (tmp_path / "m.json").write_text(text + "\n")
    make(tmp_path / "m.json", tmp_path / "out", "--audio-base-dir", SHORT_CORPUS)  # and verifies it
    (cut,) = CutSet.from_shar(in_dir=tmp_path / "out/cuts")
    assert cut.supervisions[0].custom["score"] == [-1, {"n": float("inf")}]


@pytest.mark.torch
def test_a_set_by_lhotse_itself(tmp_path: Path) -> None:
    """Plain lhotse writers, whatever else they put into a cut: nothing to complain of."""
    from lhotse import AudioSource, MonoCut, Recording, SupervisionSegment, fastcopy
    from lhotse.shar.writers import AudioTarWriter, JsonlShardWriter

    out = tmp_path / "set"
    for name in ("cuts", "target_audio"):
        (out / name).mkdir(parents=True)
    with (
        JsonlShardWriter(f"{out}/cuts/cuts.%06d.jsonl.gz", 4) as cut_writer,
        AudioTarWriter(f"{out}/target_audio/recording.%06d.tar", 4, "flac") as audio_writer,
    ):
        for number in range(1, 7):
            recording = Recording.from_file(MINI_CORPUS / f"s01/s01_u{number}.flac", recording_id=f"r{number}")
            supervision = SupervisionSegment(f"s{number}", f"r{number}", 0.5, 0.25, text="x")
            cut = MonoCut(f"c{number}", 0.5, 0.25, 0, [supervision], recording=recording)
            placeholder = fastcopy(
                recording, sources=[AudioSource("shar", [0], "")], duration=0.25, num_samples=cut.num_samples
            )
            audio_writer.write(cut.id, cut.load_audio(), cut.sampling_rate, placeholder)
            cut_writer.write(cut)
    done = prepcli("verify", out, "--json")
    assert (done.code, done.json["problems"]) == (0, [])
    assert (done.json["shards"], done.json["records"], done.json["hashes_known"]) == (2, 6, False)
    # The supervisions begin at 0.5 s of the recordings, and so after the end of their cuts.
    assert "supervisions that do not lie in their cuts: 6;" in "".join(done.json["notes"])
    again = prepcli("manifest-to-tarred", out, tmp_path / "tarred", "--num-shards", 1, "--max-rejects", 6, "--json")
    assert (again.code, again.json["records_out"], again.json["rejects"]) == (0, 0, 6), again.err
