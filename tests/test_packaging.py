"""The files that describe the package to others agree with the package."""

import os
import re
import subprocess
import sys
import tarfile
import warnings
import zipfile
from email.parser import Parser
from functools import partial
from pathlib import Path

import pytest
import yaml

from prepcli.version import __version__
from tests.commands.inspect.test_page import browse
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


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_run_fixed_commits_and_may_only_read(path: Path) -> None:
    text = path.read_text()
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    used = re.findall(r"^ *(?:- )?uses: (.+)$", text, re.MULTILINE)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+|\./\.github/workflows/ci\.yml", action), action


def test_the_matrix_has_the_pythons_that_the_package_names() -> None:
    described = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', described)
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["matrix"]["strategy"]["matrix"]
    assert matrix["python"] == named
    assert f'requires-python = ">={named[0]}"' in described


def test_the_checks_before_a_commit_are_those_of_the_script() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    script = (ROOT / "scripts/test.sh").read_text()
    for hook in hooks:
        command = hook["entry"].replace(".venv/bin/python", '"$python"')
        assert command == "bash scripts/test.sh" or command in script, hook
    steps = re.findall(r'^ *step "?([a-z ]+?)"? (?:"\$python"|shellcheck)', script, re.MULTILINE)
    steps += ["mypy"] if " step mypy " in script else []
    assert sorted(steps) == sorted(hook["name"] for hook in hooks if "stages" not in hook)


def test_a_deprecation_in_our_code_is_an_error_and_one_of_others_is_not() -> None:
    warn = partial(warnings.warn_explicit, "this goes", filename="some.py", lineno=1)
    for kind in (DeprecationWarning, PendingDeprecationWarning):
        with pytest.raises(kind):
            warn(category=kind, module="prepcli.audio.read")
    warn(category=DeprecationWarning, module="soundfile")


def pages_of_docs() -> list[Path]:
    return [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/examples").glob("*.ipynb")]


def test_the_site_of_the_docs_has_all_pages() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"[\w/]+\.md", str(site["nav"])))
    hook = (ROOT / "scripts/docs_site.py").read_text()
    added = dict(re.findall(r'^    "(.+\.md)": "(.+\.md)",$', hook, re.MULTILINE))
    assert all((ROOT / source).exists() for source in added)
    pages = {str(page.relative_to(ROOT / "docs").with_suffix(".md")) for page in pages_of_docs()}
    assert listed == pages | set(added.values())


def test_the_site_of_the_docs_is_built_without_warnings(tmp_path: Path) -> None:
    for package in ("material", "mkdocstrings", "nbconvert"):
        need_package(package)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    # The theme announces its successor unless told not to.
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    index = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert 'href="shards.html"' in index
    assert 'id="prepcli.functions.verify"' in (tmp_path / "site/api.html").read_text(encoding="utf-8")
    assert "data:audio/" in (tmp_path / "site/examples/magpie.html").read_text(encoding="utf-8")
    # Nothing is loaded from the network.
    loaded = re.findall(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:)?//', index)
    assert loaded == []
    plots = re.findall(r'<img [^>]*src="(.+?)"', (tmp_path / "site/training_configs.html").read_text(encoding="utf-8"))
    assert len(plots) == 2
    assert all((tmp_path / "site" / plot).is_file() for plot in plots)
    # The search works in a page that is opened as a file.
    page = tmp_path / "site/search.html"
    page.write_text('<meta http-equiv="refresh" content="0; url=shards.html?q=keep-files-together">')
    found = browse(page, "--virtual-time-budget=60000", "--dump-dom")
    assert re.search(r'class="md-search-result__meta">\s*\d+ matching document', found)


@pytest.mark.slow
def test_a_worker_runs_in_a_page_that_is_opened_as_a_file(tmp_path: Path) -> None:
    """Chromium refuses it without the script that the site has for its search."""
    (tmp_path / "worker.js").write_text("addEventListener('message', (e) => postMessage(e.data + ' and back'));")
    use = "w = new Worker('worker.js'); w.addEventListener('message', (e) => document.title = e.data); "
    for name, script in (("with", (ROOT / "docs/iframe-worker.js").read_text()), ("without", "")):
        (tmp_path / f"{name}.html").write_text(
            f"<title>-</title><script>{script}\n{use}w.postMessage('there')</script>"
        )
    options = ("--virtual-time-budget=60000", "--dump-dom")
    assert "<title>there and back</title>" in browse(tmp_path / "with.html", *options)
    assert "<title>-</title>" in browse(tmp_path / "without.html", *options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of the source distribution, as a package index would have it."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, "sdist", folder)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    build(folder / archive.name.removesuffix(".tar.gz"), "wheel", folder)
    [built] = folder.glob("*.whl")
    return built


def build(source: Path, kind: str, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_wheel_of_the_source_distribution_has_every_file_of_the_package(wheel: Path) -> None:
    kept = [path for path in (ROOT / "prepcli").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {str(path.relative_to(ROOT)): path.read_bytes() for path in kept}
    assert {"prepcli/py.typed", "prepcli/functions.py"} <= set(packed)


@pytest.mark.slow
@pytest.mark.torch
def test_what_the_wheel_says_of_itself(wheel: Path) -> None:
    folder = f"prepcli-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        assert b"prepcli = prepcli.__main__:main" in archive.read(f"{folder}/entry_points.txt")
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    links = [link.partition(", ")[::2] for link in metadata.get_all("Project-URL", [])]
    assert {label for label, _ in links} == {"Reader: NeMo", "Reader: Lhotse", "Reader: WeNet"}
    assert all(address.startswith("https://") for _, address in links)
    without_extras = [one for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one]
    # What a login node can do without: some 5 GB.
    assert not [one for one in without_extras if re.match("torch|nemo|lhotse|matplotlib", one)]
    extras = {"models", "nemo", "lhotse", "s3", "parquet", "plot", "hf", "basic", "score", "av", "dask", "ray"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras | {"all"}
    needs = [re.split(r";? extra == ", one)[::-1] for one in metadata.get_all("Requires-Dist", []) if "extra ==" in one]
    apart = ("'all'", "'dask'", "'ray'", "'av'")  # a cluster has its own, and all nodes need the same decoder
    assert {need for extra, need in needs if extra == "'all'"} == {need for extra, need in needs if extra not in apart}
    # It has no wheel for its requirement webrtcvad.
    assert "resemblyzer" not in str(metadata).lower().partition("\n\n")[0]


def test_the_extras_that_messages_recipes_and_docs_name_are_there() -> None:
    listed = (ROOT / "pyproject.toml").read_text()
    files = [*ROOT.glob("prepcli/**/*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("recipes/*/run.sh"), ROOT / "README.md"]
    named = {
        name
        for path in files
        for names in re.findall(
            r"prepcli\[([a-z0-9,-]+)\]|extra `?([a-z0-9-]+)`?\)|'\.\[([a-z0-9,-]+)\]'|^set_up (\S+)",
            path.read_text(),
            re.M,
        )
        for name in "".join(names).split(",")
    }
    assert {"models", "nemo", "s3", "dev"} < named
    assert [name for name in named - {"none"} if f"\n{name} = [" not in listed] == []


@pytest.mark.slow
def test_the_wheel_runs_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "import prepcli, sys; print(prepcli.__file__); from prepcli.__main__ import main; main()"
    environ = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", code, "--version"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(tmp_path / "site/prepcli/__init__.py"), "prepcli", __version__], done.stderr
