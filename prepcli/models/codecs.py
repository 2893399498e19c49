"""The audio codecs that can be asked for, and the names under which their codes are stored."""

import re
from pathlib import Path

from prepcli.errors import UsageError
from prepcli.models.nemo import check_nemo_file, file_identity, is_file
from prepcli.models.nemo_codec import MODEL_CLASS, NemoCodec
from prepcli.models.protocols import Codec

OPTION = "--codec-model"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_codec_model(name: str) -> None:
    """Find out in milliseconds what can be: is the file there, and does it hold a codec?

    Raises:
        UsageError: it cannot work.
    """
    if is_file(name):
        check_nemo_file(name, OPTION, MODEL_CLASS)


def codec_name(model: str, given: str | None = None) -> str:
    """The name in `codes_<name>`: the one given, or the model's file or name without its folder and `.nemo`.

    Raises:
        UsageError: the name given is none for a folder that trainers can name in their configurations.
    """
    if given is not None:
        if not _NAME.fullmatch(given):
            raise UsageError(f"--codec-name {given!r}: letters, digits, dots, dashes and underscores make a name")
        return given
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(model).name.removesuffix(".nemo")).lstrip("._-")
    return name or "codec"


def identity(name: str) -> str:
    """What stands for the codec in a run's settings: its name, or the SHA-256 of its file."""
    return file_identity(name)


def load_codec(name: str) -> Codec:
    """The codec, on the processor.

    Raises:
        UsageError: it cannot be loaded.
    """
    return NemoCodec(name, OPTION)
