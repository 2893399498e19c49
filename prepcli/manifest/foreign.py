"""Refuses files of other kinds that are given as a manifest or as texts, before any work."""

from collections.abc import Collection

from prepcli.errors import UsageError
from prepcli.manifest.json_kinds import RECORDS, FileKind, decoded, kind_of_object
from prepcli.manifest.kinds import head_of, kind_of, kind_of_bytes, utf16_of
from prepcli.manifest.remedies import conversion, new_name


def check_is_json_lines(path: str, accepts: Collection[str] = ()) -> None:
    """Refuse a file whose beginning shows that it is of another kind: audio, an archive, a table, a JSON list, ...

    JSON lines of other objects, such as lhotse cuts, are of another kind too, except those that `accepts` has (see
    `FileKind.lines`), and so are lines of which none of the first begins like an object. Lines that do so are not
    refused, even if all are broken JSON: they are rejects. A file that cannot be read is not refused: its reader
    reports the error.

    Raises:
        UsageError: the file is of another kind; the message has the kind, and advice.
    """
    kind = kind_of(path)
    if kind is not None and kind.lines not in accepts:
        raise UsageError(f"{path} is not a manifest of JSON lines ({kind.name}); {kind.advice}")


def check_is_config(path: str) -> None:
    """Refuse a YAML file of lhotse, which is given as an `input_cfg`.

    Raises:
        UsageError: the file is of lhotse; the message has its kind, and advice.
    """
    kind = kind_of(path)
    if kind is not None and kind.name.endswith("in YAML"):
        raise UsageError(f"{path} is not an input_cfg ({kind.name}); {kind.advice}")


def check_is_text(path: str) -> None:
    """Refuse a file that is certainly not lines of text: audio and other binary files, UTF-16, and JSON of records.

    Raises:
        UsageError: the file is not text; the message has its kind.
    """
    head = head_of(path) or b""
    kind = kind_of_bytes(head, path)
    is_binary = kind is not None and utf16_of(head) is None
    if kind is None and head.lstrip()[:1] in (b"[", b"{"):
        kind = kind_of(path)
        fields = decoded(head.lstrip().splitlines()[0])
        if kind is None and isinstance(fields, dict) and kind_of_object(fields) == RECORDS:
            texts = conversion(path, "jq -r .text", new_name(path, suffix=".txt"))
            kind = FileKind(RECORDS, f"write their texts: {texts}")
    if kind is not None:
        advice = "give a file with one text per line, or a manifest" if is_binary else kind.advice
        raise UsageError(f"{path} is not lines of text ({kind.name}); {advice}")
