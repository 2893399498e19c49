"""Mel-spectrograms on disk and their file lists, as Tacotron 2 and WaveGlow of DeepLearningExamples read them."""

import re

from prepcli.errors import RecordRejected, RejectReason

MEL_NAME = "mels/{}.pt"
LIST_NAME = "filelists/{}_{}_text_filelist.txt"
LIST_FILE = re.compile(r"(.+)_(audio|mel)_text_filelist\.txt$")
AUDIO, MEL = "audio", "mel"
SEPARATOR = "|"


def list_line(path: str, text: str, text_field: str) -> bytes:
    """A line of a file list; `text_field` is the name of the text's field, for messages.

    Raises:
        RecordRejected: BAD_FIELD if a line cannot hold the path or the text.
    """
    for name, value in (("audio_filepath", path), (text_field, text)):
        for char, shown in ((SEPARATOR, "'|'"), ("\n", "a line break"), ("\r", "a line break")):
            if char in value:
                raise RecordRejected(RejectReason.BAD_FIELD, f"{name} has {shown}, which a file list cannot hold")
    return f"{path}{SEPARATOR}{text}\n".encode()
