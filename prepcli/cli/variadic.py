"""Options that take several values at once, `-t one two`, as in argparse and in NeMo's scripts."""

from typing import Any

from prepcli.cli.hints import ExplainingCommand


class VariadicCommand(ExplainingCommand):
    """A command whose repeatable options also accept several values at once.

    `-t one two` means `-t one -t two`. If the command then has no argument (`-t one INPUT`), the last value is the
    argument.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`."""
        return super().parse_args(ctx, self._spread(args))

    def _spread(self, args: list[str]) -> list[str]:
        by_name = {name: option for option in self.params for name in (*option.opts, *option.secondary_opts)}
        spread: list[str] = []
        last_in_row: int | None = None
        num_arguments = 0
        rest = list(args)
        while rest:
            arg = rest.pop(0)
            if arg == "--":
                return [*spread, arg, *rest]
            option = by_name.get(arg)
            spread.append(arg)
            if option is None:
                num_arguments += not arg.startswith("-")
            elif getattr(option, "multiple", False) and rest:
                spread.append(rest.pop(0))
                while rest and not rest[0].startswith("-"):
                    spread += [arg, rest.pop(0)]
                    last_in_row = len(spread) - 2
            elif not getattr(option, "is_flag", False) and rest:
                spread.append(rest.pop(0))
        if last_in_row is not None and not num_arguments:
            del spread[last_in_row]
        return spread
