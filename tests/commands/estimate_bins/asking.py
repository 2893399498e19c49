"""The bins of data by duration, in two dimensions, and of texts, as functions of the data and the tokenizers."""

from typing import Any

from prepcli.commands.estimate_bins.command import estimate_bins, estimate_bins_2d, estimate_token_bins
from prepcli.commands.estimate_bins.durations import BinsReport
from prepcli.commands.estimate_bins.tokens import TokenBinsReport
from prepcli.commands.estimate_bins.two_d import Bins2dReport
from prepcli.tokenizers.counting import TokenizerSpec

ANY_NUMBER = 1e9
"""Rejects do not end the command."""


def bins_1d(data: object, **options: Any) -> BinsReport:
    return estimate_bins(str(data), max_rejects=ANY_NUMBER, **options)


def bins_2d(data: object, spec: TokenizerSpec, **options: Any) -> Bins2dReport:
    return estimate_bins_2d(str(data), max_rejects=ANY_NUMBER, **_named(spec), **options)


def token_bins(data: object, spec: TokenizerSpec, **options: Any) -> TokenBinsReport:
    return estimate_token_bins(str(data), max_rejects=ANY_NUMBER, **_named(spec), **options)


def _named(spec: TokenizerSpec) -> dict[str, Any]:
    named = {name: getattr(spec, name) for name in ("langs", "prompt_format", "prompt")}
    return named | {"tokenizer": spec.tokenizers}
