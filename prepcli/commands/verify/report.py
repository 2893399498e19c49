"""The report of `verify`."""

from typing import Any

import msgspec

from prepcli.interface.printing import as_text


class VerifyReport(msgspec.Struct):
    """Counts of the checked data, and every problem; `seconds` of audio are those of the records.

    `kind`: tarred, shar (also for its codes), wenet, mels, parquet, omnilingual, omnivoice, qwen3-tts, manifest,
    containers (of data sets that prepcli has not written), or quick (names and sizes). `hashes_known`: OUT.prepcli has
    the published hashes, except the hashes of `files_not_compared` files, which no known run wrote. `notes`, which are
    not problems, list data that could not be compared and the rejects of the run. The seconds of mels are not known.
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
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found | {"status": self.status}

    def __str__(self) -> str:
        """The text that the command prints: the checked data, and each problem."""
        lines = [f"verify: {self.out} is {self.status}"]
        if self.kind not in ("manifest", "mels", "quick"):
            lines.append(f"  shards   {self.shards:,}")
        if self.manifests:
            lines.append(f"  manifests {self.manifests:,}")
        lines += [
            f"  records  {self.records:,}{_within(self)}",
            f"  hashes   {'not compared (--quick)' if self.kind == 'quick' else _hashes(self)}",
            *(f"  note     {note}" for note in self.notes),
            *(f"  PROBLEM  {problem}" for problem in self.problems),
        ]
        return as_text(lines)


def _within(report: VerifyReport) -> str:
    """The members that hold the records, and their hours; for mels, the length of the audio is unknown."""
    if report.kind == "mels":
        return f", {report.members:,} mels" if report.members else ", without mels"
    members = "" if report.kind in ("manifest", "quick") else f" in {report.members:,} members"
    return f"{members}, {report.seconds / 3600:,.2f} hours"


def _hashes(report: VerifyReport) -> str:
    if not report.hashes_known:
        return "unknown (no OUT.prepcli)"
    but = f", except those of {report.files_not_compared:,} files" if report.files_not_compared else ""
    return f"compared with what was published{but}"
