"""extend-text-context: the cuts of a Shar set with texts as contexts, as lhotse reads them."""

import gzip
import itertools
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prepcli.commands.extend_text_context.contexts import parse_suffix
from prepcli.errors import RecordRejected, UsageError
from tests.conftest import MINI_CORPUS, Lines, read_lines, tree, write_lines
from tests.support.running import prepcli
from tests.support.shar_sets import make

FOLDER = "cuts_textContext"


@pytest.fixture
def records() -> Lines:
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")
    for number, record in enumerate(records):
        for field in ("audio_filepath", "context_audio_filepath"):
            record[field] = str(MINI_CORPUS / record[field])
        record["emotion"] = ("HAPPY", "SAD")[number % 2]
    return records


def shar_of(records: Lines, folder: Path, *options: object) -> Path:
    make(write_lines(folder / "m.json", records), folder / "shar", "--shard-size", 20, *options)
    return folder / "shar"


def cuts_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def without_custom(cut: dict[str, Any]) -> dict[str, Any]:
    return cut | {"supervisions": [one | {"custom": None} for one in cut["supervisions"]]}


def test_the_same_cuts_with_texts(records: Lines, tmp_path: Path) -> None:
    shar = shar_of(records, tmp_path)
    done = prepcli("extend-text-context", shar, "--suffix", "field:emotion", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["records_out"], done.json["units"], done.json["seconds"]) == (
        48,
        3,
        pytest.approx(130.12, abs=0.1),
    )
    assert done.json["outputs"] == {
        "cuts": f"{shar}/{FOLDER}/cuts._OP_000000..000002_CL_.jsonl.gz",
        "target_audio": f"{shar}/target_audio/recording._OP_000000..000002_CL_.tar",
    }
    number = 0
    for path in sorted((shar / "cuts").iterdir()):
        for old, new in zip(cuts_in(path), cuts_in(shar / FOLDER / path.name), strict=True):
            assert without_custom(new) == without_custom(old)
            speaker, emotion = records[number]["speaker"], records[number]["emotion"]
            assert speaker.endswith(" |")
            text = f"Speaker and Emotion: {speaker[:-2]}_{emotion} |"
            assert new["supervisions"][0]["custom"] == {"context_text": text, "emotion": emotion}
            number += 1
    assert number == 48
    for command in ("status", "verify"):
        assert prepcli(command, shar).code == 0
    assert prepcli("status", shar, "--json").code == 0
    assert "nothing to do" in prepcli("extend-text-context", shar, "--suffix", "field:emotion").out
    other = prepcli("extend-text-context", shar)
    assert (other.code, "--suffix was field:emotion, now not given" in other.err) == (2, True)


@pytest.mark.torch
def test_lhotse_reads_them_beside_the_audio(records: Lines, tmp_path: Path) -> None:
    from lhotse import CutSet

    shar = shar_of(records, tmp_path)
    assert prepcli("extend-text-context", shar).code == 0
    fields = {
        "cuts": sorted(str(path) for path in (shar / FOLDER).iterdir()),
        "target_audio": sorted(str(path) for path in (shar / "target_audio").iterdir()),
    }
    cuts = list(CutSet.from_shar(fields=fields))
    assert len(cuts) == 48
    for cut, record in zip(cuts, records, strict=True):
        assert cut.supervisions[0].context_text == f"Speaker and Emotion: {record['speaker']}"
        assert cut.supervisions[0].text == record["text"]
        assert cut.target_audio.num_samples > 0
        assert not cut.has_custom("context_audio")


def test_a_cut_without_a_text_stays_in_its_place(records: Lines, tmp_path: Path) -> None:
    del records[3]["speaker"]
    del records[25]["emotion"]
    records[7]["emotion"] = ""
    shar = shar_of(records, tmp_path)
    done = prepcli("extend-text-context", shar, "--suffix", "field:emotion", "--max-rejects", 3, "--json")
    assert done.code == 0
    assert done.json["rejects_by_reason"] == {"missing_field": 3}
    rejects = read_lines(tmp_path / "shar.prepcli" / FOLDER / "rejects.jsonl")
    assert [reject["manifest_line"] for reject in rejects] == [4, 8, 10]
    given = [cut["id"] for path in sorted((shar / "cuts").iterdir()) for cut in cuts_in(path)]
    assert [reject["id"] for reject in rejects] == [given[number] for number in (3, 7, 25)]
    cuts = [cut for path in sorted((shar / FOLDER).iterdir()) for cut in cuts_in(path)]
    texts = ["context_text" in cut["supervisions"][0]["custom"] for cut in cuts]
    assert [number for number, has_text in enumerate(texts) if not has_text] == [3, 7, 25]
    assert prepcli("verify", shar).code == 0


def test_fields_that_are_kept(records: Lines, tmp_path: Path) -> None:
    for record in records[:5]:
        record["normalized_text"] = record["text"].upper()
    shar = shar_of(records[:10], tmp_path)
    done = prepcli("extend-text-context", shar)
    assert "5 cuts had a normalized_text, which MagpieTTS reads in place of the text" in done.out
    again = prepcli("extend-text-context", shar, "--keep-field", "normalized_text", "--overwrite")
    assert again.code == 0
    assert "normalized_text" not in again.out
    customs = [cut["supervisions"][0]["custom"] for cut in cuts_in(shar / FOLDER / "cuts.000000.jsonl.gz")]
    assert [custom.get("normalized_text") for custom in customs] == [
        record.get("normalized_text") for record in records[:10]
    ]


def test_sets_with_indexes_and_ranks(records: Lines, tmp_path: Path) -> None:
    """Uncompressed cuts get indexes as well; and bytes do not depend on ranks."""
    shar = shar_of(records, tmp_path, "--indexed")
    assert prepcli("extend-text-context", shar).code == 0
    expected = {name: data for name, data in tree(shar).items() if FOLDER in name}
    assert sum(name.endswith(".idx") for name in expected) == 3
    assert prepcli("verify", shar).code == 0
    for path in (shar / FOLDER).iterdir():
        (index,) = (shar / "index").rglob(f"{FOLDER}/{path.name}.idx")
        lines = path.read_bytes().splitlines(keepends=True)
        offsets = [0, *itertools.accumulate(map(len, lines))]
        assert index.read_bytes() == struct.pack(f"<{len(offsets)}Q", *offsets)
    shutil.rmtree(shar / FOLDER)
    shutil.rmtree(tmp_path / "shar.prepcli" / FOLDER)
    for path in (shar / "index").rglob(f"{FOLDER}/*"):
        path.unlink()
    for rank in (1, 0):
        done = prepcli("extend-text-context", shar, "--rank", rank, "--world-size", 2)
        assert done.code == 0, done.err
    assert {name: data for name, data in tree(shar).items() if FOLDER in name} == expected


def test_verify_compares_the_cuts(records: Lines, tmp_path: Path) -> None:
    shar = shar_of(records, tmp_path)
    assert prepcli("extend-text-context", shar).code == 0
    path = shar / FOLDER / "cuts.000001.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[::-1])))
    (shar / FOLDER / "cuts.000002.jsonl.gz").unlink()
    problems = prepcli("verify", shar, "--json").json["problems"]
    assert any("cuts.000001.jsonl.gz: not the 16 cuts of" in one for one in problems)
    assert any(one.startswith(f"{FOLDER}/cuts.000002: missing") for one in problems)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(("field", "is_custom"), [("text", False), ("speaker", False), ("style", True)])
def test_verify_finds_a_set_that_was_made_again(
    records: Lines, tmp_path: Path, field: str, is_custom: bool, is_known: bool
) -> None:
    """With the same ids and audio; only the state of the run tells of a field that gave the suffix."""
    records = [record | {"style": "calm"} for record in records[:4]]
    shar = shar_of(records, tmp_path)
    assert prepcli("extend-text-context", shar, "--suffix", "field:style").code == 0
    assert prepcli("verify", shar).code == 0
    changed = [*records[:3], records[3] | {field: "Something else."}]
    words = ("--shard-size", 20, "--audio-base-dir", MINI_CORPUS, "--overwrite")
    again = prepcli("manifest-to-shar", write_lines(tmp_path / "m.json", changed), shar, *words)
    assert again.code == 0, again.err
    assert "note: cuts_textContext was made of the earlier" in again.err
    assert f"prepcli extend-text-context {shar} --suffix field:style --overwrite" in again.err
    if not is_known:
        shutil.rmtree(tmp_path / "shar.prepcli")
    done = prepcli("verify", shar, "--json")
    assert done.code == int(is_known or not is_custom)
    assert len(done.json["problems"]) == done.code, done.json["problems"]
    if done.code:
        assert "run extend-text-context again with --overwrite" in done.json["problems"][0]


def suffix_of(suffix: str, id: str) -> str:
    return parse_suffix(suffix)({"id": msgspec.Raw(msgspec.json.encode(id))}, {})


def test_suffixes_of_corpora() -> None:
    """Those of NeMo's recipe: parts of the ids that its own script makes of paths."""
    lindy = "sup-rec-Rodney-44khz-CMU_HAPPY-RODNEY_CMU_HAPPY_000452"
    assert suffix_of("rivaLindyRodney", lindy) == "CMU_HAPPY"
    assert suffix_of("rivaEmmaMeganSeanTom", "sup-rec-Emma-44khz-EMMA_VERY_SAD_000012") == "VERY_SAD"
    assert suffix_of("jhsdGtc20Amp20Keynote", "sup-rec-amp20-KEYNOTE-x_1_2") == "KEYNOTE"
    assert suffix_of(r"regex:-(\d+)khz-(\w+)-", lindy) == "44_CMU_HAPPY"
    with pytest.raises(RecordRejected, match="has no suffix"):
        suffix_of("rivaLindyRodney", "sup-rec-a")


def test_a_suffix_of_a_field_is_looked_for_among_the_custom_ones_first() -> None:
    custom, own = ({"style": msgspec.Raw(text)} for text in (b'"calm"', b'"loud"'))
    suffix = parse_suffix("field:style")
    assert (suffix(own, custom), suffix(own, {}), suffix({}, custom)) == ("calm", "loud", "calm")


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        ("emotion", "--suffix emotion is not known; give field:NAME"),
        ("field:", "--suffix field: is not known"),
        ("regex:(", "is not a regular expression"),
        ("regex:abc", "needs a group in parentheses"),
    ],
)
def test_suffixes_that_mean_nothing(suffix: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_suffix(suffix)
    assert message in str(raised.value)


def test_a_folder_without_cuts(tmp_path: Path) -> None:
    done = prepcli("extend-text-context", tmp_path)
    assert (done.code, "is not a Lhotse Shar set" in done.err) == (2, True)
