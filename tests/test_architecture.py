"""The modules of prepcli import each other in one direction: no cycles, no package imports one above it."""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

import prepcli
from prepcli.interface.commands import COMMANDS

ROOT = Path(prepcli.__file__).parent
Graph = dict[str, set[str]]

LAYERS = (
    ("__main__",),
    ("cli",),
    ("prepcli",),
    ("functions",),
    ("commands",),
    ("jobs",),
    ("models",),
    ("tokenizers",),
    ("manifest", "audio"),
    ("formats",),
    ("planning",),
    ("engine",),
    ("interface",),
    ("storage",),
    ("processes",),
    ("gate",),
    ("errors", "version"),
)
"""Packages, and modules directly in `prepcli/`, from top to bottom. Each may import only those of lower rows.

`prepcli` is `prepcli/__init__.py`. It and `functions` know commands by name only, and load a command when it is called.
"""
_PUBLISHED = "prepcli.commands.download.published."
_BUCKETS = re.compile(r"bucket(\*|\[0|\(?\\d)")
_ENTRY = re.compile(r"""["']type["']\]?(:| =) ["'](nemo_tarred|lhotse_shar)""")
SPEECH = {"audio", "formats", "manifest", "models", "tokenizers"}


def test_no_cycle_between_modules() -> None:
    assert cycles(module_graph()) == []


def test_no_cycle_between_packages() -> None:
    assert cycles(package_graph(module_graph())) == []


def test_every_package_has_a_layer() -> None:
    listed = [name for layer in LAYERS for name in layer]
    assert len(listed) == len(set(listed))
    assert set(package_graph(module_graph())) == set(listed), "add new packages to LAYERS"


def test_imports_point_downward() -> None:
    level: dict[str, float] = defaultdict(lambda: float("nan"))  # a package without a layer fails the test above
    level |= {name: number for number, layer in enumerate(LAYERS) for name in layer}
    upward = [
        f"{module} imports {found}"
        for module, imported in module_graph().items()
        for found in imported
        if package_of(module) != package_of(found) and level[package_of(module)] >= level[package_of(found)]
    ]
    assert upward == []


def test_the_engine_knows_nothing_of_speech() -> None:
    packages = package_graph(module_graph())
    assert packages["engine"] & (SPEECH | {"commands", "jobs"}) == set()


def test_the_published_corpora_are_commands_that_nothing_imports() -> None:
    importing = {
        module
        for module, imported in module_graph().items()
        for found in imported
        if found.startswith(_PUBLISHED) and not module.startswith(_PUBLISHED)
    }
    assert importing == set()


@pytest.mark.parametrize(
    ("pattern", "module"), [(_BUCKETS, "prepcli.formats.tarred"), (_ENTRY, "prepcli.formats.training_config")]
)
def test_one_module_names_the_folders_of_buckets_and_one_makes_entries(pattern: re.Pattern[str], module: str) -> None:
    assert [name for name, path in modules().items() if pattern.search(path.read_text())] == [module]


def test_nemo_is_imported_in_models_only() -> None:
    importing = {
        package_of(module)
        for module, imported in imports().items()
        for name in imported
        if name.split(".")[0] == "nemo"
    }
    assert importing == {"models"}


def test_helpers_of_tests_lie_in_their_folder() -> None:
    found = {path.name for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")}
    assert found == {"__init__.py", "conftest.py"}, "move modules that many tests use to tests/support/"


def test_commands_that_run_models_have_an_option_for_devices() -> None:
    """Only these may start the threads of BLAS (`prepcli.cli.app`)."""
    running = {f"prepcli.{name}" for name in ("models.devices", "models.running", "models.training", "jobs.model_job")}
    found = {module for module, imported in module_graph().items() if imported & running}
    packages = {".".join(name.split(".")[2:-1]) for name in found if name.startswith("prepcli.commands.")}
    assert packages == {command.package for command in COMMANDS if command.runs_models()}


def test_a_cycle_is_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d", "a"}}) == [{"b", "c"}]


def test_imports_in_functions_count_and_those_for_types_do_not() -> None:
    source = """
import one.two
from three import four
from five import six
if TYPE_CHECKING:
    import seven
else:
    import eight
def function():
    from nine import ten
"""
    names = set(imported_names(ast.parse(source), {"three.four"}))
    assert names == {"one.two", "three.four", "five", "eight", "nine"}


def modules() -> dict[str, Path]:
    """The source of each module, by the module's full name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@lru_cache
def module_graph() -> Graph:
    """For each module the modules of prepcli that it imports, in functions too."""
    return {module: imported.intersection(imports()) - {module} for module, imported in imports().items()}


@lru_cache
def imports() -> Graph:
    """For each module all modules that it imports, those of other projects too; made once, it takes a second."""
    sources = modules()
    return {module: set(imported_names(ast.parse(path.read_text()), sources)) for module, path in sources.items()}


def package_graph(graph: Mapping[str, set[str]]) -> Graph:
    """The imports between the packages directly below `prepcli`."""
    packages: Graph = {}
    for module, imported in graph.items():
        here = package_of(module)
        packages.setdefault(here, set()).update(package_of(name) for name in imported if package_of(name) != here)
    return packages


def package_of(module: str) -> str:
    """`prepcli.engine.state.plan` -> `engine`; `prepcli` for `prepcli/__init__.py`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def imported_names(node: ast.AST, known: Collection[str] = ()) -> Iterator[str]:
    """The modules imported below a node, except in `if TYPE_CHECKING:`.

    `from a import b` imports `a.b` if that is one of the `known` modules, else `a`.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from imported_names(ast.Module([other], []), known)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                name = f"{child.module}.{alias.name}"
                yield name if name in known else str(child.module)
        else:
            yield from imported_names(child, known)


def cycles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of nodes that reach each other."""
    reach = {node: reachable(graph, node) for node in graph}
    found: list[set[str]] = []
    for node in graph:
        group = {other for other in reach[node] if node in reach[other]}
        if len(group) > 1 and group not in found:
            found.append(group)
    return found


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """All nodes to which a path of at least one step leads from `start`."""
    found: set[str] = set()
    open_nodes = [start]
    while open_nodes:
        for name in graph[open_nodes.pop()]:
            if name not in found:
                found.add(name)
                open_nodes.append(name)
    return found
