"""`python -m tests.support.mirror`: the test file of each module with logic of its own.

`prepcli/a/b.py` has `tests/a/test_b.py`; a module of a command may be tested by its `test_command.py` or `test_job.py`.
"""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIN_STATEMENTS = 30
"""Modules with fewer statements in functions are tested by what uses them."""
ELSEWHERE = {
    "commands/download/report.py": "commands/download/test_job.py",
    "commands/find_duplicates/keys.py": "commands/find_duplicates/test_command.py",
    "commands/fix_durations/durations.py": "commands/fix_durations/test_command.py",
    "commands/make_manifest/planning.py": "commands/make_manifest/test_job.py",
    "commands/make_manifest/recordings.py": "commands/make_manifest/test_job.py",
    "commands/manifest_to_tarred/own_options.py": "commands/manifest_to_tarred/test_command.py",
    "commands/manifest_to_tarred/present.py": "commands/manifest_to_tarred/test_command.py",
    "commands/prepare_texts/texts.py": "commands/prepare_texts/test_command.py",
    "commands/split/planning.py": "commands/split/test_command.py",
    "commands/status/command.py": "engine/run/test_status.py",
    "engine/run/chain.py": "commands/status/test_account.py",
    "engine/run/function.py": "commands/score/test_command.py",
    "formats/parquet.py": "commands/exports/parquet/test_job.py",
    "formats/tarred.py": "commands/manifest_to_tarred/test_command.py",
    "formats/wenet.py": "commands/exports/wenet/test_job.py",
    "interface/command.py": "api/test_api.py",
    "jobs/inputs/shar.py": "jobs/inputs/test_matrix.py",
    "jobs/inputs/tarred.py": "jobs/inputs/test_matrix.py",
    "jobs/source.py": "commands/score/test_command.py",
    "manifest/texts.py": "commands/estimate_bins/test_tokens.py",
    "models/prompts.py": "commands/estimate_bins/test_two_d_nemo.py",
    "models/ranks.py": "models/test_faults.py",
    "models/training.py": "commands/estimate_batch_sizes/test_steps.py",
    "storage/transfer.py": "commands/download/test_fetch.py",
}
"""Modules whose tests are those of their only user, with its fixtures. A new module gets a file of its own."""


def num_statements(module: Path) -> int:
    """The statements in the functions of a module, without docstrings, options and tables."""
    tree = ast.parse(module.read_text())
    places: list[ast.Module | ast.ClassDef] = [tree, *(one for one in tree.body if isinstance(one, ast.ClassDef))]
    functions = (one for place in places for one in place.body if isinstance(one, ast.FunctionDef))
    inner = (part for one in functions for part in ast.walk(one) if isinstance(part, ast.stmt) and part is not one)
    return sum(not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)) for one in inner)


@cache
def test_files() -> dict[str, Path | None]:
    """The test file of each module with logic; None if there is none."""
    found: dict[str, Path | None] = {}
    for module in sorted(ROOT.glob("prepcli/**/*.py")):
        path = module.relative_to(ROOT / "prepcli")
        if num_statements(module) >= MIN_STATEMENTS:
            places = [path.with_name(f"test_{path.name}")]
            if path.parts[0] == "commands":
                places += [path.with_name("test_command.py"), path.with_name("test_job.py")]
            if str(path) in ELSEWHERE:
                places.append(Path(ELSEWHERE[str(path)]))
            found[str(path)] = next((place for place in places if (ROOT / "tests" / place).exists()), None)
    return found


if __name__ == "__main__":
    for module, tests in test_files().items():
        print(f"prepcli/{module}: {f'tests/{tests}' if tests else 'none'}")
