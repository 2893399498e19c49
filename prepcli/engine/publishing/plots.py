"""The files of plots: which of them a command may replace, and how they are written."""

import io
from pathlib import Path
from typing import Any

from prepcli.engine.publishing.side_files import Kind, check_side_file, write_side_file
from prepcli.errors import UsageError, option
from prepcli.interface.plotting import new_figure

_JPEG, _TIFF, _POSTSCRIPT = rb"\xff\xd8\xff", rb"II\*\0|MM\0\*", rb"%!PS.*Matplotlib"
_PATTERNS = {
    "png": rb"\x89PNG.*Matplotlib",
    "svg": rb"<\?xml.*<svg.*Matplotlib",
    "pdf": rb"%PDF.*Matplotlib",
    "ps": _POSTSCRIPT,
    "eps": _POSTSCRIPT,
    "pgf": rb"%% Creator: Matplotlib",
    "jpg": _JPEG,
    "jpeg": _JPEG,
    "tif": _TIFF,
    "tiff": _TIFF,
    "gif": rb"GIF8",
    "webp": rb"RIFF.{4}WEBP",
    "avif": rb".{4}ftypavif",
}
"""For each suffix, the pattern of a picture that matplotlib may have written.

In some formats matplotlib names itself: pictures of other programs do not match. A format without an entry has no
certain beginning: an existing file with such a suffix is never replaced.
"""
_UNKNOWN = rb"(?!)"


def check_plot(path: Path) -> None:
    """Check before the work that a figure can be written to `path`.

    Raises:
        UsageError: the format is unknown, or `check_side_file` refuses the path.
    """
    formats = new_figure().canvas.get_supported_filetypes()
    if _format_of(path) not in formats:
        raise UsageError(f"{option('--plot', path)}: the name must end in one of .{', .'.join(sorted(formats))}")
    check_side_file("--plot", path, Kind("such a plot", _PATTERNS.get(_format_of(path), _UNKNOWN)))


def save_figure(figure: Any, path: Path) -> None:
    """Write the figure in the format that the suffix of `path` names.

    Raises:
        UsageError: matplotlib cannot make the picture, or the file cannot be written.
        PrepcliError: the file cannot be written because of the machine, such as a full disk.
    """
    picture = io.BytesIO()
    try:
        figure.savefig(picture, format=_format_of(path), dpi=120)
    except (OSError, ValueError, RuntimeError) as error:  # such as a format that needs another program
        raise UsageError(f"cannot make the plot {path}: {error}; give a name such as plot.png") from None
    write_side_file(path, picture.getvalue())


def _format_of(path: Path) -> str:
    return path.suffix[1:].lower()
