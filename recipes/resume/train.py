"""A toy training run over a Shar set with indexes, which continues in the middle of an epoch after it was killed.

    python recipes/resume/train.py SHAR WORK [--epochs 2] [--kill-after BATCHES]

The model is a table of how often it has seen each cut, and the mean loudness of their audio. It is saved with the place
in the data after each batch. Run again, the script continues with the next batch: at the end each cut was seen once
per epoch. Needs lhotse 2, which scripts/setup.sh installs in .venv/lhotse2.
"""

import argparse
import os
import pickle
import signal
import sys
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, os.environ.get("LHOTSE_2", str(Path(sys.prefix) / "lhotse2")))

import numpy as np
from lhotse import CutSet

BATCH_SIZE = 3


def read_cuts(shar: Path, epoch: int) -> Any:
    """The cuts in the order of an epoch; the indexes are in SHAR/index, under the absolute paths of the data."""
    root = shar.absolute()
    fields = {name: sorted(map(str, (root / name).iterdir())) for name in ("cuts", "recording")}
    return CutSet.from_shar(
        fields=fields, indexed=True, indexes_root=str(root / "index"), shuffle_shards=True, seed=epoch
    )


def train(shar: Path, work: Path, epochs: int, kill_after: int | None) -> dict[str, Any]:
    """Train for `epochs`, from the checkpoint if there is one; `kill_after` so many batches of this run."""
    checkpoint = work / "checkpoint.pickle"
    model: dict[str, Any] = {"seen": {}, "loudness": 0.0, "steps": 0}
    first_epoch, place = 0, None
    if checkpoint.exists():
        model, first_epoch, place = pickle.loads(checkpoint.read_bytes())
        print(f"continues in epoch {first_epoch} after {model['steps']} batches", flush=True)
    for epoch in range(first_epoch, epochs):
        cuts = read_cuts(shar, epoch)
        if place is not None:
            cuts.load_state_dict(place)  # the next cut is found by a seek
        stream = iter(cuts)
        while batch := list(islice(stream, BATCH_SIZE)):
            step(model, batch)
            save(checkpoint, (model, epoch, cuts.state_dict()))
            if kill_after is not None:
                kill_after -= 1
                if kill_after <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        place = None
        save(checkpoint, (model, epoch + 1, place))
    return model


def step(model: dict[str, Any], batch: list[Any]) -> None:
    """Train with a batch of cuts."""
    for cut in batch:
        model["seen"][cut.id] = model["seen"].get(cut.id, 0) + 1
        loudness = float(np.sqrt(np.mean(np.square(cut.load_audio()))))
        model["loudness"] += (loudness - model["loudness"]) / sum(model["seen"].values())
    model["steps"] += 1


def save(path: Path, content: object) -> None:
    """Write the checkpoint at once: the model and the place in the data belong together."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(pickle.dumps(content))
    os.replace(draft, path)


def main() -> None:
    """Train, and say how often the cuts were seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shar", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--kill-after", type=int, metavar="BATCHES", help="kill this process after so many batches")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    model = train(arguments.shar, arguments.work, arguments.epochs, arguments.kill_after)
    times = sorted(set(model["seen"].values()))
    print(f"{len(model['seen'])} cuts, each seen {' or '.join(map(str, times))} times in {model['steps']} batches")
    print(f"mean loudness {model['loudness']!r}")


if __name__ == "__main__":
    main()
