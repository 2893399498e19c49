"""Checks the name of a manifest that a command will write."""

from pathlib import Path

from prepcli.engine.state.workspace import is_of_process
from prepcli.errors import UsageError
from prepcli.formats.audio_names import is_audio_name


def check_manifest_name(out: Path, command: str, example: str = "manifest.json") -> None:
    """Refuse an output name that does not suit a manifest. Else `--overwrite` could replace a recording by a manifest.

    Args:
        out: the file to write.
        command: the command that writes it.
        example: a suitable file name, for the message.

    Raises:
        UsageError: the name is that of a folder, of a compressed file, of audio, or of a pipe or a device; or is `-`.
    """
    if out.name == "-":
        raise UsageError(f"{command} writes no manifest to its standard output; name a file, such as {example}")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file, such as {out / example}")
    if out.name.endswith(".gz"):
        raise UsageError(f"{out}: {command} writes plain JSON lines; leave .gz off the name")
    if is_audio_name(out.name):
        raise UsageError(f"{out}: {command} writes JSON lines, and this is a name of audio; give one such as {example}")
    if (out.exists() and not out.is_file()) or is_of_process(out):
        raise UsageError(f"{out} is a pipe or a device, not a file; name a file, such as {example}")
