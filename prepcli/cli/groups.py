"""The commands as `prepcli --help` lists them: by task, each with a whole line."""

from typing import Any

from typer.core import TyperGroup

from prepcli.interface.commands import TASKS

DOWNLOAD = "Fetch, check and convert published corpora"


class GroupedHelp(TyperGroup):
    """A group whose help lists its commands by task."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each task."""
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        for title, commands in TASKS.items():
            summaries = {
                name: DOWNLOAD if more else command.summary
                for command in commands
                for name, _, more in [command.name.partition(" ")]
            }
            rows = [(name.ljust(width), summary) for name, summary in summaries.items() if name in names]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
