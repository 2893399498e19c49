"""Strategies of hypothesis: bytes that are almost right."""

import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Strategy = st.SearchStrategy
Draw = Callable[[Strategy[Any]], Any]
"""`st.data().draw`, or what `st.composite` passes."""

INTERESTING = [0, 1, 2, 3, 8, 16, 0x7F, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
PIECES = [b"\0", b"\xff\xff\xff\xff", b"\xef\xbb\xbf", b"\r\n", b"\n\n", b"\xe2\x80\xa8", b'"', b"{", b"]", b"\\ud800"]


class Shown(bytes):
    """Bytes that are shown with their long repetitions as products, so that an example fits on a page."""

    def __repr__(self) -> str:
        parts = re.split(rb"(?s)((.{1,7}?)\2{20,})", bytes(self))
        shown = []
        for text, whole, unit in zip(parts[::3], [*parts[1::3], b""], [*parts[2::3], b""], strict=True):
            shown += [repr(text)] * bool(text)
            if whole:
                shown.append(f"{unit!r} * {len(whole) // len(unit)}")
        return " + ".join(shown) or "b''"


@st.composite
def mutated(draw: st.DrawFn, data: bytes, most: int = 3, head: int = 64) -> bytes:
    """`data` with up to `most` changes; half of them in its first `head` bytes, where formats keep their sizes."""
    for _ in range(draw(st.integers(0, most))):
        within = head if draw(st.booleans()) else len(data)
        at = draw(st.integers(0, max(0, min(within, len(data)) - 1)))
        match draw(st.integers(0, 6)):
            case 0:  # one bit
                data = data[:at] + bytes([(data[at] if data else 0) ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
            case 1:  # a number that lies
                width = draw(st.sampled_from([1, 2, 4, 8]))
                order: Any = draw(st.sampled_from(["little", "big"]))
                number = draw(st.sampled_from(INTERESTING)) % (1 << 8 * width)
                data = data[:at] + number.to_bytes(width, order) + data[at + width :]
            case 2:  # the end is missing
                data = data[:at]
            case 3:  # a piece is missing
                data = data[:at] + data[at + draw(st.integers(1, 200)) :]
            case 4:  # a piece is there twice
                end = at + draw(st.integers(1, 200))
                data = data[:end] + data[at:end] + data[end:]
            case 5:  # something foreign
                data = data[:at] + draw(st.sampled_from(PIECES)) + data[at:]
            case _:
                data = data[:at] + draw(st.binary(max_size=40)) + data[at:]
    return Shown(data)


HUGE = ["1e308", "1e999", "-1e999", "1e-320", "1e15", "9" * 400, "9" * 5000, "0." + "0" * 400 + "1", "-0.0", "0", "-1"]
WORDS = ["null", "true", "false", "NaN", "Infinity", "-Infinity", "[]", "{}", '""', '"\\ud800"', '"\\u0000"', '"\\n"']
DEEP = ["[" * 3000 + "]" * 3000, "[" * 400 + "]" * 400, '{"a":' * 2000 + "1" + "}" * 2000, "[" * 100_000]
LONG = ['"' + "x" * 1_000_000 + '"', '"' + "5" * 5000 + '"', "[" + "1," * 300_000 + "1]"]
PATHS = [
    '"../../up.wav"',
    '"/"',
    '"."',
    '".."',
    '"~"',
    '"/dev/null"',
    '"good.wav/x"',
    '"good.wav\\u0000"',
    '"-"',
    '" "',
]


def json_values() -> Strategy[str]:
    """The text of a value that nobody expects."""
    odd = st.sampled_from([*HUGE, *WORDS, *PATHS, *DEEP, *LONG])
    numbers = st.one_of(st.floats().map(json.dumps), st.integers().map(json.dumps))
    texts = st.text(max_size=30).map(json.dumps)
    raw = st.text(max_size=30).map(lambda text: json.dumps(text, ensure_ascii=False))
    return st.one_of(odd, numbers, texts, raw)


def json_lines(good: dict[str, Any], fields: list[str]) -> Strategy[bytes]:
    """`good` as a line, with a few of `fields` replaced, added, or there twice."""

    def write(changes: list[tuple[str, str]], twice: bool) -> bytes:
        pairs = [(name, json.dumps(value, ensure_ascii=False)) for name, value in good.items()]
        if not twice:
            changed = dict(changes)
            pairs = [(name, text) for name, text in pairs if name not in changed]
            changes = list(changed.items())
        text = ", ".join(f"{json.dumps(name)}: {value}" for name, value in [*pairs, *changes])
        return Shown(f"{{{text}}}".encode("utf-8", "surrogatepass"))

    names = st.one_of(st.sampled_from(fields), st.sampled_from([*good]))
    return st.builds(write, st.lists(st.tuples(names, json_values()), max_size=3), st.booleans())


@st.composite
def manifests(draw: st.DrawFn, good: dict[str, Any], fields: list[str], most: int = 12) -> bytes:
    """A manifest of good and odd lines, with odd line ends now and then."""
    fine = json.dumps(good).encode()
    lines = draw(st.lists(st.one_of(st.just(fine), json_lines(good, fields)), min_size=1, max_size=most))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(lines) - 1))
        if len(lines[at]) < 10_000:
            lines[at] = draw(mutated(lines[at], most=4, head=40))
    end = draw(st.sampled_from([b"\n"] * 6 + [b"\r\n", b"\n\n", b"\n \n", b"\r"]))
    start = draw(st.sampled_from([b""] * 6 + [b"\xef\xbb\xbf", b"\n", b"\0", b"\xff\xfe"]))
    return Shown(start + end.join(lines) + draw(st.sampled_from([end, b"", b"\n\n"])))
