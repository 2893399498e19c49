"""Lists the files of an input, so that none of them is overwritten."""

from collections.abc import Iterator
from pathlib import Path

from prepcli.manifest.datasets import DataSet, Mix, TextSet
from prepcli.manifest.mixing import leaves_of


def files_of(data: DataSet | Mix) -> Iterator[str]:
    """Manifests, cuts and texts of all data sets, and the configs that name them.

    A training config is not included: bins are written into the config that names the data.
    """
    for leaf in leaves_of(data):
        yield from (path for path in leaf.notes.config_files if path != leaf.notes.training_config)
        yield from leaf.paths
        if isinstance(leaf, TextSet):
            yield from leaf.target_paths
            yield leaf.questions_path or ""


def files_in(path: str) -> Iterator[Path]:
    """The file itself, or the files in a folder, such as a tokenizer's; nothing if the path does not exist."""
    here = Path(path)
    yield from here.iterdir() if here.is_dir() else [here]
