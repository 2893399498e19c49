"""The files that describe the package to others agree with the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from prepcli.version import __version__
from tests.support.tools import need_package

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


def test_the_site_of_the_docs_has_all_pages() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"[\w/]+\.md", str(site["nav"])))
    hook = (ROOT / "scripts/docs_site.py").read_text()
    added = dict(re.findall(r'^    "(.+\.md)": "(.+\.md)",$', hook, re.MULTILINE))
    assert all((ROOT / source).exists() for source in added)
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} | set(added.values())


def test_the_site_of_the_docs_is_built_without_warnings(tmp_path: Path) -> None:
    need_package("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    # The theme announces its successor unless told not to.
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    index = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert 'href="shards.html"' in index
    # Nothing is loaded from the network.
    loaded = re.findall(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:)?//', index)
    assert loaded == []
