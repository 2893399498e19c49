"""The report of `index`."""

import msgspec

from prepcli.engine.run.report import format_bytes
from prepcli.interface.printing import as_text, number_of
from prepcli.interface.reports import ShownInNotebooks


class IndexReport(ShownInNotebooks, msgspec.Struct):
    """The result of one call of `index`.

    `status`: done, nothing_to_do, dry_run, ok (after --check), or broken (there are problems). `files`: number of data
    files of this rank. `records`: number of records in the indexes that were written or checked. `configs`: YAML to
    paste into a training config, one text for each set.
    """

    status: str = "done"
    sets: list[str] = []
    files: int = 0
    written: int = 0
    kept: int = 0
    renamed: int = 0
    records: int = 0
    num_bytes: int = 0
    problems: list[str] = []
    notes: list[str] = []
    configs: list[str] = []

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if there are problems."""
        return 1 if self.problems else 0

    def __str__(self) -> str:
        """The text that the command prints: the written indexes, each problem, and the YAML to paste."""
        return as_text(self._lines())

    def _lines(self) -> list[str]:
        names = ", ".join(self.sets[:3]) + (f", ... ({len(self.sets)} sets)" if len(self.sets) > 3 else "")
        title = {
            "dry_run": "the plan (nothing is written)",
            "nothing_to_do": "nothing to do",
            "ok": "all indexes fit their data",
            "broken": f"{len(self.problems)} problems",
        }.get(self.status, "done")
        lines = [f"index: {title}, {names}"]
        if self.status == "dry_run":
            verb = "to rename" if self.renamed else "to write"
            count = self.renamed or self.written
            lines.append(f"  indexes  {count:,} {verb}, {self.kept:,} kept")
            lines.append(f"  data     {format_bytes(self.num_bytes)}, of which line ends and tar headers are read")
        elif self.renamed:
            lines.append(f"  indexes  {self.renamed:,} renamed")
        elif self.status == "nothing_to_do":
            return lines
        elif self.status == "ok":
            lines.append(f"  indexes  {self.files:,} with {number_of(self.records, 'record')}")
        else:
            lines.append(f"  indexes  {self.written:,} written, {self.kept:,} kept")
            lines.append(f"  records  {self.records:,} in {format_bytes(self.num_bytes)}")
        lines += [f"  note     {note}" for note in self.notes]
        lines += [f"  PROBLEM  {problem}" for problem in self.problems]
        for config in self.configs if not self.problems else []:
            lines += ["  config_with_indexes", *(f"    {line}" for line in config.splitlines())]
        return lines
