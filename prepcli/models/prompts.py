"""NeMo's prompt formats: counts the tokens of a record within the prompt that a model is trained with."""

import ast
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.manifest.datasets import TextSet
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.manifest.texts import Turn
from prepcli.models.nemo import quiet
from prepcli.tokenizers.counting import TokenizerSpec, kind_of_tokenizer
from prepcli.tokenizers.hub import check_reachable

_NOT_CUSTOM = ("audio_filepath", "duration", "offset", "sampling_rate", "sample_rate")


@dataclass(frozen=True)
class PromptedLines:
    """Counts the tokens of each line in its prompt; `TokensOfTexts` does so without a prompt.

    Attributes:
        spec: tokenizers and prompt; the slots of `spec.prompt` are defaults for fields that a record does not have.
        text_field: the field of the text.
        lang_field: the field of the language.
        tags: names and values of fields that are set in every record.
        cuts: whether the lines are Lhotse cuts; otherwise they are lines of a NeMo manifest.
    """

    spec: TokenizerSpec
    text_field: str = "text"
    lang_field: str = "lang"
    tags: tuple[tuple[str, Any], ...] = ()
    cuts: bool = False

    def __call__(self, data: bytes) -> list[int]:
        """Return the number of tokens of each line.

        Raises:
            RecordRejected: a line lacks fields that the prompt needs.
        """
        prompt = load_prompt(self.spec)
        make = self._lhotse_cut if self.cuts else self._cut
        return [prompt.num_tokens(make(line)) for line in data.split(b"\n") if line.strip()]

    def _cut(self, line: bytes) -> Any:
        """Return the cut that NeMo makes from a line of a manifest, without the recording: prompts do not use it."""
        from lhotse import MonoCut, SupervisionSegment

        fields = {name: decode_value(raw) for name, raw in parse_fields(line).items()}
        duration = float(fields["duration"])
        name = str(fields["audio_filepath"])
        tags = dict(self.tags)
        cut = MonoCut(id=name, start=0, duration=duration, channel=0, supervisions=[])
        cut.supervisions.append(
            SupervisionSegment(
                id=name,
                recording_id=name,
                start=0,
                duration=duration,
                text=fields.get(self.text_field),
                language=fields.get(self.lang_field) or tags.get(self.lang_field),
            )
        )
        cut.custom = {name: value for name, value in fields.items() if name not in _NOT_CUSTOM}
        return self._tagged(cut)

    def _lhotse_cut(self, line: bytes) -> Any:
        from lhotse.serialization import deserialize_item

        try:
            cut = deserialize_item(json.loads(line))
        except Exception as error:  # lhotse raises many kinds of errors
            raise RecordRejected(RejectReason.BAD_FIELD, f"lhotse cannot read the cut: {_line(error)}") from None
        cut.custom = cut.custom or {}
        return self._tagged(cut)

    def _tagged(self, cut: Any) -> Any:
        for name, value in self.tags:
            setattr(cut, name, value)
        return cut


class Prompt:
    """A prompt format with its tokenizer."""

    def __init__(self, spec: TokenizerSpec) -> None:
        """Load NeMo's formatter and tokenizers.

        Raises:
            UsageError: NeMo is not installed, or the options do not fit the prompt format.
        """
        assert spec.prompt_format is not None
        defaults = _parse_slots(spec.prompt)
        with quiet():
            try:
                from nemo.collections.common.data import prompt_fn
                from nemo.collections.common.data.lhotse import text_adapters
                from nemo.collections.common.prompts import PromptFormatter
            except ImportError as error:
                raise UsageError(
                    f"{option('--prompt-format', spec.prompt_format)} needs NeMo: pip install 'prepcli[nemo]' "
                    f"({_line(error)})"
                ) from None
            try:
                formatter = PromptFormatter.resolve(spec.prompt_format)
                self._formatter = formatter(_nemo_tokenizer(spec), defaults=defaults)
            except UsageError:
                raise
            except Exception as error:
                raise UsageError(f"{option('--prompt-format', spec.prompt_format)}: {_line(error)}") from None
        self._apply = prompt_fn.apply_prompt_format_fn
        self._adapters = text_adapters
        users = [turn for turn in defaults or () if turn["role"] == "user"]
        self._slots: dict[str, Any] = dict(users[0].get("slots") or {}) if users else {}

    def num_tokens(self, cut: Any) -> int:
        """Return the number of tokens of prompt and answer together, as NeMo's samplers count them.

        Raises:
            RecordRejected: the cut does not fit the prompt.
        """
        cut.custom = {**self._slots, **(cut.custom or {})}
        return len(self.encode(cut)["input_ids"])

    def lengths(self, data: TextSet, turns: Sequence[Turn], seconds_per_token: float) -> tuple[int, int, float]:
        """Return the numbers of tokens of an example, as NeMo's samplers count them.

        Returns:
            The number of input tokens, with one token for each `seconds_per_token` of audio; the number of output
            tokens; and the ratio that NeMo's `max_tpt` limits: `answer_ids` to `context_ids`, in which the length of
            audio does not count.

        Raises:
            RecordRejected: the example does not fit the prompt, or does not end with the model's turn.
        """
        example = self._example(data, turns, seconds_per_token)
        for name, value in data.settings.tags:
            setattr(example, name, value)
        encoded = self.encode(example)
        if "answer_ids" not in encoded:
            raise RecordRejected(RejectReason.BAD_FIELD, "the last turn is not the model's, so there is no output")
        example.input_ids, example.context_ids = encoded["input_ids"], encoded["context_ids"]
        example.answer_ids = encoded["answer_ids"]
        ratio = len(example.answer_ids) / max(len(example.context_ids), 1)
        return int(example.input_length), int(example.output_length), ratio

    def _example(self, data: TextSet, turns: Sequence[Turn], seconds_per_token: float) -> Any:
        """Return the example as NeMo's adapter for this kind of data makes it."""
        text = self._adapters.TextExample
        if data.kind == "txt":
            return text(turns[0].text, language=data.language)
        if data.kind != "txt_pair":
            return self._conversation(turns, seconds_per_token)
        *questions, source, target = turns
        return self._adapters.SourceTargetTextExample(
            source=text(source.text, language=data.language),
            target=text(target.text, language=data.target_language),
            question=text(questions[0].text, language=data.questions_language) if questions else None,
        )

    def _conversation(self, turns: Sequence[Turn], seconds_per_token: float) -> Any:
        from lhotse import MonoCut

        made: list[Any] = []
        for turn in turns:
            if turn.duration is None:
                made.append(self._adapters.TextTurn(value=turn.text, role=turn.role))
                continue
            cut = MonoCut(id="audio", start=0, duration=turn.duration, channel=0)
            made.append(self._adapters.AudioTurn(cut=cut, role=turn.role, audio_locator_tag=turn.text))
        return self._adapters.NeMoMultimodalConversation(
            id="conversation", turns=made, token_equivalent_duration=seconds_per_token
        )

    def encode(self, example: Any) -> Any:
        """Return NeMo's encoding of an example: `input_ids`, `context_ids`, `answer_ids`.

        Raises:
            RecordRejected: the example does not fit the prompt.
        """
        try:
            return self._apply(example, self._formatter)
        except KeyError as error:
            raise RecordRejected(
                RejectReason.MISSING_FIELD, f"the prompt needs {_line(error)}, which is not there"
            ) from None
        except (RuntimeError, AssertionError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise RecordRejected(RejectReason.BAD_FIELD, f"the prompt cannot be made: {_line(error)[:200]}") from None


@lru_cache
def load_prompt(spec: TokenizerSpec) -> Prompt:
    """Return the prompt, which is loaded once per process; a forked worker shares the prompt of its parent."""
    return Prompt(spec)


def _nemo_tokenizer(spec: TokenizerSpec) -> Any:
    """Return the tokenizer that NeMo's scripts use; for several languages, it is an aggregate of their tokenizers.

    With a canary prompt, the aggregate is Canary's own class.
    """
    from nemo.collections.common.tokenizers import (
        AggregateTokenizer,
        AutoTokenizer,
        CanaryTokenizer,
        SentencePieceTokenizer,
    )

    loaded = []
    for path in spec.tokenizers:
        kind, name = kind_of_tokenizer(path)
        if kind == "hf":
            if not os.path.exists(name):  # AutoTokenizer would try for half a minute, with a less clear error
                check_reachable(name, "tokenizer_config.json", "tokenizer.json", "config.json")
            loaded.append(AutoTokenizer(name.removesuffix("/tokenizer.json"), use_fast=True))
            continue
        try:
            loaded.append(SentencePieceTokenizer(name))
        except (OSError, RuntimeError):
            raise UsageError(
                f"{name} is not a SentencePiece model; give a .model file that SentencePiece has trained"
            ) from None
    if len(loaded) == 1:
        return loaded[0]
    canary = "canary" in (spec.prompt_format or "")
    if canary and "spl_tokens" not in spec.langs:
        raise UsageError(
            f"a canary prompt needs the tokenizer of its special tokens: {option('--langs')} spl_tokens ..."
        )
    return (CanaryTokenizer if canary else AggregateTokenizer)(dict(zip(spec.langs, loaded, strict=True)))


def _parse_slots(prompt: str | None) -> list[dict[str, Any]] | None:
    if prompt is None:
        return None
    for parse in (ast.literal_eval, json.loads):
        try:
            slots = parse(prompt)
        except (ValueError, SyntaxError):
            continue
        if isinstance(slots, list) and all(isinstance(turn, dict) and "role" in turn for turn in slots):
            return slots
    raise UsageError(
        f"{option('--prompt')} must be a list of turns such as "
        "[{'role':'user','slots':{'source_lang':'en','task':'asr'}}]"
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
