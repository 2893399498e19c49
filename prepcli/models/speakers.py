"""The speaker encoders that `--speaker-model` accepts."""

from prepcli.models.nemo import check_nemo_file, file_identity, is_file, notes_on_name
from prepcli.models.nemo_speaker import MODEL_CLASS, NemoSpeakerEncoder
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.resemblyzer import ResemblyzerEncoder, weights_file

OPTION = "--speaker-model"
RESEMBLYZER = "resemblyzer"


def check_speaker_model(name: str) -> None:
    """Check a value of `--speaker-model` in milliseconds, without loading the model.

    A file must contain a speaker model, and for `resemblyzer` its package must be installed. Whether a pretrained model
    of the name exists is not checked.

    Raises:
        UsageError: the file is not a speaker model, or does not exist, or the package is missing.
    """
    if name == RESEMBLYZER:
        weights_file()
    elif is_file(name):
        check_nemo_file(name, OPTION, MODEL_CLASS)


def notes_on_speaker_model(name: str) -> list[str]:
    """Return a note for the plan if there is no model of this name, as far as that is known without network.

    The list is empty if there is no note.
    """
    return [] if name == RESEMBLYZER else notes_on_name(name, OPTION, MODEL_CLASS, "asr")


def identity(name: str) -> str:
    """Return the identity of the model in the settings of a run: the SHA-256 of a file, else `name`."""
    return name if name == RESEMBLYZER else file_identity(name)


def load_speaker_encoder(name: str) -> SpeakerEncoder:
    """Load an encoder, on the CPU.

    Raises:
        UsageError: the encoder cannot be loaded.
    """
    return ResemblyzerEncoder() if name == RESEMBLYZER else NemoSpeakerEncoder(name, OPTION)
