"""prepare-texts: records that NeMo's TextToTextDataset reads, and no others."""

import io
import logging
import os
import re
import resource
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import Outcome, prepcli, prepcli_process


def prepare(source: Path, out: Path, *options: object) -> Outcome:
    done = prepcli("prepare-texts", source, out, *options)
    assert done.code == 0, done.err
    return done


def test_lines_of_text(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes("\ufeffHello, you.\r\n\n Dr. Ünal\u2019s 3 cats!\n...\n".encode() + b"\xff\n")
    options = ("--asr-text", "plain", "--speakers", "7,0-2", "--max-rejects", 2)
    done = prepare(tmp_path / "texts.txt", tmp_path / "out.json", *options)
    assert read_lines(tmp_path / "out.json") == [
        {"text": "hello you", "tts_text": "Hello, you."},
        {"text": "dr ünal's 3 cats", "tts_text": "Dr. Ünal\u2019s 3 cats!"},
    ]
    assert (tmp_path / "out_speakers.txt").read_text().split() == ["7", "0", "1", "2"]
    assert f"speakers_filepath  {tmp_path}/out_speakers.txt" in done.out
    assert re.search(r"^  output +\S+ \w+ written$", done.out, re.MULTILINE) and "hours" not in done.out
    rejects = read_lines(tmp_path / "out.json.prepcli/rejects.jsonl")
    assert [(r["reject_reason"], r["manifest_line"]) for r in rejects] == [("empty_text", 4), ("not_utf8", 5)]


def test_a_manifest(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"text": "A 1", "normalized_text": "a one"},
        {"text": "B", "normalized_text": None},
        {"text": 3, "normalized_text": "x"},
        {"normalized_text": "x"},
        {"text": "C", "normalized_text": " "},
    ]
    write_lines(tmp_path / "m.json", records)
    options = ("--tts-text-field", "normalized_text", "--asr-text", "lower", "--max-rejects", 4)
    prepare(tmp_path / "m.json", tmp_path / "out.json", *options)
    assert read_lines(tmp_path / "out.json") == [{"text": "a 1", "tts_text_normalized": "a one"}]
    reasons = [r["reject_reason"] for r in read_lines(tmp_path / "out.json.prepcli/rejects.jsonl")]
    assert reasons == ["missing_field", "bad_field", "missing_field", "empty_text"]


def test_texts_that_the_manifest_has_for_the_tts_model(tmp_path: Path) -> None:
    """What NeMo would read stays, and tts_text counts as not normalized, as it does for NeMo."""
    records: list[dict[str, Any]] = [
        {"text": "a 1", "tts_text": "A 1!"},
        {"text": "b 2", "tts_text": "B 2!", "tts_text_normalized": "B two!"},
        {"text": "c 3"},
        {"text": "d", "tts_text": ","},
        {"text": "e", "tts_text": " "},
    ]
    write_lines(tmp_path / "m.json", records)
    out = tmp_path / "out.json"
    done = prepare(tmp_path / "m.json", out, "--max-rejects", 1)
    # NeMo normalizes all texts as soon as one is not, so all have the same name.
    assert [record["tts_text"] for record in read_lines(out)] == ["A 1!", "B two!", "c 3", ","]
    assert "3 of 4 texts are not normalized" in done.out
    assert prepcli("verify", out).code == 0
    for options, field, read in (
        (("--is-normalized",), "tts_text_normalized", ["A 1!", "B two!", "c 3", ","]),
        (("--tts-text-field", "tts_text"), "tts_text", ["A 1!", "B 2!", ","]),
        (("--tts-text-field", "tts_text", "--is-normalized"), "tts_text_normalized", ["A 1!", "B 2!", ","]),
    ):
        prepare(tmp_path / "m.json", out, *options, "--max-rejects", 2, "--overwrite")
        assert [record[field] for record in read_lines(out)] == read


@pytest.mark.parametrize("num_shards", [1, 3])
def test_shards(num_shards: int, tmp_path: Path) -> None:
    """Shards of nearly equal size, which together are the whole file; the same for any number of ranks."""
    texts = [f"text {number}\n" for number in range(4999)]
    (tmp_path / "texts.txt").write_text("".join([*texts[:2000], "...\n", *texts[2000:]]))
    options = ("--num-shards", num_shards, "--asr-text", "plain")
    done = prepare(tmp_path / "texts.txt", tmp_path / "out.json", *options, "--json")
    assert done.json["rejects_by_reason"] == {"empty_text": 1}
    pattern = done.json["outputs"]["paths"]
    assert pattern == f"{tmp_path}/out_shards/out_{'_OP_0..2_CL_' if num_shards == 3 else '0'}.json"
    shards = [(tmp_path / f"out_shards/out_{number}.json").read_bytes() for number in range(num_shards)]
    assert b"".join(shards) == (tmp_path / "out.json").read_bytes()
    sizes = [shard.count(b"\n") for shard in shards]
    assert (sum(sizes), max(sizes) - min(sizes)) in {(4999, 0), (4999, 1)}
    for rank in (1, 0):
        arguments = ("prepare-texts", tmp_path / "texts.txt", tmp_path / "again.json", *options)
        assert prepcli(*arguments, "--rank", rank, "--world-size", 2).code in (0, 4)
    assert [path.read_bytes() for path in sorted((tmp_path / "again_shards").iterdir())] == shards
    assert prepcli("verify", tmp_path / "out.json").code == 0
    (tmp_path / "out_shards/out_0.json").write_bytes(b"")
    assert "out_shards/out_0.json" in prepcli("verify", tmp_path / "out.json").out
    (tmp_path / "out_shards/out_0.json").write_bytes(shards[0])
    prepare(tmp_path / "texts.txt", tmp_path / "out.json", "--overwrite")
    assert not (tmp_path / "out_shards").exists()


def test_more_shards_than_a_process_may_have_open_files(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("".join(f"text {number}\n" for number in range(200)))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, limits[1]))
    try:
        prepare(tmp_path / "texts.txt", tmp_path / "out.json", "--num-shards", 200)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.slow
def test_normalization_by_the_package(tmp_path: Path) -> None:
    """Kinyarwanda has the smallest grammars: they are made in 12 s, those of English in 27 s."""
    folder = Path(sys.prefix) / "normalizer"
    if not (folder / "nemo_text_processing").is_dir():
        assert os.environ.get("CI") != "true" or (folder / "cannot-be-installed").exists(), "run scripts/setup.sh"
        pytest.skip(f"nemo_text_processing is not in {folder}: run scripts/setup.sh")
    environ = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), str(folder)])}
    (tmp_path / "texts.txt").write_text("3\n")
    done = prepcli_process(
        "prepare-texts", tmp_path / "texts.txt", tmp_path / "out.json", "--normalize", "rw", environ=environ
    )
    assert done.code == 0, done.err
    assert read_lines(tmp_path / "out.json") == [{"text": "3", "tts_text_normalized": "gatatu"}]
    assert "INFO" not in done.err


def test_normalization_where_the_package_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in with the names of nemo_text_processing, whose grammars take long to make."""

    logger = logging.getLogger("NeMo-text-processing")
    logger.addHandler(handler := logging.StreamHandler(logged := io.StringIO()))
    monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setattr(logger, "handlers", [handler])

    class Normalizer:
        def __init__(self, input_case: str, lang: str, whitelist: str | None) -> None:
            assert (input_case, whitelist) in (("cased", None), ("cased", str(tmp_path / "words.tsv")))
            if lang != "en":
                raise NotImplementedError(f"Language {lang} has not been supported yet.")

        def normalize(self, text: str, verbose: bool, punct_pre_process: bool, punct_post_process: bool) -> str:
            assert (verbose, punct_pre_process, punct_post_process) == (False, True, True)
            logger.setLevel(logging.INFO)  # as the package does in each call
            logger.info("Creating ClassifyFst grammars")
            logger.warning("a warning")
            return text.replace("3", "three")

    (tmp_path / "texts.txt").write_text("3 cats\n")
    options = ("prepare-texts", tmp_path / "texts.txt", tmp_path / "out.json", "--normalize")
    monkeypatch.setitem(sys.modules, "nemo_text_processing", None)
    assert "pip install nemo_text_processing" in prepcli(*options, "en").error_line
    for name in ("", ".text_normalization", ".text_normalization.normalize"):
        module = ModuleType(f"nemo_text_processing{name}")
        module.__spec__ = pytest.__spec__  # `find_spec` looks at it
        module.__path__ = []
        module.__dict__["Normalizer"] = Normalizer
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert "--normalize xx: nemo_text_processing cannot load its grammars" in prepcli(*options, "xx").error_line
    assert prepcli(*options, "en").code == 0
    assert read_lines(tmp_path / "out.json") == [{"text": "3 cats", "tts_text_normalized": "three cats"}]
    assert logged.getvalue() == "a warning\n"
    records: list[dict[str, Any]] = [
        {"text": "3 cats", "tts_text": "3 Cats."},
        {"text": "3 cats", "tts_text": "3 Cats.", "tts_text_normalized": "By hand: 3."},
        {"text": "a", "tts_text": None, "other": "3 dogs"},
        {"text": "3"},
    ]
    write_lines(tmp_path / "m.json", records)
    again = ("prepare-texts", tmp_path / "m.json", tmp_path / "m_out.json", "--normalize", "en", "--overwrite")
    for more, read in (
        ((), ["three Cats.", "By hand: 3.", "a", "three"]),
        (("--tts-text-field", "tts_text"), ["three Cats.", "three Cats."]),
        (("--tts-text-field", "other"), ["three dogs"]),
    ):
        assert prepcli(*again, *more, "--max-rejects", 3).code == 0
        assert [record["tts_text_normalized"] for record in read_lines(tmp_path / "m_out.json")] == read
    words = (*options[:2], tmp_path / "own.json", "--normalize", "en", "--whitelist", tmp_path / "words.tsv")
    for text in ("kg\tkilos\n", "kg\tkilograms\n"):
        (tmp_path / "words.tsv").write_text(text)
        done = prepcli(*words)
    assert (done.code, "words.tsv has another content" in done.error_line) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--speakers", "3-1"), "--speakers takes numbers and ranges"),
        (("--speakers", "a"), "--speakers takes numbers and ranges"),
        (("--is-normalized", "--normalize", "en"), "give --is-normalized or --normalize, not both"),
        (("--whitelist", "texts.txt"), "--whitelist has no effect without --normalize"),
        (("--tts-text-field", "x"), "is a file of texts"),
        (("--num-shards", "2"), "--num-shards 2 for 1 text: give fewer"),
    ],
)
def test_refused(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a\n")
    done = prepcli("prepare-texts", "texts.txt", "out.json", *options, cwd=tmp_path)
    assert done.code == 2
    assert message in done.error_line
    assert not (tmp_path / "out.json").exists()


def test_the_file_in_the_way_is_named(tmp_path: Path) -> None:
    """It may be one that is written beside the file that the command names."""
    (tmp_path / "texts.txt").write_text("a\n")
    for name in ("out_speakers.txt", "out.json"):
        (tmp_path / name).write_text("mine")
        done = prepcli("prepare-texts", "texts.txt", "out.json", "--is-normalized", cwd=tmp_path)
        assert (done.code, f"prepcli: {name} exists, and may be yours" in done.error_line) == (2, True)


@pytest.mark.nemo
@pytest.mark.slow
def test_nemo_reads_them(tmp_path: Path) -> None:
    dataset_module = pytest.importorskip("nemo.collections.asr.data.text_to_text")
    prepare(MINI_CORPUS / "manifest.json", tmp_path / "out.json", "--is-normalized", "--speakers", "3-5")

    class Tokenizer:
        bos_id, eos_id, pad_id = 1, 2, 0

        def text_to_ids(self, text: str) -> list[int]:
            return [ord(char) for char in text]

    found = dataset_module.TextToTextDataset(
        manifest_filepath=str(tmp_path / "out.json"),
        speakers_filepath=str(tmp_path / "out_speakers.txt"),
        asr_tokenizer=Tokenizer(),
        asr_use_start_end_token=False,
        tts_parser=lambda text: [ord(char) for char in text],
        tts_text_pad_id=0,
        tts_text_normalizer=None,
        tts_text_normalizer_call_kwargs={},
    )
    texts = [record["text"] for record in read_lines(MINI_CORPUS / "manifest.json")]
    items = [found[number] for number in range(len(found))]
    assert ["".join(map(chr, item.transcript.tolist())) for item in items] == texts
    assert ["".join(map(chr, item.tts_text.tolist())) for item in items] == texts
    assert {item.speaker for item in items} <= {3, 4, 5}


@pytest.mark.nemo
@pytest.mark.slow
def test_nemo_reads_shards(tmp_path: Path) -> None:
    adapters = pytest.importorskip("nemo.collections.common.data.lhotse.text_adapters")
    done = prepare(MINI_CORPUS / "manifest.json", tmp_path / "out.json", "--num-shards", 5, "--json")
    texts = [record["text"] for record in read_lines(MINI_CORPUS / "manifest.json")]
    found = adapters.LhotseTextJsonlAdapter(paths=done.json["outputs"]["paths"])
    assert [example.text for example in found] == texts


def test_verify_finds_what_changed(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("Hello, you.\nThree cats.\n")
    out = tmp_path / "out.json"
    prepare(tmp_path / "texts.txt", out)
    done = prepcli("verify", out)
    assert (done.code, "2" in done.out) == (0, True), done.err
    whole = out.read_bytes()
    out.write_bytes(whole.splitlines(keepends=True)[0])
    assert prepcli("verify", out).code == 1
    out.write_bytes(whole[:-4])
    assert "out.json:2" in (done := prepcli("verify", out)).out + done.err
    out.write_bytes(whole)
    (tmp_path / "out_speakers.txt").write_text("99\n")
    assert "out_speakers.txt" in (done := prepcli("verify", out)).out + done.err
    (tmp_path / "out_speakers.txt").unlink()
    assert prepcli("verify", out).code == 1


def test_verify_without_the_records_of_the_run(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    write_lines(out, [{"text": "a", "tts_text": "A"}, {"text": "b", "tts_text": "B"}])
    assert prepcli("verify", out).code == 0
    write_lines(out, [{"text": "a", "tts_text": "A"}, {"text": "b", "tts_text_normalized": "B"}, {"text": ""}])
    done = prepcli("verify", out)
    assert done.code == 1
    assert "out.json:2: it has tts_text_normalized, and lines before it have tts_text" in done.out + done.err
    assert "out.json:3: there must be one of" in done.out + done.err
