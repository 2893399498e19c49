"""The audio codecs that `--codec-model` accepts, and the names of their codes in the output."""

import re
from pathlib import Path

from prepcli.errors import UsageError, option
from prepcli.models.hf_codec import HfCodec, check_hf_codec, hf_identity, is_hf_codec
from prepcli.models.nemo import check_nemo_file, file_identity, is_file, notes_on_name
from prepcli.models.nemo_codec import MODEL_CLASS, NemoCodec
from prepcli.models.plugin_codec import PluginCodec, check_plugin, is_plugin, parts_of, plugin_identity
from prepcli.models.protocols import Codec

OPTION = "--codec-model"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MAX_NAME_LENGTH = 150
"""Maximum length of a name derived from `--codec-model`: it is part of file names, which have up to 255 characters."""


def check_codec_model(name: str, num_codebooks: int | None = None) -> None:
    """Check a value of `--codec-model` in milliseconds, without loading the codec.

    A file or folder must contain a codec, and a codec of a package must be installed. Whether a pretrained model of the
    name exists is not checked.

    Raises:
        UsageError: there is no codec, or `num_codebooks` is given for a codec that needs all codebooks.
    """
    if is_hf_codec(name):
        check_hf_codec(name, OPTION)
    elif num_codebooks is not None:
        raise UsageError(
            f"{option('--num-codebooks')} is for codecs of Hugging Face; all codebooks of {name} belong together"
        )
    elif is_plugin(name):
        check_plugin(name, OPTION)
    elif is_file(name):
        check_nemo_file(name, OPTION, MODEL_CLASS)


def notes_on_codec_model(name: str) -> list[str]:
    """Return a note for the plan if there is no codec of this name, as far as that is known without network.

    The list is empty if there is no note.
    """
    return [] if is_plugin(name) else notes_on_name(name, OPTION, MODEL_CLASS, "tts")


def codec_name(model: str, given: str | None = None) -> str:
    """Return the name in `codes_<name>`: the given one, or `model` (see `--codec-model`) without folder and `.nemo`.

    Raises:
        UsageError: `given` has other characters than letters, digits, dots, dashes and underscores, or `given` is None
            and the name of the model is too long for a file name.
    """
    if given is not None:
        if not _NAME.fullmatch(given):
            raise UsageError(f"{option('--codec-name')} {given!r}: use letters, digits, dots, dashes and underscores")
        return given
    if is_plugin(model):
        entry, argument = parts_of(model)
        model = f"{entry}_{Path(argument).name}" if argument else entry
    last = Path(model).name or Path(model).absolute().name  # the second works for `.` too
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", last.removesuffix(".nemo")).lstrip("._-")
    if len(name) > _MAX_NAME_LENGTH:
        raise UsageError(
            f"{option('--codec-model')} has {len(name):,} characters that would name the codes: give "
            f"{option('--codec-name')}"
        )
    return name or "codec"


def identity(name: str) -> str:
    """Return the identity of the codec in the settings of a run: the SHA-256 of local files, else the name.

    For a codec of another package, see `plugin_identity`.
    """
    if is_plugin(name):
        return plugin_identity(name, OPTION)
    return hf_identity(name) if is_hf_codec(name) else file_identity(name)


def load_codec(name: str, num_codebooks: int | None = None) -> Codec:
    """Load a codec, on the CPU.

    A codec of transformers then uses its first `num_codebooks` codebooks (None: all). Others ignore the number.

    Raises:
        UsageError: the codec cannot be loaded.
    """
    if is_plugin(name):
        return PluginCodec(name, OPTION)
    return HfCodec(name, OPTION, num_codebooks) if is_hf_codec(name) else NemoCodec(name, OPTION)
