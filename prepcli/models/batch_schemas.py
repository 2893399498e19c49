"""Synthetic training batches: they have the shapes that a model declares, and random values."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from prepcli.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["audio", "length", "labels", "mask", "constant", "placeholder", "codes", "prior", "flags"]
Length = Literal["input", "output"] | int
_KINDS: Mapping[str, Kind] = {
    "AudioSignal": "audio",
    "LengthsType": "length",
    "LabelsType": "labels",
    "MaskType": "mask",
}
"""The kind of a tensor, by the NeMo class that describes the elements of the tensor."""


_CODES: tuple[str, Kind] = ("audio_codes", "codes")
_AUDIO: tuple[str, Kind] = ("audio", "audio")


@dataclass(frozen=True)
class Item:
    """A tensor of a batch.

    Attributes:
        kind: the kind of the content.
        length: entries per example: a fixed number, or "input" or "output" for the length of the input or output.
        name: the keyword of the tensor in the batch; None: the tensor is positional.
        vocab_size: labels and codes are smaller than this number.
        value: for a constant, its value ("batch" is the batch size); for an alignment prior, the number of input
            entries per frame.
        rows: number of codebooks, for codes.
    """

    kind: Kind
    length: Length = "input"
    name: str | None = None
    vocab_size: int = 0
    value: int | str = 0
    rows: int = 0


@dataclass(frozen=True)
class Schema:
    """A description of the training batches of a model.

    Attributes:
        make: makes a batch of tensors: `tuple`, or a class that takes the tensors.
        items: the tensors of a batch.
        input_length: returns the number of entries of the input for a duration in seconds (text: in tokens).
        output_length: returns the number of entries of the output for a length of the output in tokens.
    """

    make: Callable[..., Any]
    items: tuple[Item, ...]
    input_length: Callable[[float], int]
    output_length: Callable[[float], int]

    def lengths(self, duration: float, tokens: int | None, ratio: float) -> tuple[int, int]:
        """Return the length of the input and of the output for a bucket, in entries of a tensor, as NeMo computes them.

        Args:
            duration: the upper bound of the bucket in seconds (in tokens, if the input is text).
            tokens: the upper bound of the bucket for the length of the output; None if it has no such bound.
            ratio: only used if `tokens` is None: the length of the output is then `ratio * duration`.
        """
        output = math.ceil(ratio * duration) if tokens is None else tokens
        return self.input_length(duration), self.output_length(output)

    def batch(self, size: int, lengths: tuple[int, int], device: str) -> Any:
        """Return a batch of `size` examples with random values, on the device.

        `lengths` are the numbers of entries of input and output.
        """
        tensors = [(item.name, _tensor(item, size, lengths, device)) for item in self.items]
        by_position = [tensor for name, tensor in tensors if name is None]
        by_name = {name: tensor for name, tensor in tensors if name is not None}
        if self.make is tuple and not by_name:
            return tuple(by_position)
        return self.make(*by_position, **by_name)


def _tensor(item: Item, size: int, lengths: tuple[int, int], device: str) -> "Tensor":
    import torch

    if item.kind == "constant":
        return torch.tensor([size if item.value == "batch" else int(item.value)], dtype=torch.long, device=device)
    if item.kind == "placeholder":
        return torch.tensor([])
    length = {"input": lengths[0], "output": lengths[1]}[item.length] if isinstance(item.length, str) else item.length
    if item.kind == "audio":
        return torch.randn(size, length, dtype=torch.float32, device=device)
    if item.kind == "length":
        return torch.full((size,), length, dtype=torch.long, device=device)
    if item.kind == "labels":
        return torch.randint(0, item.vocab_size, (size, length), device=device)
    if item.kind == "codes":
        return torch.randint(0, item.vocab_size, (size, item.rows, length), device=device)
    if item.kind == "prior":
        frames = lengths[0] // int(item.value) + 1  # one more for the end of the sequence
        return torch.full((size, frames, lengths[1]), 1 / max(1, lengths[1]), device=device)
    if item.kind == "flags":
        return torch.zeros(size, dtype=torch.bool, device=device)
    return torch.ones(size, length, device=device)


def schema_of(model: Any) -> Schema:
    """Return the schema that a model declares; for a MagpieTTS model, which declares none, the schema of its data set.

    Raises:
        UsageError: the model declares no schema that is known, and is not a MagpieTTS model.
    """
    if not hasattr(type(model), "oomptimizer_schema"):
        if any(base.__name__ == "MagpieTTSModel" for base in type(model).__mro__):
            return _magpie_schema(model)
        raise UsageError(
            f"a model of the class {type(model).__name__} has no oomptimizer_schema, so that it is not known what its "
            "batches are; give one of NeMo's models for recognition, or add the property to its class"
        )
    if getattr(model, "tokenizer", None) is None and hasattr(getattr(model, "decoder", None), "vocabulary"):
        # The schema reads the size of a tokenizer, which a model of characters does not have.
        model.tokenizer = SimpleNamespace(vocab_size=len(model.decoder.vocabulary))
    try:
        schema = model.oomptimizer_schema
    except NotImplementedError:
        raise UsageError(f"the oomptimizer_schema of {type(model).__name__} is not implemented in this NeMo") from None
    items = tuple(map(_item, schema["inputs"]))
    rate = int(getattr(model, "sample_rate", 16000) or 16000)
    of_text, of_audio = round, partial(_num_samples, rate)
    is_text = {
        direction: any(item.kind == "labels" and item.length == direction for item in items)
        for direction in ("input", "output")
    }
    make = schema["cls"]
    if hasattr(model, "audio_locator_tag_id"):
        make = partial(_with_audio_tags, make, int(model.audio_locator_tag_id))
    return Schema(
        make,
        items,
        of_text if is_text["input"] else of_audio,
        of_text if is_text["output"] else of_audio,
    )


def _item(entry: Mapping[str, Any]) -> Item:
    kind: Kind
    given = entry["type"]
    if given == "constant":
        kind = "constant"
    elif not hasattr(given, "elements_type"):
        kind = "placeholder"
    else:
        names = [base.__name__ for base in type(given.elements_type).__mro__]
        match = next((_KINDS[name] for name in names if name in _KINDS), None)
        if match is None:
            raise UsageError(f"the oomptimizer_schema has an input that prepcli does not know: {names[0]}")
        kind = match
    return Item(
        kind,
        entry.get("seq_length", "input"),
        entry.get("name"),
        int(entry.get("vocab_size", 0)),
        entry.get("value", 0),
    )


def _num_samples(rate: int, seconds: float) -> int:
    """Return the number of samples in `seconds`, rounded half up as in lhotse."""
    return math.floor(seconds * rate + 0.5)


def _with_audio_tags(make: Callable[..., Any], tag: int, **tensors: Any) -> Any:
    """Return a batch of a speech language model. Each text begins with a tag, which the model replaces by the audio."""
    ids = tensors["input_ids"]
    ids[ids == tag] = 0 if tag else 1
    ids[:, 0] = tag
    tensors["loss_mask"] = tensors["loss_mask"].bool()
    return make(**tensors)


def _magpie_schema(model: Any) -> Schema:
    """Return the schema of the batches of `MagpieTTSLhotseDataset`.

    A batch has the text, and the target and the context, both as codes or both as audio. The target counts as the input
    of a bucket, and the text as its output. Each context has the maximum length that the config allows.
    """
    rate, hop = int(model.sample_rate), int(model.codec_model_samples_per_frame)
    seconds = float(model.cfg.get("context_duration_max", 10.0))
    has_codes = bool(model.cfg.get("load_cached_codes_if_available", True))
    items = [
        Item("labels", "output", "text", int(model.bos_id)),
        Item("length", "output", "text_lens"),
    ]
    what, kind = _CODES if has_codes else _AUDIO
    of_context = math.ceil(seconds * rate / hop) if has_codes else round(seconds * rate)
    lengths: tuple[tuple[str, Length], ...] = (("", "input"), ("context_", of_context))
    for prefix, length in lengths:
        items += [
            Item(kind, length, prefix + what, int(model.codebook_size), rows=int(model.data_num_audio_codebooks)),
            Item("length", length, f"{prefix}{what}_lens"),
        ]
    if model.cfg.get("prior_scaling_factor", None) is not None:
        items.append(Item("prior", "input", "align_prior_matrix", value=1 if has_codes else hop))
    if model.use_text_conditioning_encoder:
        items += [
            Item("labels", 1, "context_text_tokens", int(model.bos_id)),
            Item("length", 1, "context_text_tokens_lens"),
            Item("flags", 1, "has_text_context"),
        ]

    def frames(duration: float) -> int:
        return math.ceil(duration * rate / hop)

    return Schema(dict, tuple(items), frames if has_codes else partial(_num_samples, rate), round)
