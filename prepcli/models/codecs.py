"""The audio codecs that `--codec-model` accepts, and the names of their codes in the output."""

import re
from pathlib import Path

from prepcli.errors import UsageError
from prepcli.models.nemo import check_nemo_file, file_identity, is_file, notes_on_name
from prepcli.models.nemo_codec import MODEL_CLASS, NemoCodec
from prepcli.models.protocols import Codec

OPTION = "--codec-model"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_codec_model(name: str) -> None:
    """Check in milliseconds, without loading it, that a `.nemo` file is there and contains a codec.

    Raises:
        UsageError: it is not, or does not.
    """
    if is_file(name):
        check_nemo_file(name, OPTION, MODEL_CLASS)


def notes_on_codec_model(name: str) -> list[str]:
    """A note for a plan if the codec cannot be there, as far as is known without network."""
    return notes_on_name(name, OPTION, MODEL_CLASS, "tts")


def codec_name(model: str, given: str | None = None) -> str:
    """Return the name in `codes_<name>`.

    Args:
        model: the `.nemo` file or the name of a pretrained model.
        given: the name that the user wants; None: `model` without its folder and `.nemo`.

    Raises:
        UsageError: the given name has characters that configurations of trainers cannot have.
    """
    if given is not None:
        if not _NAME.fullmatch(given):
            raise UsageError(f"--codec-name {given!r}: use letters, digits, dots, dashes and underscores")
        return given
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(model).name.removesuffix(".nemo")).lstrip("._-")
    return name or "codec"


def identity(name: str) -> str:
    """Return what identifies the codec in the settings of a run: its name, or the SHA-256 of its file."""
    return file_identity(name)


def mixes_lengths(codec: Codec) -> bool:
    """Return whether the codes of a row are those of its audio alone, apart from rounding, also beside longer rows."""
    return bool(getattr(codec, "mixes_lengths", False))


def load_codec(name: str) -> Codec:
    """Load a codec, on the CPU.

    Raises:
        UsageError: it cannot be loaded.
    """
    return NemoCodec(name, OPTION)
