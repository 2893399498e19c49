"""texts-to-shards: shards as NeMo reads them, pairs that stay together, lines that are rejects."""

import gzip
import json
import random
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import tree
from tests.support.running import prepcli

GERMAN = [f"Zeile {number} \u2013 ä" for number in range(50)]
ENGLISH = [f"line {number}\u2028with a\x0cbreak" for number in range(50)]


def write(path: Path, lines: list[str], end: str = "\n") -> Path:
    path.write_bytes(end.join([*lines, ""]).encode())
    return path


def read(folder: Path, name: str, count: int) -> list[list[str]]:
    """The lines of each shard, divided at newlines alone."""
    return [(folder / name.format(number)).read_text().split("\n")[:-1] for number in range(count)]


def section(out: Path) -> Any:
    (entry,) = yaml.safe_load((out.parent / f"{out.name}.prepcli/train_ds.yaml").read_text())["train_ds"]["input_cfg"]
    return entry


def test_texts(tmp_path: Path) -> None:
    """Files one after the other, compressed ones too, with and without a last line end and a byte order mark."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(GERMAN[:20]).encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n".join(GERMAN[20:]).encode()))
    done = prepcli("texts-to-shards", "a.txt,b.txt.gz", "out", "--num-shards", 4, "--json", cwd=tmp_path)
    assert (done.code, done.json["records_out"]) == (0, 50)
    shards = read(tmp_path / "out", "texts_{}.txt", 4)
    assert [len(shard) for shard in shards] == [13, 12, 13, 12]
    assert list(chain(*shards)) == GERMAN
    assert section(tmp_path / "out") == {"type": "txt", "paths": f"{tmp_path}/out/texts__OP_0..3_CL_.txt"}


@pytest.mark.parametrize("more", [(), ("--shuffle",), ("--shuffle", "--shuffle-seed", 3)])
def test_pairs_stay_together(tmp_path: Path, more: tuple[object, ...]) -> None:
    write(tmp_path / "all.en", ENGLISH)
    write(tmp_path / "all.de", GERMAN, "\r\n")
    call = ("texts-to-shards", "all.en", "--target", "all.de", "--shard-size", 20, *more)
    done = prepcli(*call, "out", cwd=tmp_path)
    assert done.code == 0, done.err
    sides = [list(chain(*read(tmp_path / "out", f"{side}_{{}}.txt", 3))) for side in ("source", "target")]
    pairs = list(zip(*sides, strict=True))
    assert sorted(pairs) == sorted(zip(ENGLISH, GERMAN, strict=True))
    assert (pairs == list(zip(ENGLISH, GERMAN, strict=True))) == (not more)
    for rank in range(3):
        assert prepcli(*call, "ranks", "--rank", rank, "--world-size", 3, cwd=tmp_path).code == 0
    assert tree(tmp_path / "ranks") == tree(tmp_path / "out")


def test_rejects_leave_both_sides_out(tmp_path: Path) -> None:
    source, target = ENGLISH.copy(), GERMAN.copy()
    source[3], target[5], source[7] = "", "  \t", "one\rtwo"
    write(tmp_path / "a.en", source)
    write(tmp_path / "a.de", target)
    data = (tmp_path / "a.de").read_bytes().replace(b"Zeile 9 ", b"Zeile \xff ")
    (tmp_path / "a.de").write_bytes(data)
    done = prepcli("texts-to-shards", "a.en", "out", "--target", "a.de", "--json", "--max-rejects", 9, cwd=tmp_path)
    assert (done.code, done.json["records_out"]) == (0, 46)
    text = (tmp_path / "out.prepcli/rejects.jsonl").read_text()
    rejects = [json.loads(line) for line in text.split("\n")[:-1]]
    assert [(line["manifest_line"], line["reject_reason"]) for line in rejects] == [
        (4, "empty_text"),
        (6, "empty_text"),
        (8, "bad_field"),
        (10, "not_utf8"),
    ]
    left = [number for number in range(50) if number not in (3, 5, 7, 9)]
    assert read(tmp_path / "out", "source_{}.txt", 1) == [[source[number] for number in left]]
    assert read(tmp_path / "out", "target_{}.txt", 1) == [[target[number] for number in left]]


def test_pairs_of_other_lengths(tmp_path: Path) -> None:
    write(tmp_path / "a.en", ENGLISH)
    write(tmp_path / "a.de", GERMAN[:-1])
    done = prepcli("texts-to-shards", "a.en", "out", "--target", "a.de", cwd=tmp_path)
    assert (done.code, done.err) == (2, "prepcli: a.en has 50 lines and a.de 49: they do not belong together\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.nemo
def test_nemo_reads_the_shards(tmp_path: Path) -> None:
    """Its adapters open files as text, which divides lines at carriage returns."""
    pytest.importorskip("nemo.collections.common")
    from nemo.collections.common.data.lhotse.text_adapters import LhotseTextAdapter, LhotseTextPairAdapter

    order = random.Random(0).sample(range(50), 50)
    source = [ENGLISH[number] for number in order]
    source[1], source[2] = "bad\r", "worse\rline"  # the first is a line end of Windows
    write(tmp_path / "a.en", source)
    write(tmp_path / "a.de", GERMAN)
    both = ("--target", tmp_path / "a.de", "--num-shards", 3, "--max-rejects", 1)
    assert prepcli("texts-to-shards", tmp_path / "a.en", tmp_path / "pairs", *both).code == 0
    entry = section(tmp_path / "pairs")
    pairs = LhotseTextPairAdapter(entry["source_paths"], entry["target_paths"], shard_seed=0)
    kept = [number for number in range(50) if number != 2]
    wanted = [(source[number].strip(), GERMAN[number]) for number in kept]
    assert [(pair.source.text, pair.target.text) for pair in pairs] == wanted
    assert prepcli("texts-to-shards", tmp_path / "a.de", tmp_path / "texts", "--num-shards", 3).code == 0
    texts = LhotseTextAdapter(section(tmp_path / "texts")["paths"], shard_seed=0)
    assert [text.text.rstrip("\n") for text in texts] == GERMAN
