"""The names of all commands, those of groups with the group before them: `download an4`."""

from prepcli.cli.app import app

COMMANDS = sorted(
    [command.name or "" for command in app.registered_commands]
    + [
        f"{group.typer_instance.info.name} {command.name}"
        for group in app.registered_groups
        if group.typer_instance is not None
        for command in group.typer_instance.registered_commands
    ]
)
