"""Group records by voice: by the `speaker` field, a preset for a known corpus, or the user's pattern.

A pattern is a regular expression that is searched in a field; the texts that its groups match, joined by `_`, name the
voice. The presets name voices as NeMo's recipe for Magpie-TTS does, in lower case; if a corpus has several styles or
sessions of one person, each is a separate voice.
"""

import re
from functools import lru_cache, partial

from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.interface.values import check_pattern
from prepcli.manifest.parts import FieldKey

DEFAULT = "speaker"
_PATH = "audio_filepath"
_NUMBERS = ("duration", "offset", "_skipme")


PRESETS = {
    # The first three parts of the path.
    "libritts": (_PATH, r"^([^/]+)/([^/]+)/([^/]+)/"),
    "librittsDevClean": (_PATH, r"^([^/]+)/([^/]+)/([^/]+)/"),
    # The first two parts, and the file's name up to its last `_`.
    "hifitts": (_PATH, r"^([^/]+)/([^/]+)/(?:.*/)?([^/]+)_[^_/]*$"),
    # The file's name up to its last `_`.
    "hifitts2": (_PATH, r"([^/]+)_[^_/]*$"),
    # The text after Speaker: in the speaker field.
    "nvyt2505": (DEFAULT, r"Speaker:([^ |]+)"),
    # The first and the third part of the path.
    "rivaLindyRodney": (_PATH, r"^([^/]+)/[^/]+/([^/]+)/"),
    # The third part of the path up to its last `_`.
    "rivaEmmaMeganSeanTom": (_PATH, r"^[^/]+/[^/]+/([^/]+)_[^_/]*(?:/|$)"),
    # The path up to its second-last `_`.
    "jhsdGtc20Amp20Keynote": (_PATH, r"^(.+)_[^_]*_[^_]*$"),
}
"""The presets of `--group-by`: for each corpus, a field, and the pattern that is searched in it."""


def group_key(group_by: str) -> FieldKey:
    """The index key for a value of `--group-by`; records with equal keys have the same voice.

    A record without the field is rejected with MISSING_FIELD. If the pattern is not found in the field, the record is
    rejected with BAD_FIELD.

    Raises:
        UsageError: the preset does not exist, or the pattern is not a regular expression with a group.
    """
    if group_by == DEFAULT:
        return FieldKey(DEFAULT, str)
    if group_by in PRESETS:
        field, pattern = PRESETS[group_by]
        return FieldKey(field, partial(_name, field, pattern, True))
    if not group_by.startswith("regex:"):
        raise UsageError(
            f"{option('--group-by', group_by)} is not known; give {DEFAULT}, regex:FIELD:PATTERN, or one of "
            f"{', '.join(PRESETS)}"
        )
    _, field, pattern = (*group_by.split(":", 2), "", "")[:3]
    if not field or not pattern:
        raise UsageError(
            f"{option('--group-by', group_by)} must be regex:FIELD:PATTERN, e.g. 'regex:audio_filepath:^([^/]+)/'"
        )
    if field in _NUMBERS:
        raise UsageError(
            f"{option('--group-by', group_by)}: {field} is not a field with text; name one such as audio_filepath"
        )
    check_pattern(pattern, option("--group-by", group_by), "the voice's name")
    return FieldKey(field, partial(_name, field, pattern, False))


@lru_cache(maxsize=4096)
def _name(field: str, pattern: str, lower: bool, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise RecordRejected(
            RejectReason.BAD_FIELD, f"{field} {shown} does not fit the pattern {pattern} of --group-by"
        )
    name = "_".join(part or "" for part in match.groups())
    return name.lower() if lower else name
