"""A child process with a toy in the place of a model: its memory is known, and it starts in a moment.

`FAKE_MODEL` in the environment is a JSON object: `limit` bytes; `base`, `per_second`, `per_square` and `per_token`
bytes; `failure`: what happens above the limit (out_of_memory, kill, exit, hang, cuda_error, device). It notes steps in
`log`.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from prepcli.commands.estimate_batch_sizes.search import BucketResults, DeviceFacts, Step
from prepcli.errors import IncompleteError

VARIABLE = "FAKE_MODEL"


class FakeModel:
    """Memory as a function of durations, tokens and batch size."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.limit = int(settings.get("limit", 10_000_000))
        self.base = int(settings.get("base", 1_000_000))
        self.per_second = float(settings.get("per_second", 9_000))
        self.per_square = float(settings.get("per_square", 300))
        self.per_token = float(settings.get("per_token", 0))
        self.failure = settings.get("failure", "out_of_memory")
        self.device = settings.get("device", "a toy")
        self.log = settings.get("log")

    def per_example(self, duration: float, tokens: int | None) -> int:
        return int(self.per_second * duration + self.per_square * duration**2 + self.per_token * (tokens or 0))

    def peak(self, duration: float, tokens: int | None, size: int) -> int:
        return self.base + size * self.per_example(duration, tokens)

    def fits(self, duration: float, tokens: int | None, size: int) -> bool:
        return self.peak(duration, tokens, size) <= self.limit

    def device_facts(self) -> DeviceFacts:
        return DeviceFacts(self.device, 2 * self.limit, self.limit, "FakeModel")

    def step(self, duration: float, tokens: int | None, size: int) -> Step:
        if self.log:
            with Path(self.log).open("a", encoding="ascii") as file:
                file.write(f"{duration} {tokens} {size} {os.getpid()}\n")
        if self.fits(duration, tokens, size):
            return Step(size, "fits", self.peak(duration, tokens, size))
        if self.failure == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.failure == "exit":
            os._exit(3)
        if self.failure == "hang":
            time.sleep(3600)
        if self.failure == "device":
            raise IncompleteError("the device has failed: cuda:0: uncorrectable ECC error encountered")
        if self.failure == "bug":
            raise ValueError("a model that\ncannot do this")
        return Step(size, "cuda_error" if self.failure == "cuda_error" else "out_of_memory")

    def count(self, duration: float, tokens: int | None) -> BucketResults:
        if self.failure == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.failure == "hang":
            time.sleep(3600)
        if self.log:
            with Path(self.log).open("a", encoding="ascii") as file:
                file.write(f"{duration} {tokens} counted {os.getpid()}\n")
        steps = [Step(size, "fits", self.peak(duration, tokens, size)) for size in (2, 3)]
        return BucketResults(steps, [(self.base, self.per_example(duration, tokens))])


def make(options: object, device: str) -> FakeModel:
    """Stands for the class `ModelTrainer`."""
    return FakeModel(json.loads(os.environ[VARIABLE]))
