"""What `prepcli blend` prints."""

from typing import TYPE_CHECKING

from prepcli.cli.output import print_json, print_lines

if TYPE_CHECKING:
    from prepcli.blending.options import Blend
    from prepcli.blending.report import BlendReport


def show_blend(options: "Blend", report: "BlendReport") -> None:
    """Print the table of shares."""
    if options.as_json:
        print_json(report)
    else:
        lines = str(report).splitlines()
        print_lines(lines[:1] if report.status == "nothing_to_do" else lines)
