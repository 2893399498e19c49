"""The certificate of a comparison with prints: what was compared, how, with which result, as JSON and as a page.

It has no date and no path, so that the same run gives the same bytes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.fingerprint import PARAMETERS
from prepcli.commands.find_duplicates.near import LIMITS, MIN_SHARE, MIN_WORDS
from prepcli.commands.find_duplicates.prints import KINDS, Header, Prints
from prepcli.interface.pages import page, paragraph, table
from prepcli.interface.printing import number_of
from prepcli.version import __version__

FORMAT = 1
_SAME = {
    "audio": "the same samples, as 16 bits, with the same rate and channels, after decoding",
    "near-audio": "nearly the same recording, by its fingerprint",
    "text": "the same text after NFKC, in folded case, without punctuation and invisible characters; of conversations, "
    "the roles and all texts",
    "speaker": "the same name of the speaker",
}
_WITHOUT = {
    "audio": "no audio",
    "near-audio": "less than 0.6 s of sound",
    "text": "no text",
    "speaker": "no speaker",
}
_SHOWS = (
    "The digests say which sets were compared: other records, or the same in another order, have other digests. Who "
    "has a set can compute them again with `prepcli find-duplicates SET --write-prints FILE`.",
    "The table of results says how many groups of records of the inputs and of the prints are the same by each kind. "
    "How many altered copies near-audio finds was measured; see benchmarks/README.md of prepcli.",
)
_CANNOT_SHOW = (
    "It covers the records that were given. It does not show that a model was trained on them, or on nothing else.",
    "Audio at another speed or pitch, a recording of a loudspeaker, the same sentence spoken again and a paraphrase or "
    "translation of a text are not found.",
    "By near-audio, audio that shares less than half of its sound with another record is not found, and a few altered "
    "copies are missed.",
    "It is not signed: who doubts it repeats the comparison with the prints and the inputs.",
)
_ROWS = {
    "digest": "digest",
    "records": "records",
    "rejected": "whose audio could not be read",
    "unusable": "lines that are not records",
    "skipped": "lines with _skipme",
    "hours": "hours of audio",
    "prepcli": "read by prepcli",
}
_STYLE = """\
body { max-width: 60rem; }
h1 { font-size: 1.4rem; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; break-after: avoid; }
table { border-collapse: collapse; width: 100%; }
tr { break-inside: avoid; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #cbd2d9;
         overflow-wrap: anywhere; }
"""


def certificate_of(
    inputs: Header, against: Sequence[Prints], rows: Sequence[Mapping[str, Any]], asked: Sequence[str]
) -> dict[str, Any]:
    """The certificate as JSON values.

    Args:
        inputs: the description of the inputs.
        against: the prints with which they were compared.
        rows: what was found of each kind.
        asked: the kinds that `--by` names.
    """
    known = {kind for prints in against for kind in prints.header.kinds}.intersection(inputs.kinds)
    compared = [_compared(row, inputs, against) for row in rows if row["by"] in known]
    groups = sum(row["groups"] for row in compared)
    result = f"{number_of(groups, 'group')} of records that the inputs share with the prints"
    return {
        "prepcli_certificate": FORMAT,
        "prepcli": __version__,
        "groups": groups,
        "result": result if compared else "Nothing was compared",
        "inputs": _side(inputs),
        "prints": [{"file": name} | _side(header) for name, header in _sides(inputs, against)[1:]],
        "compared": compared,
        "not_compared": [
            {"by": kind, "side": side, "why": why}
            for kind in KINDS
            for side, why in _not_compared(kind, inputs, against, asked)
        ],
        "near_audio": {
            "fingerprint": PARAMETERS,
            "min_words": MIN_WORDS,
            "min_common_share": MIN_SHARE,
            "max_bit_error": [{"from_words": least, "share": share} for least, share in LIMITS],
        },
        "shows": list(_SHOWS),
        "cannot_show": list(_CANNOT_SHOW),
    }


def _side(header: Header) -> dict[str, Any]:
    names = ("digest", "digests", "kinds", "records", "rejected", "unusable", "skipped", "hours", "prepcli")
    side = {name: getattr(header, name) for name in names}
    side["digests"] = {kind: header.digests[kind] for kind in header.kinds}
    return side


def _compared(row: Mapping[str, Any], inputs: Header, against: Sequence[Prints]) -> dict[str, Any]:
    kind = str(row["by"])
    facts = {"by": kind, "same": _SAME[kind], "groups": row["groups"], "records_in_groups": row["records"]}
    left_out = [
        {"side": side, "records": header.without[kind], "why": _why(kind, header)}
        for side, header in _sides(inputs, against)
        if header.without.get(kind)
    ]
    return facts | {"left_out": left_out}


def _not_compared(kind: str, inputs: Header, against: Sequence[Prints], asked: Sequence[str]) -> list[tuple[str, str]]:
    """The sides that were not compared by a kind, with the reasons."""
    if kind not in asked:
        return [("all", "it was not asked for")]
    return [
        (side, f"all records have {_WITHOUT[kind]}" if side == "inputs" else "it is not in these prints")
        for side, header in _sides(inputs, against)
        if kind not in header.kinds
    ]


def _why(kind: str, header: Header) -> str:
    return _WITHOUT[kind] + (", in all or in a turn" if kind == "near-audio" and header.has_turns else "")


def _sides(inputs: Header, against: Sequence[Prints]) -> list[tuple[str, Header]]:
    """The two sides of the comparison by their names; the second file of one name is `name (2)`."""
    names = [Path(prints.path).name for prints in against]
    numbers = [names[: place + 1].count(name) for place, name in enumerate(names)]
    unique = [name if number == 1 else f"{name} ({number})" for name, number in zip(names, numbers, strict=True)]
    return [("inputs", inputs), *zip(unique, (prints.header for prints in against), strict=True)]


def encoded(certificate: Mapping[str, Any]) -> bytes:
    """The certificate as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n"


def page_of(certificate: Mapping[str, Any]) -> bytes:
    """The certificate as an HTML page, which loads nothing."""
    sides = [("inputs", certificate["inputs"]), *((side["file"], side) for side in certificate["prints"])]
    head = ["", *(name for name, _ in sides)]
    rows = [[text, *(side[name] for _, side in sides)] for name, text in _ROWS.items()]
    rows += [[f"digest of {kind}", *(side["digests"].get(kind, "not there") for _, side in sides)] for kind in KINDS]
    compared = [
        [row["by"], row["same"], row["groups"], row["records_in_groups"], _shown(row["left_out"])]
        for row in certificate["compared"]
    ]
    near = certificate["near_audio"]
    limits = [f"{limit['share']:.0%} of the bits from {limit['from_words']} words" for limit in near["max_bit_error"]]
    common = (
        f"at least {near['min_common_share']:.0%} of the sound of the shorter record, and {near['min_words']} words"
    )
    parameters = [
        ["fingerprint", ", ".join(f"{name} {value}" for name, value in near["fingerprint"].items())],
        ["differ at most", "; ".join(limits)],
        ["in common", common],
    ]
    content = [
        paragraph(f"{certificate['result']}. prepcli {certificate['prepcli']}."),
        "<h2>What was compared</h2>",
        _table(head, rows),
        "<h2>Result</h2>",
        _table(["by", "the same", "groups", "records in them", "left out"], compared),
        "<h2>Not compared</h2>",
        _table(["by", "where", "why"], [[row["by"], row["side"], row["why"]] for row in certificate["not_compared"]]),
        "<h2>Limits of near-audio</h2>",
        _table([], parameters),
        "<h2>What this shows</h2>",
        *map(paragraph, certificate["shows"]),
        "<h2>What this cannot show</h2>",
        *map(paragraph, certificate["cannot_show"]),
    ]
    return page("Certificate of a comparison with prints", "\n".join(content), _STYLE).encode("utf-8", "replace")


def _shown(left_out: Sequence[Mapping[str, Any]]) -> str:
    texts = [f"{some['side']}: {some['records']:,} with {some['why']}" for some in left_out]
    return "; ".join(texts) or "none"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return table(head, rows) if rows else paragraph("nothing")
