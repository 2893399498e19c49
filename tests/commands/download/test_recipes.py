"""The table of recipes is that of the installed lhotse."""

import importlib
import inspect
import re
from typing import Any

import pytest

from prepcli.commands.download.recipes import RECIPES
from prepcli.manifest.languages import language_code
from tests.support.running import prepcli

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def commands() -> dict[str, Any]:
    importlib.import_module("lhotse.bin.modes.recipes")
    prepare = importlib.import_module("lhotse.bin.modes.cli_base").cli.commands["prepare"]
    return dict(prepare.commands)


def arguments_of(command: Any) -> list[str]:
    return [one.name.upper() for one in command.params if one.param_type_name == "argument"]


def source_of(command: Any) -> str:
    """The source of the recipe, without that of its command."""
    wrapper = inspect.getsource(importlib.import_module(command.callback.__module__))
    named = re.search(r"lhotse\.recipes\.(\w+) import", wrapper)
    name = named[1] if named else command.callback.__module__.rpartition(".")[2]
    return inspect.getsource(importlib.import_module(f"lhotse.recipes.{name}"))


def test_every_recipe_is_classified(commands: dict[str, Any]) -> None:
    assert list(RECIPES) == sorted(commands)
    found = {name: arguments_of(command) for name, command in commands.items()}
    assert {name: [*recipe.arguments] for name, recipe in RECIPES.items()} == {
        name: arguments[:-1] for name, arguments in found.items()
    }
    assert {arguments[-1] for arguments in found.values()} == {"OUTPUT_DIR", "MANIFEST_DIR"}
    kinds = {name: recipe.use.partition(" ")[0].rstrip(";:") for name, recipe in RECIPES.items()}
    assert set(kinds.values()) == {"works", "needs", "not"}
    plain = {name for name, recipe in RECIPES.items() if kinds[name] == "works"}
    assert plain == {
        name for name, arguments in found.items() if arguments[0] == "CORPUS_DIR" and len(arguments) == 2
    } - {name for name, recipe in RECIPES.items() if recipe.refused or recipe.needs}


def test_options_that_a_recipe_needs_exist(commands: dict[str, Any]) -> None:
    for name, recipe in RECIPES.items():
        options = {text for one in commands[name].params for text in one.opts}
        assert options.issuperset(re.findall(r"--[a-z0-9-]+", f"{recipe.needs} {recipe.remark}")), name
        assert ("--absolute-paths" in options) == recipe.has_absolute_paths, name
        required = [one.name for one in commands[name].params if one.required and one.param_type_name == "option"]
        assert required == [], name


def test_languages_are_those_of_the_recipes(commands: dict[str, Any]) -> None:
    """Those that a recipe names as they are; each of them has a code."""
    for name, recipe in RECIPES.items():
        for language in re.findall(r'language="(\w[^"]*)"', source_of(commands[name])):
            assert language_code(language), language
            words = {"yue": "Cantonese", "en": "English", "Singaporean English": "English"}
            assert words.get(language, language).lower() in recipe.languages.lower(), name


def test_what_writes_no_pairs_is_refused_or_has_cuts(commands: dict[str, Any]) -> None:
    unpaired = {
        name for name, command in commands.items() if not re.search(r"_recordings|recordings_", source_of(command))
    }
    refused = {name for name, recipe in RECIPES.items() if recipe.refused}
    assert unpaired - refused - {"emilia"} == set()


def test_the_list_and_wrong_names() -> None:
    listed = prepcli("download", "--list", "--json").json["corpora"]
    of_lhotse = [one["name"] for one in listed if one["recipe"] == "lhotse"]
    assert of_lhotse == [f"lhotse {name}" for name, recipe in RECIPES.items() if not recipe.refused]
    assert "did you mean ljspeech?" in prepcli("download", "lhotse", "LJ-Speech", "x", "--data-root", "d").error_line
    refused = prepcli("download", "lhotse", "musan", "x", "--data-root", "d")
    assert (refused.code, "is not for manifests: it has no speech" in refused.error_line) == (2, True)
