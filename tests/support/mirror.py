"""`python -m tests.support.mirror`: the modules with logic of their own that no test file is named after.

`prepcli/a/b.py` has `tests/a/test_b.py`; the parts of a command may have their tests in its `test_command.py`.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIN_STATEMENTS = 30
"""Modules with fewer statements in functions are tested by what uses them."""


def num_statements(module: Path) -> int:
    """The statements in the functions of a module, without docstrings, options and tables."""
    functions = [one for one in ast.walk(ast.parse(module.read_text())) if isinstance(one, ast.FunctionDef)]
    inner = {part for one in functions for part in ast.walk(one) if isinstance(part, ast.stmt) and part is not one}
    return sum(not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)) for one in inner)


def modules() -> dict[str, bool]:
    """The modules with logic, and whether a test file is named after each."""
    found = {}
    for module in sorted(ROOT.glob("prepcli/**/*.py")):
        path = module.relative_to(ROOT / "prepcli")
        if num_statements(module) >= MIN_STATEMENTS:
            places = [path.with_name(f"test_{path.name}")]
            if path.parts[0] == "commands" and path.stem in ("job", "command"):
                places.append(path.with_name("test_command.py"))
            found[str(path)] = any((ROOT / "tests" / place).exists() for place in places)
    return found


if __name__ == "__main__":
    found = modules()
    without = [name for name, has_tests in found.items() if not has_tests]
    print(*without, sep="\n")
    print(f"{len(found) - len(without)} of {len(found)} modules with logic have a test file of their name")
