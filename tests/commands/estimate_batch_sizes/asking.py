"""The settings of a search, with the defaults of the command."""

from dataclasses import fields
from typing import Any

from prepcli.commands.estimate_batch_sizes.command import estimate_batch_sizes
from prepcli.commands.estimate_batch_sizes.settings import SearchSettings
from prepcli.interface.command import declaration
from prepcli.interface.options import declared


def settings(**given: Any) -> SearchSettings:
    defaults = {one.name: one.default for one in declared(declaration(estimate_batch_sizes).options)}
    return SearchSettings(**{one.name: defaults[one.name] for one in fields(SearchSettings)} | given)
