"""estimate-batch-sizes: finds the largest batch of each bucket that fits into the memory of a GPU."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from typing_extensions import Unpack

from prepcli.engine.run.options import DryRun, LaunchId, Overwrite, RankOption, Verbose, WorldSize
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import Json, Progress

if TYPE_CHECKING:
    from prepcli.commands.estimate_batch_sizes.report import BatchSizesReport

DEFAULT_WORK = "batch_sizes"


class SearchArguments(TypedDict, total=False):
    """The options of every job, without those for records and workers, which this command does not have."""

    dry_run: DryRun
    overwrite: Overwrite
    as_json: Json
    verbose: Verbose
    rank: RankOption
    world_size: WorldSize
    launch_id: LaunchId
    progress: Progress


@command("estimate-batch-sizes")
def estimate_batch_sizes(
    *,
    model: Annotated[
        PathText | None,
        Option(
            "A .nemo file, or the name of a pretrained model.",
            names=("--model", "-n"),
            metavar="FILE.nemo|NAME",
            may_be_path=True,
        ),
    ] = None,
    model_class: Annotated[
        str | None,
        Option(
            "The class of the model, such as nemo.collections.asr.models.EncDecMultiTaskModel. With --config: a model "
            "without weights.",
            names=("--model-class", "-m"),
        ),
    ] = None,
    config: Annotated[
        PathText | None,
        Option("The training config of --model-class.", names=("--config", "-c"), must_exist="file"),
    ] = None,
    buckets: Annotated[
        str | None,
        Option(
            "The upper bound of each bucket in seconds, [5.0,10.0,20.0], or pairs of seconds and tokens, "
            "[[5.0,30],[5.0,45],[10.0,60]].",
            names=("--buckets", "-b"),
            metavar="[BOUND,...]",
            shown_default="[5.0,10.0,15.0,20.0,25.0,30.0]",
        ),
    ] = None,
    buckets_from: Annotated[
        PathText | None,
        Option(
            "Take bucket_duration_bins from a training config (CONFIG.yaml:PART: from a part of its multi_config). "
            "max_duration is added as the last bucket where the bins end before it, as those of estimate-bins do.",
            metavar="CONFIG.yaml",
            shapes_output=False,
        ),
    ] = None,
    memory_fraction: Annotated[
        float,
        Option(
            "The share of the GPU's memory that training may use.",
            names=("--memory-fraction", "-f"),
            above=0,
            maximum=1,
        ),
    ] = 0.9,
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"], Option("The precision of autocast.", names=("--dtype", "-y"))
    ] = "bfloat16",
    start_batch_size: Annotated[
        int, Option("The first batch size of the search.", names=("--start-batch-size", "-s"), minimum=1)
    ] = 32,
    threshold: Annotated[
        float,
        Option(
            "Stop when the smallest size that fails is larger than the largest that fits by at most this share.",
            names=("--threshold", "-t"),
            minimum=0,
            maximum=0.99,
        ),
    ] = 0.05,
    ratio: Annotated[
        float,
        Option(
            "Output tokens per second of audio; ignored for buckets that are pairs.",
            names=("--ratio", "-r"),
            above=0,
            maximum=1000,
        ),
    ] = 12.0,
    optimizer: Annotated[str, Option("The optimizer, by NeMo's name.", names=("--optimizer", "-o"))] = "adamw",
    ddp: Annotated[
        bool,
        Option(
            "Reserve memory for one more copy of the model, as distributed training does.", names=("--ddp/--no-ddp",)
        ),
    ] = True,
    device: Annotated[
        str,
        Option(
            "The GPU, such as cuda:0, or cpu for an estimate (with --gpu-memory).",
            names=("--device", "-d"),
            shown_default="the GPU of this rank",
        ),
    ] = "cuda",
    gpu_memory: Annotated[
        str | None,
        Option(
            "The memory of the GPU to estimate for, such as 80GiB. With a GPU: at most its own memory.",
            metavar="SIZE",
        ),
    ] = None,
    work: Annotated[
        PathText | None,
        Option(
            "Folder for the result; WORK.prepcli/ beside it has what a stopped search continues with.",
            shown_default=DEFAULT_WORK,
            shapes_output=False,
        ),
    ] = None,
    probe_timeout: Annotated[
        float,
        Option("Seconds after which a step counts as one that does not fit.", minimum=1, shapes_output=False, order=1),
    ] = 600.0,
    verify: Annotated[
        bool,
        Option(
            "Run steps of the largest bucket, the smallest, and all in mixed order, in one process.",
            shapes_output=False,
        ),
    ] = False,
    write_config: Annotated[
        PathText | None,
        Option(
            "Write both lists into a training config, as estimate-bins --write-config does.",
            metavar="FILE.yaml",
            names_file=True,
            shapes_output=False,
        ),
    ] = None,
    plot: Annotated[
        PathText | None,
        Option(
            "Plot memory over batch size for each bucket.", metavar="FILE.png", names_file=True, shapes_output=False
        ),
    ] = None,
    **more: Unpack[SearchArguments],
) -> "BatchSizesReport":
    """Find the largest batch size of each bucket that fits into a GPU's memory, by real training steps.

    The answers are those of NeMo's OOMptimizer. A step runs in a process of its own: one that runs
    out of memory, crashes or hangs is a result. With --device cpu and --gpu-memory, the bytes of small steps on the CPU
    are counted and extrapolated instead, and every number is marked as an estimate.

    Example: prepcli estimate-batch-sizes --model stt.nemo --buckets-from train.yaml --write-config train.yaml

    Returns:
        The report of the run. `details` has `bucket_duration_bins` and `bucket_batch_size` for a training config, and
        in `buckets` the steps of each bucket; `is_estimate` says whether the batch sizes are estimates.

    Raises:
        UsageError: options that do not go together, or a model that cannot be loaded.
        PrepcliError: not one example fits, the model cannot make a step, or `verify` has found a batch that fails.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_batch_sizes(
        ...     model="tiny.nemo", buckets="[1.0,2.0]", device="cpu", gpu_memory="64MiB", work="sizes"
        ... )
        >>> report.details["is_estimate"], len(report.details["bucket_batch_size"])
        (True, 2)
    """
    from prepcli.commands.estimate_batch_sizes.job import search
    from prepcli.commands.estimate_batch_sizes.settings import SearchSettings
    from prepcli.formats.loader_sections import file_and_part
    from prepcli.manifest.sources import check_file

    settings = SearchSettings(
        model=None if model is None else str(model),
        model_class=model_class,
        config=None if config is None else Path(config),
        buckets=buckets,
        buckets_from=None if buckets_from is None else str(buckets_from),
        memory_fraction=memory_fraction,
        dtype=dtype,
        start_batch_size=start_batch_size,
        threshold=threshold,
        ratio=ratio,
        optimizer=optimizer,
        ddp=ddp,
        device=device,
        gpu_memory=gpu_memory,
        probe_timeout=probe_timeout,
    )
    settings.check()
    named = settings.buckets_from or ""
    file, part = file_and_part(named)
    if file:
        check_file(file, "the file of --buckets-from")
    data = named if part else ""
    # Checked before the work, so that the command does not fail after hours of work.
    if write_config is not None:
        from prepcli.manifest.loader_config import check_loader_config

        check_loader_config(Path(write_config), data)
    if plot is not None:
        from prepcli.engine.publishing.plots import check_plot

        check_plot(Path(plot))
    report = search(settings, Path(work or DEFAULT_WORK), overwrite=more["overwrite"], verify=verify)
    if report.status in ("dry_run", "incomplete"):
        return report
    if plot is not None:
        from prepcli.commands.estimate_batch_sizes.plot import plot_memory

        plot_memory(report.details, Path(plot))
    if write_config is not None:
        from prepcli.commands.estimate_batch_sizes.result import loader_options
        from prepcli.interface.calls import tell
        from prepcli.manifest.loader_config import write_loader_config

        for note in write_loader_config(Path(write_config), loader_options(report.details), data=data):
            tell(f"prepcli: {note}")
    return report
