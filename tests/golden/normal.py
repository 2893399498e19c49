"""Texts without what differs from run to run: times, speeds, process ids, the host, digests, versions, ports."""

import re
import socket
from collections.abc import Mapping

NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
_RULES = (
    (r'"(digest)": "[0-9a-f]{16,64}"', r'"\1": "<digest>"'),
    (r'"(prepcli)": "[^"]*"', r'"\1": "<version>"'),
    (r"\bprepcli \d+\.\d+\.\d+(\.dev\d+)?\b", "prepcli <version>"),
    (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:<port>"),
    (rf'"(\w+_per_second|real_time_factor|time_in_\w+|waited_for_\w+|eta_seconds)": {NUMBER}', r'"\1": <measured>'),
    (r"\brun-[0-9a-f]{8}\b", "run-<id>"),  # a folder for lhotse
    (rf"has {NUMBER} \w+ free", "has <bytes> free"),
    (r"\b20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d([.,]\d+)?)?", "<time>"),
)
RULES = tuple((re.compile(pattern), text) for pattern, text in _RULES)


def normal(name: str, text: str, known: Mapping[str, str]) -> str:
    """The text named `name` with marks in the place of these values, and of what varies.

    `files` has only what OUT holds, and stays as it is.
    """
    if name in ("files", "exit"):
        return text
    for value, mark in {**known, socket.gethostname(): "<host>"}.items():
        text = text.replace(value, mark)
    for pattern, mark in RULES:
        text = pattern.sub(mark, text)
    return text
