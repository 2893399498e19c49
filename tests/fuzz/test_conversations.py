"""Conversations and texts that are almost right: every line is a record or a reject, and what is written is sound."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import MINI_CORPUS, copy_set, read_lines, write_lines
from tests.fuzz.calls import check_call, check_report, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import Draw, Shown, json_values, mutated
from tests.support.audio_files import write_audio
from tests.support.conversations import share_gpt_of
from tests.support.running import prepcli

A, B = (str(MINI_CORPUS / f"s01/s01_u{number}.flac") for number in (1, 2))
_TEXT, _AUDIO = {"from": "User", "type": "text", "value": "What?"}, {"from": "User", "type": "audio", "value": A}
FORMS: list[dict[str, Any]] = [
    {"id": "n", "conversations": [_TEXT, {**_AUDIO, "duration": 0.5, "offset": 0.25}], "custom": {"a": 1}},
    {"conversations": [_AUDIO, {"from": "Assistant", "type": "text", "value": "Yes."}, {**_AUDIO, "value": B}]},
    {"sound": A, "conversations": [{"from": "human", "value": "Hear <sound>!"}, {"from": "gpt", "value": "Yes."}]},
    {"messages": [{"role": "user", "content": "<audio><audio>?"}], "audios": [A, {"path": B}]},
    {"messages": [{"role": "user", "content": [{"type": "audio", "audio": A}, {"type": "text", "text": "?"}]}]},
]
SEGMENTS = [
    {"audio_filepath": f"{name}.wav", "offset": 0.1 * number, "duration": 0.2, "channel": number % 2, "text": "a b"}
    | {"words": [{"word": "a", "start": 0.0, "end": 0.1}]}
    for name in ("talk", "again")
    for number in range(3)
]
_MARK = "@odd@"
_NAMES = ["id", "offset", "duration", "type", "custom", "_skipme", "text", "_unusable", "audio_filepath", "channel"]


def _odd(draw: Draw, document: dict[str, Any]) -> bytes:
    """A document with an odd value in place of one of it, or beside one, anywhere in it."""
    copy = json.loads(json.dumps(document))
    at = copy
    while True:
        key = draw(st.sampled_from(list(at) if isinstance(at, dict) else range(len(at))))
        if isinstance(at[key], dict | list) and at[key] and draw(st.booleans()):
            at = at[key]
            continue
        break
    if draw(st.booleans()):
        at[key] = _MARK
    elif isinstance(at, dict):
        at[draw(st.sampled_from(_NAMES))] = _MARK
    else:
        at.append(_MARK)
    text = json.dumps(copy).replace(f'"{_MARK}"', draw(json_values()), 1)
    return text.encode("utf-8", "surrogatepass")


def _file(draw: Draw, documents: list[dict[str, Any]], most: int = 6) -> bytes:
    """Lines of documents, some of them odd, with odd ends now and then."""
    lines = []
    for _ in range(draw(st.integers(1, most))):
        good = draw(st.sampled_from(documents))
        line = json.dumps(good).encode() if draw(st.booleans()) else _odd(draw, good)
        lines.append(draw(mutated(line, most=3)) if draw(st.integers(0, 5)) == 0 and len(line) < 10_000 else line)
    end = draw(st.sampled_from([b"\n"] * 5 + [b"\r\n", b"\n\n"]))
    return Shown(draw(st.sampled_from([b""] * 5 + [b"\xef\xbb\xbf", b"\n"])) + end.join([*lines, b""]))


@examples(12)
@given(st.data(), st.sampled_from(["nemo", "sharegpt-webdataset"]))
def test_files_of_conversations(data: st.DataObject, form: str) -> None:
    text = _file(data.draw, FORMS)
    with scratch() as folder:
        (folder / "chats.jsonl").write_bytes(text)
        out = folder / "out"
        call = ("conversations-to-tarred", folder / "chats.jsonl", out, "--form", form, "--shard-size", 2)
        done = check_call(folder, out, *call, "--num-workers", 1, "--max-rejects", 99)
        if done.code != 2:
            report = check_report(folder / "out.prepcli", [text])
            if report["records_out"]:
                verified = prepcli("verify", out, "--num-workers", 1)
                assert verified.code == 0, verified.out
        kept = folder / "kept.json"
        filtered = check_call(folder / "none", kept, "filter", folder / "chats.jsonl", kept, "--max-rejects", 99)
        if filtered.code == 0:
            assert all(isinstance(line["conversations"], list) for line in read_lines(kept))
        check_call(folder / "none", kept, "verify", folder / "chats.jsonl", allowed={0, 1, 2})
        for more in ((), ("--record", 0)):
            check_call(folder / "none", kept, "inspect", folder / "chats.jsonl", *more)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    records = [record | {"audio_filepath": A} for record in read_lines(MINI_CORPUS / "manifest.json")[:3]]
    chats = write_lines(folder / "chats.jsonl", share_gpt_of(records))
    assert prepcli("conversations-to-tarred", chats, folder / "set", "--form", "sharegpt-webdataset").code == 0
    return folder / "set"


@examples(8)
@given(st.data())
def test_pairs_of_which_one_is_odd(pairs: Path, data: st.DataObject) -> None:
    """The JSON of a member is odd, or the tar is damaged."""
    with scratch() as folder:
        source = copy_set(pairs, folder, records=False)
        tar = source / "shard-0.tar"
        if data.draw(st.booleans()):
            tar.write_bytes(data.draw(mutated(tar.read_bytes(), head=2048)))
        else:
            with tarfile.open(tar, "a") as file:
                for name, text in (
                    ("9.json", _odd(data.draw, {**FORMS[2], "sound": "9.flac"})),
                    ("9.flac", Path(A).read_bytes()),
                ):
                    member = tarfile.TarInfo(name)
                    member.size = len(text)
                    (folder / "member").write_bytes(text)
                    with (folder / "member").open("rb") as content:
                        file.addfile(member, content)
        out = folder / "out"
        if check_call(folder, out, "conversations-to-tarred", source, out, "--max-rejects", 99).code != 2:
            check_report(folder / "out.prepcli")
        check_call(folder, out, "inspect", source)


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talks")
    for name in ("talk", "again"):
        write_audio(folder / f"{name}.wav", 1.0, 8000, channels=2)
    return folder


@examples(8)
@given(st.data(), st.sampled_from(["duplex", "moshi"]))
def test_segments_of_two_voices(talks: Path, data: st.DataObject, form: str) -> None:
    text = _file(data.draw, SEGMENTS)
    with scratch() as folder:
        (folder / "m.json").write_bytes(text)
        out = folder / "out"
        call = ("conversations-to-tarred", folder / "m.json", out, "--form", form, "--agent-channel", 0)
        done = check_call(folder, out, *call, "--audio-base-dir", talks, "--max-rejects", 99, "--num-workers", 1)
        if done.code != 2:
            check_report(folder / "out.prepcli")


@examples(8)
@given(st.data(), st.booleans())
def test_texts(data: st.DataObject, has_target: bool) -> None:
    drawn = data.draw(st.lists(st.one_of(st.text(max_size=20).map(str.encode), st.binary(max_size=20)), max_size=8))
    text = data.draw(mutated(b"\n".join(drawn)))
    with scratch() as folder:
        (folder / "a.txt").write_bytes(text)
        (folder / "b.txt").write_bytes(text[::-1] if data.draw(st.booleans()) else text)
        out = folder / "out"
        more = ("--target", folder / "b.txt") if has_target else ()
        call = ("texts-to-shards", folder / "a.txt", out, "--shard-size", 3, "--max-rejects", 99)
        if check_call(folder, out, *call, *more).code != 2:
            report = check_report(folder / "out.prepcli")
            assert report["records_in"] == text.count(b"\n") + (not text.endswith(b"\n"))
            for name in ("texts", "source", "target"):
                found = [path.read_bytes().decode() for path in out.glob(f"{name}_*.txt")]
                lines = [line for shard in found for line in io.StringIO(shard, newline=None)]
                assert len(lines) == report["records_out"] * bool(found) and all(map(str.strip, lines))
