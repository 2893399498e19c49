"""`prepare-texts` from its options to its report."""

from dataclasses import replace

from prepcli.commands.prepare_texts.job import TextsJob
from prepcli.commands.prepare_texts.options import PrepareTexts
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.file_output import FileWorkspace, real_file
from prepcli.manifest.sources import expand_paths


def prepare_texts(options: PrepareTexts) -> Report:
    """Prepare texts for ASR training with synthetic audio.

    Returns:
        The report of the run; `outputs` has `manifest_filepath` and `speakers_filepath`, as NeMo's config names them.

    Raises:
        UsageError: options that do not go together, a missing package, or an input that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.prepare_texts("manifest.json", "texts.json", is_normalized=True, speakers="0-9")
        >>> report.records_out, report.outputs["speakers_filepath"]
        (48, '/.../texts_speakers.txt')
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    return run_command(TextsJob(expand_paths(options.input), options), FileWorkspace(options.out), options, engine)
