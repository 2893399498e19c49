"""The report of `verify`."""

from typing import Any

import msgspec

from prepcli.interface.printing import as_text, number_of
from prepcli.interface.reports import ShownInNotebooks

MAX_PROBLEMS = 1000
"""Maximum number of listed problems of a manifest: with a wrong folder, each line is a problem."""


class VerifyReport(ShownInNotebooks, msgspec.Struct):
    """The counts of the checked data, and every problem.

    `kind`: tarred, shar (also for its codes), wenet, mels, parquet, omnilingual, omnivoice, qwen3-tts, manifest,
    containers (of data sets that prepcli has not written), or quick (names and sizes). `seconds`: the audio of all
    records; not known for mels. `hashes_known`: OUT.prepcli has the published hashes. `files_not_compared`: the number
    of files without a published hash, because no known run wrote them. `notes`: data that could not be compared, and
    the rejects of the run, which are not problems.
    """

    out: str
    kind: str = "tarred"
    shards: int = 0
    members: int = 0
    records: int = 0
    seconds: float = 0.0
    hashes_known: bool = False
    problems: list[str] = []
    manifests: int = 0
    notes: list[str] = []
    files_not_compared: int = 0

    @property
    def status(self) -> str:
        """`broken` if there are problems, else `ok`."""
        return "broken" if self.problems else "ok"

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if there are problems."""
        return 1 if self.problems else 0

    def document(self) -> dict[str, Any]:
        """The document for `--json`: all attributes and the status."""
        return {**msgspec.to_builtins(self), "status": self.status}

    def __str__(self) -> str:
        """The text that the command prints: the checked data, and each problem."""
        lines = [f"verify: {self.out} is {self.status}"]
        if self.kind not in ("manifest", "mels", "quick", "containers"):
            lines.append(f"  shards   {self.shards:,}")
        if self.kind == "containers":
            lines.append(f"  files    {self.manifests:,}")
        elif self.manifests:
            lines.append(f"  manifests {self.manifests:,}")
        lines += [
            f"  records  {self.records:,}{_within(self)}",
            f"  hashes   {'not compared (--quick)' if self.kind == 'quick' else _hashes(self)}",
            *(f"  note     {note}" for note in self.notes),
            *(f"  PROBLEM  {problem}" for problem in self.problems),
        ]
        return as_text(lines)


def _within(report: VerifyReport) -> str:
    """The end of the line on records: the number of tar members, and the hours of audio.

    Manifests and containers of others have no number of members; for a set of mels, the end is the number of mels.
    """
    if report.kind == "mels":
        return f", {report.members:,} mels" if report.members else ", without mels"
    members = "" if report.kind in ("manifest", "quick", "containers") else f" in {number_of(report.members, 'member')}"
    return f"{members}, {report.seconds / 3600:,.2f} hours"


def _hashes(report: VerifyReport) -> str:
    if not report.hashes_known:
        return "unknown (no OUT.prepcli)"
    but = f", except those of {number_of(report.files_not_compared, 'file')}" if report.files_not_compared else ""
    return f"compared with what was published{but}"
