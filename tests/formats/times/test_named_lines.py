"""Lines are found by name, in any order, and read again from the file."""

import hashlib
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.formats.times.named_lines import NamedLines, stripped
from tests.support.seeds import draw_for


def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(OSError, match=r"Input/output error: '/proc/self/mem'"):
        NamedLines("/proc/self/mem", 0)


def test_lines_of_a_name_in_any_order(tmp_path: Path) -> None:
    draw = draw_for("test_lines_of_a_name_in_any_order")
    path = tmp_path / "x.ctm"
    for _ in range(100):
        names = [draw.choice(("a", "b", "größer", ";;", "")) for _ in range(draw.randrange(0, 40))]
        lines = [f"{name} {number}\n" if name else "\n" for number, name in enumerate(names, start=1)]
        data = b"\xef\xbb\xbf" * draw.randrange(2) + "".join(lines).encode()
        path.write_bytes(data)
        found = NamedLines(str(path), 0)
        assert found.sha256 == hashlib.sha256(data).hexdigest()
        assert set(found.unused()) == set(names) - {";;", ""}
        for name in ("a", "b", "größer"):
            read = [
                (number, line)
                for block in found.blocks(name)
                for number, line in enumerate(block.data.decode("utf-8-sig").splitlines(), block.number)
                if line.startswith(f"{name} ")
            ]
            assert read == [(number, f"{name} {number}") for number, own in enumerate(names, start=1) if own == name]
        assert list(found.unused()) == []


def test_objects_with_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in (
        '[{"key": "a", "n": [1]} ,\n {"key": "b"},{"key": "a"}\n]',
        '{"key": "a", "n": [1]}\n{"key": "b"}\n{"key": "a"}\n',
    ):
        for mark in ("", "\ufeff"):
            path.write_text(mark + text, encoding="utf-8")
            found = NamedLines(str(path), None)
            assert [stripped(block.data) for block in found.blocks("a")] == [b'{"key": "a", "n": [1]}', b'{"key": "a"}']
            assert [block.number for block in found.blocks("b")] == [2]
            assert list(found.unused()) == []
            assert list(NamedLines(str(path), None).unused()) in (["a", "b"], ["b", "a"])


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        (1, "SPEAKER talk\nSPEAKER\n", "x:2 names no recording; correct the line, or remove it"),
        (None, '[{"key": "a"}, {"text": "b"}]', "x:1 has an object without a key"),
        (None, '[{"key": "a"}', "x is damaged JSON"),
        (None, '[{"key": ' + "[" * 100_000, "x is damaged JSON"),
    ],
)
def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: int | None, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text(text)
    with pytest.raises(UsageError, match=message):
        NamedLines("x", column)
