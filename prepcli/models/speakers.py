"""The speaker encoders that `--speaker-model` accepts."""

from prepcli.models.nemo import check_nemo_file, file_identity, is_file, notes_on_name
from prepcli.models.nemo_speaker import MODEL_CLASS, NemoSpeakerEncoder
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.resemblyzer import ResemblyzerEncoder, weights_file

OPTION = "--speaker-model"
RESEMBLYZER = "resemblyzer"


def check_speaker_model(name: str) -> None:
    """Check in milliseconds that the model exists and is a speaker model, without loading it.

    Raises:
        UsageError: it does not exist, or is not a speaker model.
    """
    if name == RESEMBLYZER:
        weights_file()
    elif is_file(name):
        check_nemo_file(name, OPTION, MODEL_CLASS)


def notes_on_speaker_model(name: str) -> list[str]:
    """Notes for a plan if the model cannot exist, as far as this can be known without network."""
    return [] if name == RESEMBLYZER else notes_on_name(name, OPTION, MODEL_CLASS, "asr")


def identity(name: str) -> str:
    """Return the identity of the model in the settings of a run: its name, or the SHA-256 of its file."""
    return name if name == RESEMBLYZER else file_identity(name)


def load_speaker_encoder(name: str) -> SpeakerEncoder:
    """Load an encoder, on the CPU.

    Raises:
        UsageError: it cannot be loaded.
    """
    return ResemblyzerEncoder() if name == RESEMBLYZER else NemoSpeakerEncoder(name, OPTION)
