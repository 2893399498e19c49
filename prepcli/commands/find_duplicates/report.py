"""The report of `find-duplicates`."""

from prepcli.engine.run.report import Report
from prepcli.interface.printing import as_text, number_of

_SHORT = {
    False: "less than 0.6 s of sound and were",
    True: "less than 0.6 s of sound, in all or in a turn, which was",
}
"""Which records are not compared by their fingerprints, by whether there are conversations."""


class DuplicatesReport(Report):
    """The report of `find-duplicates`; `details["found"]` counts the groups of each kind."""

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if `--between` has found groups, so that a script can use the command as a check."""
        return int(bool(self.details.get("between")) and any(row["groups"] for row in self.details["found"]))

    def __str__(self) -> str:
        """The summary of a run, and how many groups were found."""
        rows = self.details.get("found", [])
        lines = [
            f"  same {row['by']}: {number_of(row['groups'], 'group')} of {number_of(row['records'], 'record')}, "
            f"{row['hours_beyond_first']:,.2f} h without the first of each"
            for row in rows
        ]
        lines += [
            f"  {number_of(row['not_compared'], 'record', 'have')} {_SHORT[row.get('has_turns', False)]} not compared "
            "by near-audio"
            for row in rows
            if row.get("not_compared")
        ]
        voices = self.details.get("same_voice", [])
        lines += [f"  same voice ({pair['similarity']:.3f}): {' = '.join(pair['speakers'])}" for pair in voices]
        if (num_more := self.details.get("num_same_voice", 0) - len(voices)) > 0:
            lines.append(f"  and {number_of(num_more, 'more pair')} of names")
        others = self.details.get("other_voice", [])
        lines += [f"  below the minimum ({pair['similarity']:.3f}): {', '.join(pair['speakers'])}" for pair in others]
        if without := self.details.get("without_voice", 0):
            lines.append(f"  {number_of(without, 'speaker', 'have')} no utterance with a voice")
        return "\n".join([super().__str__(), *([as_text(lines)] if lines else [])])

    def __format__(self, spec: str) -> str:
        """The text that `str` gives, whatever the format is."""
        return str(self)
