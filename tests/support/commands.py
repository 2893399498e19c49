"""The names of all commands, those of groups with the group before them: `download an4`."""

from prepcli.interface import commands

COMMANDS = sorted(command.name for command in commands.COMMANDS)
