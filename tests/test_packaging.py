"""The files that describe the package to others agree with the package."""

import re
from pathlib import Path

import pytest
import yaml

from prepcli.version import __version__

ROOT = Path(__file__).parents[1]
RECIPES = {"Dockerfile": r"^COPY (.+) \S+$", "prepcli.def": r"^ {4}(\S+) /opt/prepcli/\S+$"}
"""Recipes of container images, each with the lines that copy files of the repository."""


def test_the_citation_has_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["license"] == "Apache-2.0"


@pytest.mark.parametrize("name", RECIPES)
def test_container_images_have_what_the_build_needs(name: str) -> None:
    recipe = (ROOT / "containers" / name).read_text()
    copied = {path for line in re.findall(RECIPES[name], recipe, re.MULTILINE) for path in line.split()}
    assert copied == {"pyproject.toml", "README.md", "LICENSE", "prepcli"}
    assert all((ROOT / path).exists() for path in copied)


def test_the_docker_context_holds_what_the_image_needs() -> None:
    kept = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert kept == {"pyproject.toml", "README.md", "LICENSE", "prepcli"}


def test_the_workflow_calls_what_is_run_by_hand() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert {"run": "bash .ci/run"} in workflow["jobs"]["all"]["steps"]
