"""Options of data sets: they are refused if no input uses them, because then they would do nothing."""

from collections.abc import Sequence
from typing import NamedTuple

from prepcli.errors import UsageError, option
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.sets import LIST, PARQUET, SHAR, TARRED, WEBDATASET, WENET, ZIP
from prepcli.storage.containers import Catalogue

MANIFEST = "manifest"
_ARCHIVES = frozenset({WEBDATASET, WENET, ZIP})
_OF_FORMAT = {
    "manifest": frozenset({MANIFEST}),
    "tarred": frozenset({TARRED}),
    "shar": frozenset({SHAR}),
    "wenet": frozenset({WENET, LIST, ZIP}),
    "webdataset": frozenset({WEBDATASET, ZIP}),
    "parquet": frozenset({PARQUET}),
    "zip": frozenset({ZIP}),
}
"""The kinds of inputs that each value of `--input-format` can read."""


class _Use(NamedTuple):
    """The kinds of inputs that use an option, and their names for a message."""

    kinds: frozenset[str]
    words: str


_WITH_FIELDS = _Use(_ARCHIVES | {PARQUET}, "tars, zip archives and Parquet files")
_USES = {
    "split": _WITH_FIELDS,
    "audio_column": _WITH_FIELDS,
    "text_column": _WITH_FIELDS,
    "speaker_column": _WITH_FIELDS,
    "lang_column": _WITH_FIELDS,
    "id_column": _WITH_FIELDS,
    "name_encoding": _Use(_ARCHIVES, "tars and zip archives"),
}


def refuse_unused_options(inputs: Sequence[str], options: SetInput) -> None:
    """`prepcli.jobs.inputs.named.refuse_unused`, for a call that gives such an option."""
    kinds = [one.kind if isinstance(one, Catalogue) else MANIFEST for one in inputs]
    if (wanted := options.input_format) is not None and _OF_FORMAT[wanted].isdisjoint(kinds):
        raise UsageError(f"{option('--input-format', wanted)}: {inputs[0]} is read as {_kind(kinds[0])}; leave it out")
    for name, use in _USES.items():
        value = getattr(options, name)
        if value is not None and use.kinds.isdisjoint(kinds):
            given = option(f"--{name.replace('_', '-')}", value)
            raise UsageError(f"{given} is for {use.words}; {inputs[0]} is read as {_kind(kinds[0])}: leave it out")


def _kind(kind: str) -> str:
    return kind if kind in (WENET, WEBDATASET, PARQUET) else f"a {kind}"
