#!/usr/bin/env python3
"""Prints the size and the shape of Python packages, counted in the same way: `scripts/structure.py prepcli FOLDER...`.

code: lines without comments, docstrings and blank lines. units: packages and modules directly in the package that
import others of them. arrows: pairs of units of which one imports the other, by absolute imports. in cycles: units that
reach themselves. longest: lines of the longest module.
"""

import ast
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_HEAD = ("package", "modules", "lines", "code", "longest", "units", "arrows", "in cycles")


def row_of(package: Path) -> list[str]:
    """The figures of a package, as texts in the order of the head."""
    modules = sorted(package.rglob("*.py"))
    arrows: dict[str, set[str]] = defaultdict(set)
    lines = [len(module.read_text(encoding="utf-8").splitlines()) for module in modules]
    for module in modules:
        unit = module.relative_to(package).with_suffix("").parts[0]
        arrows[unit] |= imported(module, package.name) - {unit}
    units = {unit for unit, others in arrows.items() if others}
    cycles = sum(unit in reached(unit, arrows) for unit in units)
    counts = (
        sum(lines),
        sum(map(num_code_lines, modules)),
        max(lines),
        len(units),
        sum(map(len, arrows.values())),
        cycles,
    )
    return [package.name, f"{len(modules):,}", *(f"{count:,}" for count in counts)]


def num_code_lines(module: Path) -> int:
    """The number of lines of a module that hold code."""
    docs: set[int] = set()
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docs |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    used: set[int] = set()
    with tokenize.open(module) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type not in _NO_CODE:
                used |= set(range(token.start[0], token.end[0] + 1))
    return len(used - docs)


def imported(module: Path, package: str) -> set[str]:
    """The units of the package that a module imports."""
    names: list[str] = []
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith(f"{package}.")}


def reached(unit: str, arrows: dict[str, set[str]]) -> set[str]:
    """The units that a unit imports, directly or by others."""
    found: set[str] = set()
    left = [unit]
    while left:
        new = arrows.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def main(packages: list[str]) -> None:
    """Print a table with a row for each package."""
    rows = [list(_HEAD), *(row_of(Path(package)) for package in packages)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    main(sys.argv[1:] or ["prepcli"])
