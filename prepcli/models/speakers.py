"""The speaker encoders that can be asked for by name."""

from prepcli.models.nemo import check_nemo_file, file_identity, is_file
from prepcli.models.nemo_speaker import MODEL_CLASS, NemoSpeakerEncoder
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.resemblyzer import ResemblyzerEncoder, weights_file

OPTION = "--speaker-model"
RESEMBLYZER = "resemblyzer"


def check_speaker_model(name: str) -> None:
    """Find out in milliseconds what can be: is the file there, and does it hold a speaker model?

    Raises:
        UsageError: it cannot work.
    """
    if name == RESEMBLYZER:
        weights_file()
    elif is_file(name):
        check_nemo_file(name, OPTION, MODEL_CLASS)


def identity(name: str) -> str:
    """What stands for the model in a run's settings: its name, or the SHA-256 of its file."""
    return name if name == RESEMBLYZER else file_identity(name)


def load_speaker_encoder(name: str) -> SpeakerEncoder:
    """The encoder, on the processor.

    Raises:
        UsageError: it cannot be loaded.
    """
    return ResemblyzerEncoder() if name == RESEMBLYZER else NemoSpeakerEncoder(name, OPTION)
