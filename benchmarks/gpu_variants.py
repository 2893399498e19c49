"""What the models' parts cost on a GPU, and what variants would gain: a row for each measurement.

    python benchmarks/gpu_variants.py --minutes 8 --out DIR    # --wheels and --dry-cpu as for gpu.py

Writes DIR/variants.jsonl; each row is flushed when it is measured, so that nothing is lost at the end of the time.
"""

import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from gpu import parser_of, prepared  # noqa: E402
from gpu_report import Bench  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

Row = dict[str, object]
Rows = Iterator[Row]
SECONDS = (30, 60, 120, 240, 480, 960)
"""Audio in a batch."""


def ceilings(bench: Bench) -> Rows:
    """Copies, and products of matrices."""
    import torch
    from gpu_speed import PRECISIONS, timed

    from prepcli.models.devices import use_full_float32, use_tf32

    size = 256 if bench.is_dry else 8192
    source = torch.zeros(size, 8 * size, device=bench.device)
    target = torch.empty_like(source)
    took = timed(bench, lambda: target.copy_(source))
    yield {"what": "copy", "TB/s": 2 * source.nbytes / took / 1e12}
    for precision in PRECISIONS:
        use_tf32() if precision == "tf32" else use_full_float32()
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        matrix = torch.randn(size, size, device=bench.device, dtype=kind)
        took = timed(bench, partial(torch.mm, matrix, matrix))
        yield {"what": "matmul", "precision": precision, "TFLOP/s": 2 * size**3 / took / 1e12}


def convolutions(bench: Bench) -> Rows:
    """Each distinct convolution of the encoder, in two layouts; channels last, it is one of images of height 1."""
    import torch
    from gpu_models import load_codec
    from gpu_speed import PRECISIONS, batch_of, timed

    from prepcli.models.devices import use_full_float32, use_tf32

    codec: Any = load_codec(bench, bench.device)
    found: dict[tuple[int, ...], tuple[Any, tuple[int, ...]]] = {}

    def note(layer: Any, given: "tuple[Tensor, ...]", _: object) -> None:
        sizes = layer.in_channels, layer.out_channels, layer.kernel_size[0], layer.stride[0], layer.dilation[0]
        found.setdefault((*sizes, given[0].shape[2]), (layer, tuple(given[0].shape)))

    encoder = codec._model.audio_encoder
    hooks = [one.register_forward_hook(note) for one in encoder.modules() if isinstance(one, torch.nn.Conv1d)]
    codec.encode(*batch_of(bench, codec, 1 if bench.is_dry else 6, 1 if bench.is_dry else 20), "fp32")
    for hook in hooks:
        hook.remove()
    for (into, out, kernel, stride, dilation, _), (layer, shape) in list(found.items())[: 3 if bench.is_dry else None]:
        flops = 2 * into * out * kernel * shape[0] * (shape[2] // stride)
        for precision in PRECISIONS:
            use_tf32() if precision == "tf32" else use_full_float32()
            kind = torch.bfloat16 if precision == "bf16" else torch.float32
            values, weight = torch.randn(shape, device=bench.device, dtype=kind), layer.weight.to(kind)
            padding = (kernel - 1) * dilation // 2
            first = partial(torch.nn.functional.conv1d, values, weight, None, stride, padding, dilation)
            last: Any = {"memory_format": torch.channels_last}
            images, weights = values[:, :, None].contiguous(**last), weight[:, :, None].contiguous(**last)
            second = partial(
                torch.nn.functional.conv2d, images, weights, None, (1, stride), (0, padding), (1, dilation)
            )
            for layout, call in (("channels first", first), ("channels last", second)):
                took = timed(bench, call)
                sizes = f"{into}->{out} k{kernel} s{stride} d{dilation} x{shape[2]}"
                row: Row = {"what": "convolution", "layer": sizes, "precision": precision, "layout": layout}
                yield row | {"ms": 1000 * took, "TFLOP/s": flops / took / 1e12}


def encoder(bench: Bench) -> Rows:
    """The encoder in batches of several sizes."""
    from gpu_models import load_codec
    from gpu_speed import PRECISIONS, batch_of, timed

    codec = load_codec(bench, bench.device)
    for seconds in (1,) if bench.is_dry else SECONDS:
        for precision in PRECISIONS:
            audio, lengths = batch_of(bench, codec, min(6, seconds), max(1, seconds // 6))
            took = timed(bench, partial(codec.encode, audio, lengths, precision), 3)
            row: Row = {"what": "encoder", "seconds": seconds, "precision": precision}
            yield row | {"x real time": audio.numel() / codec.sampling_rate / took}


def speakers(bench: Bench) -> Rows:
    """TitaNet in batches of several sizes, with batch norm of its own and folded into convolutions."""
    import torch
    from gpu_models import load_speaker
    from gpu_speed import timed

    from prepcli.models.nemo_speaker import fold_batch_norm

    for folded in (False, True):
        model: Any = load_speaker(bench, "cpu")
        if folded:
            fold_batch_norm(model._model)
        model._model.to(bench.device)
        for seconds in (1,) if bench.is_dry else SECONDS[1:]:
            audio = torch.randn(max(1, seconds // 6), min(6, seconds) * model.sampling_rate, device=bench.device) / 10
            lengths = torch.full((len(audio),), audio.shape[1] - 100, device=bench.device)
            took = timed(bench, partial(model.embed, audio, lengths))
            row: Row = {"what": "titanet", "seconds": seconds, "folded": folded}
            yield row | {"x real time": audio.numel() / model.sampling_rate / took}


def variants(bench: Bench) -> Rows:
    """Other ways to run the encoder over the same batch."""
    import torch
    from gpu_models import load_codec
    from gpu_speed import batch_of, timed

    codec: Any = load_codec(bench, bench.device)
    audio, lengths = batch_of(bench, codec, 1 if bench.is_dry else 6, 1 if bench.is_dry else 20)

    def row(variant: str, call: Callable[[], object]) -> Row:
        return {"what": "variant", "variant": variant, "ms": 1000 * timed(bench, call)}

    yield row("bf16", partial(codec.encode, audio, lengths, "bf16"))
    cast = copy.copy(codec)
    cast._encoder_in_bfloat16 = codec._encoder
    yield row("bf16, weights cast by autocast", partial(cast.encode, audio, lengths, "bf16"))
    yield row("fp32", partial(codec.encode, audio, lengths, "fp32"))
    yield row("fp32, four rows", partial(codec.encode, audio[:4], lengths[:4], "fp32"))
    mixed = lengths.clone()
    mixed[::2] -= 5 * codec.samples_per_frame
    yield row("fp32, mixed lengths", partial(codec.encode, audio, mixed, "fp32"))
    for precision in () if bench.is_dry else ("fp32", "bf16"):  # a bound for fused kernels; compiling takes minutes
        compiled = copy.copy(codec)
        encode = codec._encoder if precision == "fp32" else codec._encoder_in_bfloat16
        compiled._encoder = compiled._encoder_in_bfloat16 = torch.compile(encode)
        yield row(f"{precision}, torch.compile", partial(compiled.encode, audio, lengths, precision))


def main(arguments: list[str] | None = None) -> int:
    """Measure until the time is over; returns the exit code."""
    with prepared(parser_of(__doc__).parse_args(arguments)) as bench, (bench.out / "variants.jsonl").open("w") as file:
        for rows in (ceilings, encoder, speakers, convolutions, variants):
            for row in rows(bench):
                file.write(json.dumps(row) + "\n")
                file.flush()
                if not bench.is_dry and time.monotonic() > bench.deadline:
                    print("the rest is left out: too little time", file=sys.stderr)
                    return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
