"""A hook of mkdocs: adds other pages, notebooks and their pictures, and translates what GitHub shows differently."""

import html
import os
import re
from pathlib import Path

import nbconvert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code_of_conduct.md",
    "benchmarks/README.md": "benchmarks.md",
    "recipes/magpietts/README.md": "recipes/magpietts.md",
    "scripts/slurm/README.md": "scripts/slurm.md",
}
"""Page of the repository -> its path in the site."""
NOTEBOOKS = tuple(f"examples/{path.stem}.md" for path in sorted(ROOT.glob("docs/examples/*.ipynb")))
CODE_WITH_PIPES = re.compile(r"`([^`]*\\\|[^`]*)`")
LINK = re.compile(r"\[([^\]]+)\]\(([^):#]*)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs/`, and a page in the place of each notebook."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for target in NOTEBOOKS:
        book = target.replace(".md", ".ipynb")
        files.remove(files.src_uris[book])
        names = {"unique_key": Path(book).stem}  # begins the names of its pictures, which lie in the same folder
        text, found = nbconvert.MarkdownExporter().from_filename(str(ROOT / "docs" / book), resources=names)
        files.append(File.generated(config, target, content=text))
        for name, content in found["outputs"].items():
            files.append(File.generated(config, f"examples/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    r"""Translate links between files of the repository, and `a\|b` in tables.

    Links to files that are not in the site become text.
    """
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["toc"]  # its place is for long lines of code
    in_site = {os.path.realpath(str(file.abs_src_path)): file.src_uri for file in files if file.abs_src_path}
    in_site |= {str(ROOT / "docs" / book.replace(".md", ".ipynb")): book for book in NOTEBOOKS}
    folder = (Path(page.file.abs_src_path) if page.file.abs_src_path else ROOT / "docs" / page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if not target:
            return found[0]
        uri = in_site.get(os.path.realpath(folder / target))
        if uri is None:
            return _as_code(text) if (folder / target).exists() else found[0]
        return f"[{text}]({os.path.relpath(uri, os.path.dirname(page.file.src_uri) or '.')}{anchor})"

    lines = LINK.sub(link, markdown).split("\n")
    return "\n".join(CODE_WITH_PIPES.sub(_code, line) if line.startswith("|") else line for line in lines)


def _as_code(text: str) -> str:
    return text if "`" in text else f"`{text}`"


def _code(found: re.Match[str]) -> str:
    return f"<code>{html.escape(found[1]).replace(chr(92) + '|', '&#124;')}</code>"
