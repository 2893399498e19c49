"""The figures of `gpu.py`: written to gpu.json and gpu.md after every step, so that nothing is lost at the end."""

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """A value and its unit; `good` says whether it is what `wanted` asks for, None where nothing is asked."""

    step: str
    what: str
    value: float | str
    unit: str = ""
    wanted: str = ""
    good: bool | None = None


@dataclass
class Bench:
    """What the steps share: where they run and how large, and what they have found.

    Attributes:
        out: where the report goes, and nothing else.
        work: where models, audio and the outputs of commands go.
        device: "cuda:0", or "cpu" in a dry run.
        is_dry: everything small, and no speed is judged.
        deadline: of `time.monotonic`.
    """

    out: Path
    work: Path
    device: str
    is_dry: bool
    deadline: float
    machine: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, list[tuple[str, int, float]]] = field(default_factory=dict)
    step: str = ""

    def add(self, what: str, value: float | str, unit: str = "") -> None:
        """A figure that nothing is asked of."""
        self.figures.append(Figure(self.step, what, value, unit))

    def check(self, what: str, good: bool, value: float | str = "", unit: str = "", wanted: str = "") -> None:
        """A figure that must be `good`."""
        self.figures.append(Figure(self.step, what, value, unit, wanted or "yes", good))

    def judge_speed(self, what: str, value: float, at_least: float, unit: str = "x") -> None:
        """A speed that a GPU should reach; a dry run only shows that it can be measured."""
        good = None if self.is_dry else value >= at_least
        self.figures.append(Figure(self.step, what, round(value, 3), unit, f">= {at_least:g}", good))

    def run(self, step: Callable[["Bench"], None], needs: float) -> None:
        """Do a step if there are `needs` seconds left, and write the report; an error ends only the step."""
        self.step = (step.__doc__ or step.__name__).split("\n")[0].rstrip(".")
        begun = time.monotonic()
        if not self.is_dry and self.deadline - begun < needs:
            self.figures.append(Figure(self.step, "left out: too little time", round(needs), "s needed"))
        else:
            print(f"{self.step} ...", flush=True)
            try:
                step(self)
            except Exception:
                traceback.print_exc()
                last = traceback.format_exc().strip().splitlines()[-1]
                self.check("failed with an error", False, last[:200])
        self.seconds[self.step] = round(time.monotonic() - begun, 1)
        self.write()

    @property
    def has_failed(self) -> bool:
        """Whether something is not as it must be."""
        return any(figure.good is False for figure in self.figures)

    def write(self) -> None:
        """Write both reports."""
        content = {
            "machine": self.machine,
            "dry_run": self.is_dry,
            "good": not self.has_failed,
            "seconds": self.seconds,
            "figures": [asdict(figure) for figure in self.figures],
            "kernels": self.kernels,
        }
        (self.out / "gpu.json").write_text(json.dumps(content, indent=1) + "\n")
        (self.out / "gpu.md").write_text(self.table())

    def table(self) -> str:
        """The figures and the longest kernels in Markdown."""
        lines = [f"{name}: {text}  " for name, text in self.machine.items()]
        lines += ["", "| step | what | value | wanted | |", "|---|---|---|---|---|"]
        for one in self.figures:
            value = f"{one.value:g}" if isinstance(one.value, float) else str(one.value)
            mark = {True: "good", False: "**not good**", None: ""}[one.good]
            lines.append(f"| {one.step} | {one.what} | {value} {one.unit} | {one.wanted} | {mark} |")
        for what, kernels in self.kernels.items():
            lines += ["", f"{what}:", "", "| kernel | times | ms |", "|---|---|---|"]
            lines += [f"| `{name}` | {count} | {ms:g} |" for name, count, ms in kernels]
        return "\n".join(lines) + "\n"
