"""Transcribers' notation to spoken words."""

import pytest

from prepcli.commands.download.spoken_text import Noises, spoken_text
from prepcli.errors import RecordRejected


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Yeah,  I know. Do you?", "yeah i know do you"),
        ("twenty-one mother-in-law's", "twenty one mother in law's"),
        ("th- that -- well-", "th that well"),
        ("a._b._c. u.s. t._v.'s i.", "a b c u s t v's i"),
        ("he said 'hello' 'cause dogs' o'clock rock 'n' roll", "he said hello 'cause dogs' o'clock rock n roll"),
        ("my 401k and f16 y2k 90210", "my four o one k and f sixteen y two k nine o two one o"),
        ("0 9 10 19 20 21 99", "zero nine ten nineteen twenty twenty one ninety nine"),
        ("at&t and/or a_b", "at and t and or a b"),
        (".period -hyphen .dot", "period hyphen dot"),
        ("[UH] [um] well", "uh um well"),
        ("(( maybe )) *not* {this} <noise>", "maybe not this [noise]"),
        ("it\u2019s na\u00efve", "it's na\u00efve"),
        (
            "yes,no that--well so\u2026and (24/7) a / b x_ y dog(s)",
            "yes no that well so and twenty four seven a b x y dogs",
        ),
        ("' '' -", ""),
    ],
)
def test_words(written: str, spoken: str) -> None:
    assert spoken_text(written, Noises.KEEP) == spoken


@pytest.mark.parametrize(
    ("noises", "spoken"),
    [
        (Noises.KEEP, "[laughter] so [vocalized-noise] [[skip]] it [sneeze] is [beep]"),
        (Noises.REMOVE, "so it is"),
        (Noises.EMOJI, "🤣 so 😕 it 😕 is 😕"),
    ],
)
def test_noises(noises: Noises, spoken: str) -> None:
    assert spoken_text("[Laughter] so <spoken_noise> [[skip]] it[sneeze]is [BEEP]", noises) == spoken


@pytest.mark.parametrize(
    "written",
    ["100 dogs", "in 1999", "the 1st", "menu2", "50%", "$5", "a+b", "me@home", "0.5", "at 10:30", "1,5", "a.m.b2.com"],
)
def test_what_cannot_be_known(written: str) -> None:
    with pytest.raises(RecordRejected, match=r"how (they are|it is) read is not known"):
        spoken_text(written, Noises.KEEP)
