"""`prepcli find-duplicates --against` prints of a test set: planted copies in other speech of the same voices.

    python benchmarks/passports.py                # 6 h of other speech, 660 test records
    python benchmarks/passports.py --hours 20

Needs espeak-ng and ffmpeg. Its voices say sentences of made words: 24 voices of eight languages, test and training set
with the same voices, so that other speech is as near as it can be. The training set also has a copy of each test
record: coded (MP3, Opus, GSM), trimmed, joined with others, or all of that. A false group has a training record with
nothing of the test record. The groups are compared with those of `--between` over both sets.
"""

import argparse
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from duplicates import encode
from numpy.typing import NDArray
from side_by_side import PREPCLI, Contestant

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.espeak_words import spoken

Samples = NDArray[np.int16]
RATE = 22050
LANGUAGES = ("en-us", "de", "fr", "es", "it", "pt", "nl", "pl")
VOICES = [f"{language}+{variant}" for language in LANGUAGES for variant in ("m3", "f2", "m7")]
CODED = {
    "MP3, 64 kbit/s": ("mp3", "-b:a", "64k"),
    "MP3, 24 kbit/s of 16 kHz": ("mp3", "-ar", "16000", "-b:a", "24k"),
    "Opus, 24 kbit/s": ("opus", "-c:a", "libopus", "-b:a", "24k"),
    "Opus, 12 kbit/s": ("opus", "-c:a", "libopus", "-b:a", "12k"),
    "GSM, 13 kbit/s of 8 kHz": ("wav", "-ar", "8000", "-ac", "1", "-c:a", "libgsm_ms"),
}
TRIMMED = ("without the first second", "without the last third", "its second third and more")
JOINED = ("between two others", "after another of the test set")
BOTH = ("MP3, 24 kbit/s of 16 kHz, trimmed, between two others",)
KINDS = (*CODED, *TRIMMED, *JOINED, *BOTH)
SYLLABLES = [first + vowel + last for first in "bdfgklmnprstv" for vowel in "aeiou" for last in ("", "n", "r", "s")]


def sentence(seeded: random.Random) -> str:
    """Four to sixteen words of one to four syllables."""
    words = ("".join(seeded.choices(SYLLABLES, k=seeded.randint(1, 4))) for _ in range(seeded.randint(4, 16)))
    return f"{' '.join(words)}."


def say(folder: str, number: int) -> tuple[str, float, str]:
    """Write an utterance; returns its path, seconds and text. The number decides what is said, by which voice."""
    seeded = random.Random(number)
    text = sentence(seeded)
    said = spoken(text, VOICES[number % len(VOICES)], seeded.randint(140, 200))
    assert said.rate == RATE
    path = f"{folder}/{number:07d}.wav"
    soundfile.write(path, said.samples, RATE)
    return path, len(said.samples) / RATE, text


def say_all(pool: ProcessPoolExecutor, folder: Path, first: int, hours: float) -> Iterator[tuple[str, float, str]]:
    """Utterances of so many hours together."""
    folder.mkdir()
    seconds, number = 0.0, first
    while seconds < 3600 * hours:
        for path, length, text in pool.map(partial(say, str(folder)), range(number, number + 480), chunksize=24):
            seconds += length
            yield path, length, text
        number += 480


def plant(folder: Path, test: list[tuple[str, float, str]], others: list[str]) -> dict[str, tuple[set[int], str]]:
    """Write a copy of each test record, of the kinds in turn; returns its originals and its kind by path."""
    folder.mkdir()
    planted: dict[str, tuple[set[int], str]] = {}
    coded: dict[str, list[Path]] = defaultdict(list)
    for number, (path, _, _) in enumerate(test):
        kind, originals = KINDS[number % len(KINDS)], {number}
        samples: Samples = soundfile.read(path, dtype="int16")[0]
        before, after = (soundfile.read(others[2 * number + at], dtype="int16")[0] for at in (0, 1))
        third = len(samples) // 3
        if kind == TRIMMED[0]:
            samples = samples[RATE:]
        elif kind == TRIMMED[1]:
            samples = samples[: 2 * third]
        elif kind == TRIMMED[2]:
            samples = samples[third : 2 * third + third // 2]
        elif kind == JOINED[0]:
            samples = np.concatenate([before, samples, after])
        elif kind == JOINED[1]:
            second = (number + 1) % len(test)
            samples = np.concatenate([soundfile.read(test[second][0], dtype="int16")[0], samples])
            originals |= {second}
        elif kind in BOTH:
            samples = np.concatenate([before, samples[RATE // 2 : -RATE // 2], after])
        copy = folder / f"{number:05d}.wav"
        soundfile.write(copy, samples, RATE)
        codec = kind if kind in CODED else "MP3, 24 kbit/s of 16 kHz" if kind in BOTH else ""
        if codec:
            coded[codec].append(copy)
            copy = copy.with_name(f"{copy.stem}_coded.{CODED[codec][0]}")
        planted[str(copy)] = originals, kind
    for codec, paths in coded.items():
        suffix, *options = CODED[codec]
        encode({path: path.with_name(f"{path.stem}_coded.{suffix}") for path in paths}, *options)
    return planted


def write_manifest(path: Path, records: list[tuple[str, float, str]]) -> Path:
    """Write a manifest; returns its path."""
    lines = (json.dumps({"audio_filepath": name, "duration": length, "text": text}) for name, length, text in records)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def run(name: str, hours: float, *words: object) -> None:
    """Run `find-duplicates`, and print its time."""
    one = Contestant(name, [*PREPCLI, "find-duplicates", *map(str, words), "--num-workers", "1"], codes=(0, 1))
    one.run()
    cpu = one.processor_seconds[0]
    print(f"{name}: {hours:.2f} h, {cpu:.1f} processor seconds, {3600 * hours / cpu:,.0f} x real time", flush=True)


def groups_of(path: Path, test: list[str]) -> dict[tuple[str, str], set[str]]:
    """The training records of each group with a test record, by kind and path of the test record."""
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in map(json.loads, path.read_text().splitlines()):
        groups[line["duplicate_group"]].append(line)
    found: dict[tuple[str, str], set[str]] = {}
    for lines in groups.values():
        names = [
            test[line["prints_record"] - 1] if "prints_record" in line else str(line["audio_filepath"])
            for line in lines
        ]
        for name in set(names).intersection(test):
            found[lines[0]["duplicate_by"], name] = set(names).difference(test)
    return found


def measure(folder: Path, hours: float, num_test: int) -> None:
    """Make both sets, compare, and print."""
    with ProcessPoolExecutor(2) as pool:
        test = list(islice(say_all(pool, folder / "test", 0, 1e9), num_test))
        train = list(say_all(pool, folder / "train", 10_000_000, hours))
        context = [path for path, _, _ in islice(say_all(pool, folder / "context", 90_000_000, 1e9), 2 * num_test)]
    planted = plant(folder / "planted", test, context)
    records = [*train, *((path, soundfile.info(path).duration, "") for path in planted)]
    random.Random(1).shuffle(records)
    of_test, of_train = write_manifest(folder / "test.json", test), write_manifest(folder / "train.json", records)
    test_hours, train_hours = (sum(length for _, length, _ in some) / 3600 for some in (test, records))
    other_hours = sum(length for _, length, _ in train) / 3600
    print(f"{len(VOICES)} voices; test set: {len(test)} records, {test_hours:.3f} h")
    print(
        f"training set: {len(records):,} records, {train_hours:.2f} h: {other_hours:.2f} h of other speech, and copies"
    )
    by = ("--by", "audio,near-audio")
    run("--write-prints", test_hours, of_test, "--write-prints", folder / "test.prints", *by)
    size = (folder / "test.prints").stat().st_size
    print(f"  {size:,} bytes, {size / test_hours / 1e6:.3f} MB an hour, {size / len(test):,.0f} bytes a record")
    against = ("--against", folder / "test.prints", "--certificate", folder / "certificate.json")
    run("--against", train_hours, of_train, folder / "against.jsonl", *against, *by)
    run("--between", test_hours + train_hours, of_test, of_train, folder / "between.jsonl", "--between", *by)
    names = [path for path, _, _ in test]
    found, with_audio = (groups_of(folder / f"{name}.jsonl", names) for name in ("against", "between"))
    print(f"the same groups as with the audio of the test set: {'yes' if found == with_audio else 'NO'}")
    hits, wanted, false = Counter[str](), Counter[str](), 0
    for path, (originals, kind) in planted.items():
        for original in originals:
            wanted[kind] += 1
            hits[kind] += path in found.get(("near-audio", names[original]), ())
    for (_, name), of_train_set in found.items():
        number = names.index(name)
        # Who is joined with a record of the test set is in its group, and so are the other's copies.
        allowed = {number} | {other for originals, _ in planted.values() if number in originals for other in originals}
        false += any(path not in planted or not planted[path][0] & allowed for path in of_train_set)
    for kind in KINDS:
        print(f"  {kind}: {hits[kind]} of {wanted[kind]} ({100 * hits[kind] / wanted[kind]:.1f} %)")
    share = 100 * hits.total() / wanted.total()
    print(f"recall: {hits.total()} of {wanted.total()} ({share:.2f} %); false groups: {false}")


def main() -> None:
    """Make the sets, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=6.0, help="hours of other speech")
    parser.add_argument("--test", type=int, default=660, help="records of the test set")
    parser.add_argument("--dir", type=Path, help="folder for the files: 160 MB an hour")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        measure(Path(folder), args.hours, args.test)


if __name__ == "__main__":
    main()
