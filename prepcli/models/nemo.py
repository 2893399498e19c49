"""NeMo's models: checking a `.nemo` file without NeMo, and loading a model without NeMo's output."""

import contextlib
import importlib
import io
import logging
import os
import sys
import tarfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.hashes import sha256_of
from prepcli.errors import IncompleteError, UsageError, option
from prepcli.formats.yaml_text import MAX_BYTES, parse_yaml
from prepcli.interface.bars import bars_of_others
from prepcli.interface.calls import log_less
from prepcli.interface.printing import first_line
from prepcli.models.fetching import fetching_once
from prepcli.models.pretrained import problem_of

_CONFIG = "model_config.yaml"
_EARLIER = ("_nemo_file_folder", "_model_restore_path", "_all_model_restore_paths")
"""Attributes of NeMo's `AppState` that have the paths of the models that the process has loaded."""
_MALFORMED = (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, LookupError, ArithmeticError, RecursionError)
"""Exceptions of tarfile and PyYAML for malformed files, in addition to PyYAML's own classes."""


def is_file(name: str) -> bool:
    """Return whether the value of a model option is a file, and not the name of a pretrained model."""
    return name.endswith(".nemo") or os.path.exists(name)


def check_nemo_file(path: str, flag: str, model_class: str) -> None:
    """Check the class of the model in a `.nemo` file, in milliseconds and without NeMo; `flag` names the option.

    Raises:
        UsageError: the file does not exist, is not a `.nemo` file, or contains a model of another class.
    """
    name = target_of(path, flag).rpartition(".")[2]
    if name != model_class:
        raise UsageError(
            f"{option(flag, path)} contains a model of the class {name}; the class {model_class} is needed"
        )


def target_of(path: str, flag: str) -> str:
    """Return the full class name of the model in a `.nemo` file; `unknown` if the file does not contain it.

    Raises:
        UsageError: the file does not exist, or is not a `.nemo` file.
    """
    import yaml

    if not os.path.isfile(path):
        raise UsageError(f"{option(flag, path)}: there is no such file")
    try:
        with tarfile.open(path, "r:*") as tar:
            # The configuration comes first, so the weights are not read.
            member = next((info for info in tar if Path(info.name).name == _CONFIG), None)
            file = tar.extractfile(member) if member else None
            config = parse_yaml(file.read(MAX_BYTES + 1)) if file else None
    except (*_MALFORMED, yaml.YAMLError) as error:
        raise UsageError(
            f"{option(flag, path)} is not a .nemo file (a tar archive with {_CONFIG}): {cause_of(error)}"
        ) from None
    if not isinstance(config, dict):
        raise UsageError(f"{option(flag, path)} is not a .nemo file: it does not contain {_CONFIG}")
    return str(config.get("target", "unknown"))


def notes_on_name(name: str, flag: str, model_class: str, collection: str) -> list[str]:
    """Return a note for the plan if `name` is neither a file nor a possible pretrained model, else an empty list."""
    why = None if is_file(name) else problem_of(name, model_class, collection)
    return [] if why is None else [f"{option(flag, name)} cannot be fetched: {why}"]


def file_identity(name: str) -> str:
    """Return the identity of a model in the settings of a run: the SHA-256 of a file, else `name`."""
    if not is_file(name):
        return name
    return f".nemo file with SHA-256 {sha256_of(Path(name))}"


def load_nemo(model_class: str, name: str, flag: str, collection: str = "asr", instead: str = "a .nemo file") -> Any:
    """Load a model in inference mode, on the CPU.

    Args:
        model_class: a class of `nemo.collections.<collection>.models`.
        name: a `.nemo` file, or the name of a pretrained model, which is downloaded at its first use.
        flag: name of the option, for messages.
        collection: NeMo's collection of the model.
        instead: what the user can give in place of a model that cannot be fetched, for messages.

    Raises:
        UsageError: NeMo is not installed, or the model cannot be loaded.
        IncompleteError: the connection broke during the download.
    """
    why = None if is_file(name) else problem_of(name, model_class, collection)
    if why is not None:
        raise UsageError(f"{option(flag, name)} cannot be fetched; give {instead}: {why}")
    stderr = sys.stderr
    with quiet():
        try:
            models = importlib.import_module(f"nemo.collections.{collection}.models")
        except ImportError as error:
            raise UsageError(
                f"{option(flag, name)} needs NeMo: pip install 'prepcli[nemo]' ({cause_of(error)})"
            ) from None
        kind = getattr(models, model_class)
        load = kind.restore_from if is_file(name) else kind.from_pretrained
        try:
            with extraction_filters(), without_earlier_models(), without_cuda(), fetching_once(stderr):
                model = load(name, map_location="cpu")
        except IncompleteError:
            raise
        except Exception as error:
            what = "cannot be loaded" if is_file(name) else f"cannot be fetched; give {instead}"
            raise UsageError(f"{option(flag, name)} {what}: {cause_of(error)}") from None
    log_less("nemo_logger", logging.ERROR)
    model.freeze()
    return model


@contextlib.contextmanager
def without_earlier_models() -> Iterator[None]:
    """Within the context, NeMo does not know the files of models that it has loaded before; NeMo must be imported.

    NeMo keeps the paths of the last loaded file. In NeMo 3.0, the next encoder-decoder model would load its files from
    these paths, even if it is made from a config.
    """
    from nemo.utils.app_state import AppState

    state = AppState()
    kept = {name: value for name, value in vars(state).items() if name in _EARLIER}
    for name, value in kept.items():
        setattr(state, name, [] if isinstance(value, list) else None)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(state, name, value)


@contextlib.contextmanager
def without_cuda() -> Iterator[None]:
    """Within the context PyTorch says that there is no GPU.

    Otherwise NeMo would initialize CUDA when it makes a model. That is too early, because processes cannot be forked
    afterwards. It would also use the first GPU instead of the GPU of this rank.
    """
    import torch

    available = torch.cuda.is_available
    torch.cuda.is_available = lambda: False
    try:
        yield
    finally:
        torch.cuda.is_available = available


@contextlib.contextmanager
def extraction_filters() -> Iterator[None]:
    """Within the context, `TarFile.extract` accepts the argument `filter` in every version of Python.

    NeMo 3.0 passes this argument. Python before 3.10.12 and 3.11.4 (Debian 12) does not have it, so there it is
    ignored. This is safe: before NeMo extracts, it refuses links, and paths that leave the folder.
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
    """Suppress output, logs and warnings of Python code within the context."""
    level = logging.root.manager.disable
    with (
        bars_of_others(),
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


def cause_of(error: Exception) -> str:
    """Return the first line of the message of an error, without NeMo's hints for programmers."""
    return first_line(error).partition(" Check cls.")[0].rstrip(":")
