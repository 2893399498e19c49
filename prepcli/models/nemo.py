"""NeMo's models: what a `.nemo` file holds, found out without NeMo, and loading one without its chatter."""

import contextlib
import hashlib
import importlib
import io
import logging
import os
import tarfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prepcli.errors import UsageError

_CONFIG = "model_config.yaml"
_MALFORMED = (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, LookupError, ArithmeticError, RecursionError)
"""What tarfile and PyYAML raise for files that are not what they should be, beside PyYAML's own errors."""


def is_file(name: str) -> bool:
    """Whether a model option means a file, not the name of a pretrained model."""
    return name.endswith(".nemo") or os.path.exists(name)


def check_nemo_file(path: str, option: str, model_class: str) -> None:
    """Look into a `.nemo` file for the class of its model; takes milliseconds, and needs no NeMo.

    Raises:
        UsageError: there is no such file, it is no `.nemo` file, or it holds a model of another class.
    """
    import yaml

    if not os.path.isfile(path):
        raise UsageError(f"{option} {path}: there is no such file")
    try:
        with tarfile.open(path, "r:*") as tar:
            # The configuration stands first: the weights are not read.
            member = next((one for one in tar if Path(one.name).name == _CONFIG), None)
            file = tar.extractfile(member) if member else None
            config = yaml.safe_load(file.read()) if file else None
    except (*_MALFORMED, yaml.YAMLError) as error:
        raise UsageError(
            f"{option} {path} is no .nemo file (a tar archive with {_CONFIG}): {_first_line(error)}"
        ) from None
    if not isinstance(config, dict):
        raise UsageError(f"{option} {path} is no .nemo file: there is no {_CONFIG} in it")
    found = str(config.get("target", "unknown")).rpartition(".")[2]
    if found != model_class:
        raise UsageError(f"{option} {path} holds a {found}; a {model_class} is needed")


def file_identity(name: str) -> str:
    """What stands for a model in a run's settings: its name, or the SHA-256 of its file."""
    if not is_file(name):
        return name
    with Path(name).open("rb") as file:
        digest = hashlib.sha256()
        while data := file.read(1 << 20):
            digest.update(data)
    return f".nemo file with SHA-256 {digest.hexdigest()}"


def load_nemo(model_class: str, name: str, option: str, collection: str = "asr") -> Any:
    """The model in a `.nemo` file, or a pretrained one by name (fetched at its first use), on the processor.

    `model_class` is a class of `nemo.collections.<collection>.models`; the model is in inference mode.

    Raises:
        UsageError: NeMo is not installed, or the model cannot be loaded.
    """
    with quiet():
        try:
            models = importlib.import_module(f"nemo.collections.{collection}.models")
        except ImportError as error:
            raise UsageError(
                f"{option} {name} needs NeMo: pip install 'prepcli[nemo]' ({_first_line(error)})"
            ) from None
        kind = getattr(models, model_class)
        load = kind.restore_from if is_file(name) else kind.from_pretrained
        try:
            with extraction_filters():
                model = load(name, map_location="cpu")
        except Exception as error:
            what = "cannot be loaded" if is_file(name) else "cannot be fetched; give a .nemo file"
            raise UsageError(f"{option} {name} {what}: {_first_line(error)}") from None
    logging.getLogger("nemo_logger").setLevel(logging.ERROR)
    model.freeze()
    return model


@contextlib.contextmanager
def extraction_filters() -> Iterator[None]:
    """Within the context `TarFile.extract` takes a `filter`, also in Python before 3.10.12 and 3.11.4 (Debian 12).

    NeMo 3.0 gives one. It is ignored there: NeMo refuses links and paths that leave the folder before it extracts.
    """
    if hasattr(tarfile, "data_filter"):
        yield
        return
    extract = tarfile.TarFile.extract

    def extract_unfiltered(self: tarfile.TarFile, *arguments: Any, filter: object = None, **options: Any) -> None:
        extract(self, *arguments, **options)

    tarfile.TarFile.extract = extract_unfiltered  # type: ignore[method-assign]
    try:
        yield
    finally:
        tarfile.TarFile.extract = extract  # type: ignore[method-assign]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Within the context nothing is printed, logged or warned of from Python."""
    level = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(level)


def _first_line(error: Exception) -> str:
    """Without what is meant for programmers only."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line.partition(" Check cls.")[0].rstrip(":")
