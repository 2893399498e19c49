"""The bins of data in two dimensions, and of texts, as functions of the data and the tokenizers."""

from typing import Any

from prepcli.commands.estimate_bins.options import EstimateBins2d, EstimateTokenBins
from prepcli.commands.estimate_bins.tokens import TokenBinsReport, bins_of_tokens
from prepcli.commands.estimate_bins.two_d import Bins2dReport, bins_in_two_dimensions
from prepcli.tokenizers.counting import TokenizerSpec


def bins_2d(data: object, spec: TokenizerSpec, **options: Any) -> Bins2dReport:
    return bins_in_two_dimensions(EstimateBins2d(data=str(data), **_named(spec), **options))


def token_bins(data: object, spec: TokenizerSpec, **options: Any) -> TokenBinsReport:
    return bins_of_tokens(EstimateTokenBins(data=str(data), **_named(spec), **options))


def _named(spec: TokenizerSpec) -> dict[str, Any]:
    named = {name: getattr(spec, name) for name in ("langs", "prompt_format", "prompt")}
    return named | {"tokenizer": spec.tokenizers}
