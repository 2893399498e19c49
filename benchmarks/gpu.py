"""All checks on a GPU in one command: correctness first, then speed.

    python benchmarks/gpu.py --minutes 8 --out DIR                  # on a machine with a GPU, PyTorch and NeMo
    python benchmarks/gpu.py --minutes 8 --out DIR --wheels WHEELS  # installs NeMo and lhotse from files first
    python benchmarks/gpu.py --dry-cpu --out DIR                    # all of it small, on a CPU: shows that it runs

Writes DIR/gpu.json and DIR/gpu.md (a table) after every step, and nothing else there; a step for which too little time
is left is left out, and says so. Models have random weights and are made here; nothing is fetched. The exit code is 1
if a check fails.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from gpu_report import Bench  # noqa: E402


def install(wheels: Path, folder: Path) -> None:
    """Unpack wheels where this process and its children import them; what is installed already stays in use."""
    files = sorted(str(path) for path in wheels.glob("*.whl"))
    if not files:
        raise SystemExit(f"--wheels {wheels}: there are no .whl files")
    options = ["--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *files], check=True)
    sys.path.append(str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))


def stand_in_for_wandb(folder: Path) -> None:
    """NeMo's TTS models import wandb, 22 MB that they do not use here: an empty module serves."""
    import importlib.util

    if importlib.util.find_spec("wandb") is None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "wandb.py").write_text("class Image: pass\nclass Audio: pass\nclass Table: pass\n")
        sys.path.append(str(folder))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))


def machine(is_dry: bool) -> dict[str, str]:
    """What the figures were measured on."""
    import torch

    found = {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "processors": str(os.cpu_count()),
    }
    if not is_dry:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        found["gpu"] = done.stdout.strip() or torch.cuda.get_device_name(0)
        found["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    return found


def steps() -> list[tuple[Callable[[Bench], None], float]]:
    """Each step, and the seconds that it needs on a GPU."""
    import gpu_checks as checks
    import gpu_speed as speed

    return [
        (checks.codes, 40),
        (checks.resampling, 10),
        (checks.precisions, 10),
        (checks.speakers, 25),
        (checks.memory, 15),
        (checks.many_values, 40),
        (speed.encoder, 20),
        (speed.shapes, 10),
        (speed.launches, 15),
        (speed.codes_end_to_end, 130),
        (checks.stopping, 80),
        (speed.contexts_end_to_end, 70),
        (speed.mels_end_to_end, 30),
    ]


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """The arguments of this command and of `gpu_variants.py`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--wheels", type=Path, help="folder of wheels to install where there is no network")
    parser.add_argument("--dry-cpu", action="store_true", help="all steps, small and on the CPU")
    return parser


@contextmanager
def prepared(options: argparse.Namespace) -> Iterator[Bench]:
    """Within the context NeMo can be imported, and there is a temporary folder for models, audio and outputs."""
    begun = time.monotonic()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu_") as folder:
        work = Path(folder)
        if options.wheels is not None:
            install(options.wheels, work / "packages")
        stand_in_for_wandb(work / "stand_ins")
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        import torch

        if options.dry_cpu:
            torch.set_num_threads(1)  # commands are forks of this process, and threads do not survive a fork
        elif not torch.cuda.is_available():
            raise SystemExit("there is no GPU that PyTorch can use; --dry-cpu runs all steps small on the CPU")
        device = "cpu" if options.dry_cpu else "cuda:0"
        deadline = begun + 60 * options.minutes
        yield Bench(out, work, device, options.dry_cpu, deadline, machine(options.dry_cpu))


def main(arguments: list[str] | None = None) -> int:
    """Run all steps; returns the exit code."""
    with prepared(parser_of(__doc__).parse_args(arguments)) as bench:
        for step, needs in steps():
            bench.run(step, needs)
        print(bench.table())
        return int(bench.has_failed)


if __name__ == "__main__":
    sys.exit(main())
