import gzip
import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.manifest import index as index_module
from prepcli.manifest import scan
from prepcli.manifest.index import ManifestIndex, index_manifests
from prepcli.manifest.parts import FieldKey, KeyFunction

GOOD = [
    b'{"audio_filepath": "a.wav", "duration": 1.5, "text": "hello"}',
    b'{"duration":3,"audio_filepath":"dir/\xc3\xa9.flac","offset":0.25}',
    b' {"audio_filepath": "c.wav", "duration": 1e1, "offset": null, "_skipme": false}\t',
    b'{"audio_filepath": "c.wav", "duration": 2, "wer": NaN}',
    b'{"audio_filepath": "c.wav", "duration": "x", "duration": 2}',
    b'{"audio_filepath": "c.wav", "duration": 2, "t": "\\\\ud800", "wer": NaN}',
    b'{"audio_filepath": "\\ud83d\\ude00", "duration": 2, "t": "\\u0000", "_skipme": 0, "n": {"duration": 7}}',
    b'\xef\xbb\xbf{"audio_filepath": "c.wav", "duration": 999999999.5}',
    b'{"\\u0061udio_filepath": "c.wav", "duration": 2, "offset": -0.0, "_skipme": ""}',
    b'{"audio_filepath": "c.wav", "duration": 2, "_skipme": []}\r',
    b'{"audio_filepath": "a.wav", "duration": 1.5, "_skipme": NaN, "text": NaN, "speaker": NaN, "lang": NaN}',
    b'{"audio_filepath": "a.wav", "duration": 1.5, "text": null, "speaker": 3, "lang": "", "id": -1, "offset": NaN}',
]
SKIPPED = [
    b'{"audio_filepath": "a.wav", "duration": 1.5, "_skipme": true}',
    b'{"_skipme": 1}',
    b'{"audio_filepath": 3, "_skipme": "yes"}',
]
BLANK = [b"", b" ", b"\t\r"]
BAD = [
    b'{"audio_filepath": "a.wav"}',
    b'{"audio_filepath": "a.wav", "duration": -1}',
    b'{"audio_filepath": "a.wav", "duration": 0.0}',
    b'{"audio_filepath": "a.wav", "duration": NaN}',
    b'{"audio_filepath": "a.wav", "duration": 123456789012345678901234567890}',
    b'{"audio_filepath": "a.wav", "duration": "3"}',
    b'{"audio_filepath": "a.wav", "duration": true}',
    b'{"audio_filepath": "a.wav", "duration": 1e999}',
    b'{"audio_filepath": "", "duration": 1}',
    b'{"audio_filepath": "a\\u0000b", "duration": 1}',
    b'{"audio_filepath": "a\\ud800", "duration": 1}',
    b'{"audio_filepath": "c.wav", "duration": 2, "t": "\\ud800"}',
    b'{"audio_filepath": "c.wav", "duration": 2, "t": [{"\\ud83d\\ude00\\ude00": 1}]}',
    b'{"audio_filepath": "c.wav", "duration": 2, "\\udc00": 1}',
    b'{"audio_filepath": null, "duration": 1}',
    b'{"duration": 1}',
    b'{"audio_filepath": "a.wav", "duration": 1, "offset": -0.1}',
    b'{"audio_filepath": "a.wav", "duration": 1, "offset": "0"}',
    b'{"audio_filepath": "a.wav", "duration": 1, "text": "caf\xe9"}',
    b'{"audio_filepath": "a.wav", "duration": 1, "caf\xe9": 0}',
    b'{"audio_filepath": "a.wav", "duration": 1, "text": 12}',
    b'{"audio_filepath": "a.wav", "duration": 1, "text": ["a", "b"]}',
    b'{"audio_filepath": "a.wav", "duration": 1, "text": true}',
    b'{"audio_filepath": "a.wav", "duration": 1, "text": Infinity}',
    b'{"audio_filepath": "a.wav", "duration": 1, "normalized_text": 3}',
    b'{"audio_filepath": "a.wav", "duration": 1, "speaker": ["a"], "wer": NaN}',
    b'{"audio_filepath": "a.wav", "duration": 1, "speaker": 12.0}',
    b'{"audio_filepath": "a.wav", "duration": 1, "lang": {"a": 1}}',
    b'{"audio_filepath": "a.wav", "duration": 1, "id": false}',
    b'{"audio_filepath": "a.wav", "duration": 1} {}',
    b'{"audio_filepath": "a.wav", "duration": 1}{"audio_filepath": "a.wav", "duration": 1}',
    b'{"audio_filepath": "a.wav", "duration": 1',
    b'{"audio_filepath": "a.wav", "duration": 1, "x": [1,]}',
    b"[1]",
    b"hello",
    b"{",
    b"\x00\x01",
]
ALL = GOOD + SKIPPED + BLANK + BAD


def stem(path: str) -> str:
    return Path(path).stem


def parent(path: str) -> str:
    return str(Path(path).parent)


def hash64(key: str) -> int:
    """What the index keeps of a key. Plans, and so names in finished outputs, depend on it: it must never change."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")


def same(a: ManifestIndex, b: ManifestIndex) -> bool:
    columns = ("start", "length", "duration", "offset")
    return (
        [(s.sha256, s.num_bytes, s.num_lines) for s in a.sources]
        == [(s.sha256, s.num_bytes, s.num_lines) for s in b.sources]
        and (a.first, a.problems, a.num_skipped) == (b.first, b.problems, b.num_skipped)
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in columns)
        and a.keys.keys() == b.keys.keys()
        and all(np.array_equal(a.keys[name], b.keys[name]) for name in a.keys)
    )


def manifest(path: Path, count: int, seed: int = 0) -> Path:
    rng = random.Random(seed)
    with path.open("w") as file:
        for i in range(count):
            record = {
                "audio_filepath": f"/d/{i % 50}/{i}.wav",
                "duration": round(rng.uniform(0.1, 20), 3),
                "text": "x" * 99,
            }
            file.write(json.dumps(record) + "\n")
    return path


def test_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "RANGE_BYTES", 10_000)
    monkeypatch.setattr(scan, "INLINE_BYTES", 0)
    monkeypatch.setattr(index_module, "_GROUP_BYTES", 2000)
    a, b = manifest(tmp_path / "a.json", 2000), manifest(tmp_path / "b.json", 1500, seed=1)
    b.write_bytes(b.read_bytes() + b"\n".join(ALL))
    packed = tmp_path / "c.json.gz"
    packed.write_bytes(gzip.compress(b.read_bytes()))
    keys = {"stem": stem, "parent": parent}
    paths = [str(a), str(packed), str(b)]
    alone = index_manifests(paths, keys=keys)
    assert same(alone, index_manifests(paths, keys=keys, num_workers=3))
    assert alone.sources[1].sha256 == alone.sources[2].sha256
    assert len(alone.problems) == 2 * len(BAD)


@pytest.mark.slow
def test_the_digest_is_of_the_content_in_pieces_of_16_mib(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    content = GOOD[0][:-1] + b', "pad": "' + b"x" * 70_000 + b'"}\n'
    path.write_bytes(content * 300)
    data = path.read_bytes()
    pieces = [data[at : at + (16 << 20)] for at in range(0, len(data), 16 << 20)]
    assert len(pieces) == 2
    expected = hashlib.sha256(b"".join(hashlib.sha256(piece).digest() for piece in pieces)).hexdigest()
    index = index_manifests([str(path)], num_workers=2)
    assert index.sources[0].sha256 == expected
    assert len(index) == 300
    assert np.array_equal(index.start, np.arange(300) * len(content))
    assert set(index.length) == {len(content) - 1}


def test_the_digest_tells_changed_content(tmp_path: Path) -> None:
    path = manifest(tmp_path / "m.json", 10)
    before = index_manifests([str(path)]).sources[0].sha256
    path.write_bytes(path.read_bytes().replace(b"xxx", b"xyx", 1))
    assert index_manifests([str(path)]).sources[0].sha256 != before


def test_an_empty_manifest(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_bytes(b"")
    index = index_manifests([str(path)], num_workers=2, keys={"stem": stem})
    assert (len(index), index.first, index.sources[0].num_lines) == (0, [0, 0], 0)
    assert len(index.keys["stem"]) == 0
    assert len(index_manifests([])) == 0


def test_another_kind_of_file_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "audio.tar"
    for line, why in (
        (b"no JSON here\n", r"audio\.tar is not a manifest of JSON lines \(lines such as 'no JSON here'\)"),
        (b"{no JSON here\n", r"audio\.tar does not look like a NeMo manifest.*line 1: broken JSON"),
    ):
        path.write_bytes(line * 2000)
        with pytest.raises(UsageError, match=why):
            index_manifests([str(path)])


def test_a_missing_manifest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not found"):
        index_manifests([str(tmp_path / "no.json")])


@pytest.mark.slow
def test_memory_grows_by_the_columns_alone(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = manifest(tmp_path / "m.json", 100_000)
    code = (
        "import resource, sys; from prepcli.manifest.index import index_manifests; "
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "index = index_manifests([sys.argv[1]] * 6); "
        "print(len(index), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    count, grown = map(int, run.stdout.split())
    assert count == 600_000
    # 28 bytes a record, the parts of one range and some slack; a list of dicts would be 300 MB.
    assert grown < 28 * count // 1024 + 20_000


def voice(text: str) -> str:
    if text == "nobody":
        raise RecordRejected(RejectReason.BAD_FIELD, "nobody speaks")
    return text.upper()


def last_part(path: str) -> str:
    return path.rpartition("/")[2]


# What stands in `speaker` -> the key, or the reason and words of the detail.
SPEAKERS: list[tuple[object, str | tuple[RejectReason, str]]] = [
    ("a b", "A B"),
    ("ümläut", "ÜMLÄUT"),
    (17, "17"),
    (-(2**70), str(-(2**70))),
    ("absent", (RejectReason.MISSING_FIELD, "there is no speaker")),
    (None, (RejectReason.MISSING_FIELD, "there is no speaker")),
    ("", (RejectReason.MISSING_FIELD, "there is no speaker")),
    (1.0, (RejectReason.BAD_FIELD, "speaker is 1.0; it must be a string or an integer")),
    (True, (RejectReason.BAD_FIELD, "speaker is true; it must be a string or an integer")),
    (["a"], (RejectReason.BAD_FIELD, 'speaker is ["a"]; it must be a string or an integer')),
    ("nobody", (RejectReason.BAD_FIELD, "nobody speaks")),
]


@pytest.mark.parametrize("together", [True, False])
def test_keys_of_other_fields(tmp_path: Path, together: bool) -> None:
    """The same, be a line alone or in a block with others."""
    lines = [
        {"audio_filepath": f"d/{n}.wav", "duration": 1.0, "speaker": speaker} for n, (speaker, _) in enumerate(SPEAKERS)
    ]
    del lines[4]["speaker"]
    keys: dict[str, KeyFunction] = {
        "path": last_part,
        "voice": FieldKey("speaker", voice),
        "file": FieldKey("audio_filepath", last_part),
    }
    paths = [tmp_path / "m.json"] if together else [tmp_path / f"{n}.json" for n in range(len(lines))]
    for number, path in enumerate(paths):
        path.write_text(
            "".join(json.dumps(line) + "\n" for line in (lines if together else lines[number : number + 1]))
        )
    index = index_manifests([str(path) for path in paths], keys=keys)
    good = [(n, key) for n, (_, key) in enumerate(SPEAKERS) if isinstance(key, str)]
    assert index.keys["voice"].tolist() == [hash64(key) for _, key in good]
    assert index.keys["file"].tolist() == index.keys["path"].tolist() == [hash64(f"{n}.wav") for n, _ in good]
    bad = [key for _, key in SPEAKERS if not isinstance(key, str)]
    assert [(problem.reason, problem.detail) for problem in index.problems] == bad


def test_keys_of_other_fields_from_many_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "INLINE_BYTES", 0)
    monkeypatch.setattr(index_module, "_GROUP_BYTES", 2000)
    monkeypatch.setattr(scan, "RANGE_BYTES", 1000)
    lines = [f'{{"audio_filepath": "{n}.wav", "duration": 1, "speaker": "s{n % 7}"}}' for n in range(200)]
    (tmp_path / "m.json").write_text("\n".join(lines))
    index = index_manifests([str(tmp_path / "m.json")], keys={"voice": FieldKey("speaker", voice)}, num_workers=2)
    assert index.keys["voice"].tolist() == [hash64(f"S{n % 7}") for n in range(200)]
