"""`extend-text-context` from its options to its report."""

from prepcli.commands.extend_text_context.job import TextContextJob, text_context_workspace
from prepcli.commands.extend_text_context.options import ExtendTextContext
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.work_folder import note_unused


def extend_text_context(options: ExtendTextContext) -> Report:
    """Give the cuts of a Shar set text contexts.

    Returns:
        The report of the run; `outputs` has `cuts`, and the `target_audio` to read them with.

    Raises:
        UsageError: options that make no sense, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more cuts were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> shar = prepcli.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
        >>> report = prepcli.extend_text_context("shar", suffix="field:lang")
        >>> report.outputs["cuts"]
        '/.../shar/cuts_textContext/cuts._OP_000000..000002_CL_.jsonl.gz'
    """
    engine = options.engine()
    job = TextContextJob(options.shar_dir, options, num_workers=engine.num_workers)
    note_unused(options.work_dir, options.shar_dir)
    return run_command(job, text_context_workspace(options.shar_dir, options.work_dir), options, engine)
