"""Texts that readers take for the same are equal; marks of vowels stay."""

import pytest

from prepcli.manifest.normal_text import normal_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Don't—STOP!  ", "don t stop"),
        ("Don\u2019t stop", "don t stop"),
        ("Stra\u00dfe", "strasse"),
        ("\uff21\uff22\u3000\uff11", "ab 1"),
        ("e\u0301t\u00e9", "\u00e9t\u00e9"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940\u0964", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("a+b = $3", "a+b = $3"),
        ("?!", ""),
        ("\ufeffco\u00adop\u200b, \u200fyes\u2060", "coop yes"),
        ("\u0645\u06cc\u200c\u0634\u0648\u062f", "\u0645\u06cc\u0634\u0648\u062f"),
    ],
)
def test_normal_text(text: str, expected: str) -> None:
    assert normal_text(text) == expected
