"""Options of data sets: they are refused if no input uses them, because then they would do nothing."""

from collections.abc import Sequence

from prepcli.errors import UsageError, option
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.kinds import INPUT_KINDS, MANIFEST
from prepcli.storage.containers import Catalogue

_COLUMNS = ("split", "audio_column", "text_column", "speaker_column", "lang_column", "id_column")


def refuse_unused_options(inputs: Sequence[str], options: SetInput) -> None:
    """`prepcli.jobs.inputs.named.refuse_unused`, for a call that gives such an option."""
    names = [path.kind if isinstance(path, Catalogue) else MANIFEST for path in inputs]
    kinds = [INPUT_KINDS[name] for name in names]
    read_as = f"{inputs[0]} is read as {kinds[0].article}{names[0]}"
    wanted = options.input_format
    if wanted is not None and not any(wanted in kind.formats for kind in kinds):
        raise UsageError(f"{option('--input-format', wanted)}: {read_as}; leave it out")
    uses = dict.fromkeys(_COLUMNS, (any(kind.has_columns for kind in kinds), "tars, zip archives and Parquet files"))
    uses["name_encoding"] = any(kind.has_members for kind in kinds), "tars and zip archives"
    for name, (is_used, words) in uses.items():
        value = getattr(options, name)
        if value is not None and not is_used:
            given = option(f"--{name.replace('_', '-')}", value)
            raise UsageError(f"{given} is for {words}; {read_as}: leave it out")
