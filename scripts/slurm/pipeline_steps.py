"""Reads a pipeline's CONFIG.yaml and prints its steps, one per line, every word quoted for the shell.

    python pipeline_steps.py CONFIG.yaml [DATA_SET ...]

A line: DATA_SET STEP cpu|gpu [SBATCH OPTIONS] -- prepcli|python ARGUMENTS. Needs PyYAML and nothing else, because it
also runs where jobs are submitted.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import yaml
except ImportError:
    sys.exit(f"{sys.executable} has no PyYAML: name a Python that has it as SUBMIT_PYTHON in cluster.env")

GPU_COMMANDS = ("extend-context-audio", "extend-codec-codes", "manifest-to-mels", "estimate-batch-sizes")
"""Commands that use GPUs: they run on the GPU partition, unless the step says `on: cpu`; so does `find-duplicates` with
`--speaker-model`."""
_FIELDS = {"audio_base_dir": "where relative paths start; give the manifest's folder if they start there"}
"""Fields whose purpose is told where they are missing."""
_EXAMPLES = {"command": "prepcli score {manifest} {out}", "sbatch": "--ntasks=2 --time=1:00:00"}
_STEP_KEYS = {"name", "command", "on", "sbatch", "if"}


class ConfigError(Exception):
    """The file has a mistake; the message says where."""


def steps_of(config_file: Path, wanted: list[str]) -> Iterator[list[str]]:
    """The words of each line, data set by data set, in the order of the file.

    Raises:
        ConfigError: the file is not a pipeline, a field is missing, or a data set is unknown.
    """
    try:
        config = yaml.safe_load(config_file.read_text(encoding="utf-8"))
    except OSError as error:
        place = "" if config_file.is_absolute() else f" (in {Path.cwd()})"
        raise ConfigError(f"{error.strerror or error}{place}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict) or not config.get("data_sets") or not config.get("steps"):
        raise ConfigError("needs data_sets: and steps:, each a list")
    data_sets = {_name(data_set, "data_sets"): data_set for data_set in config["data_sets"]}
    if len(data_sets) < len(config["data_sets"]):
        raise ConfigError("two data sets have the same name")
    unknown = [name for name in wanted if name not in data_sets]
    if unknown:
        raise ConfigError(f"has no data set {unknown[0]}; there are {', '.join(data_sets)}")
    for step in config["steps"]:
        _name(step, "steps")
    common = {"repository": str(Path(__file__).absolute().parents[2]), **(config.get("defaults") or {})}
    for name in wanted or data_sets:
        fields = {**common, **data_sets[name]}
        names = set()
        for step in config["steps"]:
            if fields.get(step.get("if", "name")):
                if step["name"] in names:
                    raise ConfigError(f"two steps of {name} have the name {step['name']}: so would their jobs and logs")
                names.add(step["name"])
                yield [name, *_words(step, fields)]


def _words(step: dict[Any, Any], fields: dict[str, Any]) -> list[str]:
    name = step["name"]
    step = {"on" if key is True else key: value for key, value in step.items()}  # YAML reads the word on as true
    unknown = set(step) - _STEP_KEYS
    if unknown:
        raise ConfigError(f"step {name} has unknown keys: {', '.join(sorted(map(str, unknown)))}")
    for key in ("command", "sbatch"):
        if not isinstance(step.get(key, ""), str):
            raise ConfigError(f"{key}: of step {name} is not one text, such as {_EXAMPLES[key]}")
    command = _filled(step.get("command", ""), name, fields)
    if command[:1] not in (["prepcli"], ["python"]):
        raise ConfigError(f"the command of step {name} must begin with prepcli or python")
    on = step.get("on", "gpu" if _uses_gpus(command) else "cpu")
    if on not in ("cpu", "gpu"):
        raise ConfigError(f"step {name} can be on: cpu or on: gpu, not {on}")
    return [name, on, *_filled(step.get("sbatch", ""), name, fields), "--", *command]


def _uses_gpus(command: list[str]) -> bool:
    if command[1:2] == ["find-duplicates"]:
        return any(word.partition("=")[0] == "--speaker-model" for word in command)
    return not set(command[1:2]).isdisjoint(GPU_COMMANDS)


def _filled(template: str, step: str, fields: dict[str, Any]) -> list[str]:
    """The words of the template with `{field}` filled in; a value never splits its word.

    If an empty field is a whole word, or the value of an `--option=`, the word is left out.
    """
    try:
        split = shlex.split(template)
    except ValueError as error:
        raise ConfigError(f"the command of step {step}: {error}") from None
    words = []
    for word in split:
        try:
            filled = word.format_map({key: "" if value is None else value for key, value in fields.items()})
        except KeyError as error:
            name = error.args[0]
            what = f" ({_FIELDS[name]})" if name in _FIELDS else ""
            raise ConfigError(
                f"step {step} needs the field {name}{what}, which neither data set {fields['name']} nor defaults has"
            ) from None
        except (ValueError, IndexError, AttributeError):
            raise ConfigError(f"step {step}: {word} is not a template; write {{{{ and }}}} for braces") from None
        if filled != word and (not filled or re.fullmatch(r"--[a-z-]+=", filled)):
            continue
        words.append(filled)
    return words


def _name(item: Any, where: str) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ConfigError(f"each of {where} needs a name of letters, digits, '.', '_' and '-', not {name!r}")
    return name


def main() -> None:
    """Print the steps, or one line that says what is wrong."""
    config_file = Path(sys.argv[1])
    try:
        for words in list(steps_of(config_file, sys.argv[2:])):
            if any("\n" in word for word in words):
                raise ConfigError(f"step {words[1]} of {words[0]} has a line break in a word")
            print(shlex.join(words))
    except ConfigError as error:
        sys.exit(f"submit_pipeline.sh: {config_file}: {error}")


if __name__ == "__main__":
    main()
