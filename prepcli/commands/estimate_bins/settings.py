"""The settings of bins, some of which the training config of the input may have."""

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.mixing import leaves_of
from prepcli.tokenizers.counting import TokenizerSpec

Settings = TypeVar("Settings", "DurationSettings", "Settings2d", "TokenSettings")


@dataclass(frozen=True, kw_only=True)
class DurationSettings:
    """The settings of bins by duration; the options of `estimate-bins` explain each."""

    data: str
    num_buckets: int
    num_examples: int
    min_duration: float | None
    max_duration: float | None
    batch_duration: float
    num_workers: int


@dataclass(frozen=True, kw_only=True)
class Settings2d(DurationSettings):
    """The settings of bins by duration and number of tokens; the options of `estimate-bins-2d` explain each."""

    sub_buckets: int
    token_outlier_threshold: float
    text_field: str | None
    lang_field: str | None


@dataclass(frozen=True, kw_only=True)
class TokenSettings:
    """The settings of bins by number of tokens; the options of `estimate-token-bins` explain each."""

    data: str
    num_buckets: int
    sub_buckets: int | None
    token_outlier_threshold: float
    num_examples: int
    min_tokens: float | None
    max_tokens: float | None
    max_tpt: float | None
    measure_total_length: bool | None
    token_equivalent_duration: float | None
    audio_locator_tag: str | None
    batch_tokens: float
    num_workers: int


def with_keys_of(settings: Settings, data: DataSet | Mix) -> Settings:
    """Return the settings. One that is None gets the value that the input's training config has for it."""
    known = vars(leaves_of(data)[0].settings.loader)
    given = {name: value for name, value in known.items() if value is not None and hasattr(settings, name)}
    return replace(settings, **{name: value for name, value in given.items() if getattr(settings, name) is None})


def with_prompt_of(tokenizer: TokenizerSpec, data: DataSet | Mix) -> TokenizerSpec:
    """Return `tokenizer`. If it has no prompt format, it gets the one in the input's training config."""
    known = leaves_of(data)[0].settings.loader.prompt_format
    return tokenizer if tokenizer.prompt_format is not None else replace(tokenizer, prompt_format=known)


def lower_limit(value: float | None) -> float:
    """The lower limit; minus infinity if there is none."""
    return -math.inf if value is None else value


def upper_limit(value: float | None) -> float:
    """The upper limit; infinity if there is none."""
    return math.inf if value is None else value
