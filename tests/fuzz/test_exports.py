"""Damaged exports and indexes: `verify`, `inspect` and `index --check` say what is wrong; none falls over."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import MINI_CORPUS, copy_set, read_lines, write_lines
from tests.fuzz.calls import check_call, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import mutated
from tests.fuzz.test_sets import VERIFIED, damage
from tests.support.audio_files import write_audio
from tests.support.conversations import write_conversations
from tests.support.running import prepcli
from tests.support.toy_codec import use_toy_codec

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = {
    "wenet": ("manifest-to-wenet", "--shard-size", 4),
    "raw": ("manifest-to-wenet", "--raw"),
    "mels": ("manifest-to-mels", "--devices", "cpu"),
    "parquet": ("manifest-to-parquet", "--shard-size", 4),
    "omnilingual": ("manifest-to-parquet", "--form", "omnilingual", "--corpus", "c", "--set-split", "dev"),
    "conversations": ("conversations-to-tarred", "--shard-size", 4),
    "pairs": ("conversations-to-tarred", "--shard-size", 4, "--form", "sharegpt-webdataset"),
    "texts": ("texts-to-shards", "--num-shards", 2),
    "files": ("convert-audio",),
    "tarred": ("manifest-to-tarred", "--num-shards", 2),
    "shar": ("manifest-to-shar", "--shard-size", 4, "--indexed"),
}
FORMS: dict[str, tuple[str, str, str | int]] = {
    "omnivoice": ("toy8", "--shard-size", 4),
    "qwen3-tts": ("toy16", "--ref-audio", "voice.wav"),
}
"""Kinds of codes with their texts: the toy codec, and options."""


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each kind of set of eight records, in a folder of its name."""
    folder = tmp_path_factory.mktemp("exports")
    manifest = write_lines(folder / "m.json", read_lines(MINI_CORPUS / "manifest.json")[:8])
    chats = write_conversations(manifest)
    texts = folder / "m.txt"
    texts.write_text("".join(f"{line['text']}\n" for line in read_lines(manifest)))
    sources: dict[str | int, Path] = {"conversations-to-tarred": chats, "texts-to-shards": texts}
    for kind, (command, *options) in KINDS.items():
        source = sources.get(command, manifest)
        where: tuple[object, ...] = () if kind == "texts" else ("--audio-base-dir", MINI_CORPUS)
        done = prepcli(command, source, folder / kind, *options, *where, "--num-workers", 1)
        assert done.code == 0, done.err
    write_audio(folder / "voice.wav", 0.2, 24000)
    with pytest.MonkeyPatch.context() as patch:
        use_toy_codec(patch.setattr)
        patch.chdir(folder)
        for form, (codec, *options) in FORMS.items():
            where = ("--output-dir", folder / form, "--audio-base-dir", MINI_CORPUS, "--devices", "cpu")
            made: tuple[object, ...] = (
                "extend-codec-codes",
                manifest,
                "--output-form",
                form,
                "--codec-model",
                codec,
                *where,
                *options,
            )
            done = prepcli(*made)
            assert done.code == 0, done.err
    return folder


@examples(30)
@given(st.data(), st.sampled_from(sorted([*KINDS, *FORMS])), st.booleans())
def test_what_looks_at_a_set(sets: Path, data: st.DataObject, kind: str, with_records: bool) -> None:
    with scratch() as folder:
        out = copy_set(sets / kind, folder, records=with_records)
        damage(out, data.draw)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        verified = check_call(folder, folder / "none", "verify", out, "--num-workers", 1, allowed=VERIFIED)
        assert verified.code != 1 or "PROBLEM" in verified.out
        check_call(folder, folder / "none", "inspect", out, allowed=VERIFIED)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@examples(20)
@given(st.data())
def test_an_index_is_right_or_not_believed(sets: Path, data: st.DataObject) -> None:
    """Only indexes are damaged: `index --check` and `verify` find each that differs, and `index` mends them."""
    with scratch() as folder:
        out = folder / "tarred"
        shutil.copytree(sets / "tarred", out)
        found = sorted(out.rglob("*.idx"))
        for path in data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=2, unique=True)):
            path.write_bytes(data.draw(mutated(path.read_bytes())))
        differ = [path for path in found if path.read_bytes() != (sets / path.relative_to(folder)).read_bytes()]
        for command in (("index", out, "--check"), ("verify", out, "--num-workers", 1)):
            done = check_call(folder, folder / "none", *command, allowed=VERIFIED)
            assert (done.code == 0) == (not differ), (differ, done.out, done.err)
        assert prepcli("index", out, "--overwrite").code == 0
        assert all(path.read_bytes() == (sets / path.relative_to(folder)).read_bytes() for path in found)


@pytest.mark.slow
def test_a_mel_of_which_torch_says_nothing(sets: Path, tmp_path: Path) -> None:
    """Found by fuzzing: the error for a file that is cut short has no message."""
    out = copy_set(sets / "mels", tmp_path, records=False)
    next(out.glob("mels/*.pt")).write_bytes(b"XK\3\4\0\0\x08\x08")
    done = prepcli("verify", out, "--num-workers", 1)
    assert done.code == 1
    assert "cannot be read: EOFError" in done.out
