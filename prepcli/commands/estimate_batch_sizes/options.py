"""The options of `estimate-batch-sizes`."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option

DEFAULT_WORK = "batch_sizes"
_UNITS = {"": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class EstimateBatchSizes(JobOptions):
    """Find the largest batch size of each bucket that fits into a GPU's memory, by real training steps.

    The answers are those of NeMo's OOMptimizer. A step runs in a process of its own: one that runs
    out of memory, crashes or hangs is a result. With --device cpu and --gpu-memory, the bytes of small steps on the CPU
    are counted and extrapolated instead, and every number is marked as an estimate.

    Example: prepcli estimate-batch-sizes --model stt.nemo --buckets-from train.yaml --write-config train.yaml
    """

    model: Annotated[
        str | None,
        Option(
            "A .nemo file, or the name of a pretrained model.",
            names=("--model", "-n"),
            metavar="FILE.nemo|NAME",
            may_be_path=True,
        ),
    ] = None
    model_class: Annotated[
        str | None,
        Option(
            "The class of the model, such as nemo.collections.asr.models.EncDecMultiTaskModel. With --config: a model "
            "without weights.",
            names=("--model-class", "-m"),
        ),
    ] = None
    config: Annotated[
        Path | None,
        Option("The training config of --model-class.", names=("--config", "-c"), must_exist="file"),
    ] = None
    buckets: Annotated[
        str | None,
        Option(
            "The upper bound of each bucket in seconds, [5.0,10.0,20.0], or pairs of seconds and tokens, "
            "[[5.0,30],[5.0,45],[10.0,60]].",
            names=("--buckets", "-b"),
            metavar="[BOUND,...]",
            shown_default="[5.0,10.0,15.0,20.0,25.0,30.0]",
        ),
    ] = None
    buckets_from: Annotated[
        Path | None,
        Option(
            "Take bucket_duration_bins from a training config. max_duration is added as the last bucket where the bins "
            "end before it, as those of estimate-bins do.",
            metavar="CONFIG.yaml",
            must_exist="file",
            shapes_output=False,
        ),
    ] = None
    memory_fraction: Annotated[
        float,
        Option(
            "The share of the GPU's memory that training may use.",
            names=("--memory-fraction", "-f"),
            above=0,
            maximum=1,
        ),
    ] = 0.9
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"], Option("The precision of autocast.", names=("--dtype", "-y"))
    ] = "bfloat16"
    start_batch_size: Annotated[
        int, Option("The first batch size of the search.", names=("--start-batch-size", "-s"), minimum=1)
    ] = 32
    threshold: Annotated[
        float,
        Option(
            "Stop when the smallest size that fails is larger than the largest that fits by at most this share.",
            names=("--threshold", "-t"),
            minimum=0,
            maximum=0.99,
        ),
    ] = 0.05
    ratio: Annotated[
        float,
        Option(
            "Output tokens per second of audio; ignored for buckets that are pairs.",
            names=("--ratio", "-r"),
            above=0,
            maximum=1000,
        ),
    ] = 12.0
    optimizer: Annotated[str, Option("The optimizer, by NeMo's name.", names=("--optimizer", "-o"))] = "adamw"
    ddp: Annotated[
        bool,
        Option(
            "Reserve memory for one more copy of the model, as distributed training does.", names=("--ddp/--no-ddp",)
        ),
    ] = True
    device: Annotated[
        str,
        Option(
            "The GPU, such as cuda:0, or cpu for an estimate (with --gpu-memory).",
            names=("--device", "-d"),
            shown_default="the GPU of this rank",
        ),
    ] = "cuda"
    gpu_memory: Annotated[
        str | None,
        Option(
            "The memory of the GPU to estimate for, such as 80GiB. With a GPU: at most its own memory.",
            metavar="SIZE",
        ),
    ] = None
    work: Annotated[
        Path | None,
        Option(
            "Folder for the result; WORK.prepcli/ beside it has what a stopped search continues with.",
            shown_default=DEFAULT_WORK,
            shapes_output=False,
        ),
    ] = None
    probe_timeout: Annotated[
        float,
        Option("Seconds after which a step counts as one that does not fit.", minimum=1, shapes_output=False, order=1),
    ] = 600.0
    verify: Annotated[
        bool,
        Option(
            "Run steps of the largest bucket, the smallest, and all in mixed order, in one process.",
            shapes_output=False,
        ),
    ] = False
    write_config: Annotated[
        Path | None,
        Option(
            "Write both lists into a training config, as estimate-bins --write-config does.",
            metavar="FILE.yaml",
            names_file=True,
            shapes_output=False,
        ),
    ] = None
    plot: Annotated[
        Path | None,
        Option(
            "Plot memory over batch size for each bucket.", metavar="FILE.png", names_file=True, shapes_output=False
        ),
    ] = None

    # The command has no records and no workers, so it leaves out these options of jobs.
    max_rejects: float = field(init=False, default=0.05)
    retry_rejects: bool = field(init=False, default=False)
    verify_inputs: bool = field(init=False, default=False)
    num_workers: int | None = field(init=False, default=None)
    no_steal: bool = field(init=False, default=False)

    @property
    def is_estimate(self) -> bool:
        """Whether the sizes are extrapolated without a GPU."""
        return self.device == "cpu"

    def check(self) -> None:
        """Check the options and output files before the work, so that the command does not fail after hours of work.

        Raises:
            UsageError: options that do not go together, or a file that cannot be written.
        """
        if (self.model is None) == (self.config is None):
            raise UsageError(
                f"give {option('--model')} (a .nemo file or a name), or {option('--model-class')} and "
                f"{option('--config')}"
            )
        if self.model is not None and self.model_class is not None:
            raise UsageError(
                f"{option('--model')} and {option('--model-class')} exclude each other: a model brings its class; "
                "leave one of them out"
            )
        if self.config is not None and self.model_class is None:
            raise UsageError(
                f"{option('--config')} needs {option('--model-class')}, such as "
                "nemo.collections.asr.models.EncDecCTCModelBPE"
            )
        if self.buckets is not None and self.buckets_from is not None:
            raise UsageError(f"give one of {option('--buckets')} and {option('--buckets-from')}")
        if re.fullmatch(r"cpu|cuda(:\d+)?", self.device) is None:
            raise UsageError(f"{option('--device')} takes cpu, cuda or cuda:N, not {self.device}")
        if self.is_estimate and self.gpu_memory is None:
            raise UsageError(
                f"{option('--device', 'cpu')} estimates for a GPU: give its memory, {option('--gpu-memory')} 80GiB"
            )
        if self.gpu_memory is not None:
            parse_memory(self.gpu_memory)
        if self.write_config is not None:
            from prepcli.manifest.loader_config import check_loader_config

            check_loader_config(self.write_config)
        if self.plot is not None:
            from prepcli.engine.publishing.plots import check_plot

            check_plot(self.plot)


def parse_memory(text: str) -> int:
    """`80GiB` or `80GB` -> bytes; a number alone is bytes.

    Raises:
        UsageError: the text has another form.
    """
    found = _MEMORY.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise UsageError(f"{option('--gpu-memory')} takes a size such as 80GiB or 24000MB, not {text}")
    power = _UNITS[found[2].upper()] if found[2] else 0
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)
