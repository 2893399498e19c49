"""The process that makes training steps: it answers one request after the other, until its input ends."""

import os
import sys
from collections.abc import Callable
from typing import Protocol

import msgspec

from prepcli.commands.estimate_batch_sizes.messages import Answer, Counted, Failed, Hello, Request, Setup, Step
from prepcli.errors import PrepcliError
from prepcli.processes.workers import exit_when_ready


class Trainer(Protocol):
    """A model that can make steps."""

    def hello(self) -> Hello:
        """What it is, and on which device."""

    def step(self, duration: float, tokens: int | None, size: int) -> Step:
        """Make a training step."""

    def count(self, duration: float, tokens: int | None) -> Counted:
        """Count the memory of small steps."""


def serve(load: Callable[[Setup], Trainer], lifeline: int, answers: int) -> None:
    """Answer requests on stdin until it ends.

    Args:
        load: makes the trainer.
        lifeline: a descriptor that becomes readable when the parent process ends.
        answers: the descriptor for answers; stdout is the model's.
    """
    exit_when_ready(lifeline)
    with os.fdopen(answers, "wb", buffering=0) as out:

        def answer(message: Answer) -> None:
            out.write(msgspec.json.encode(message) + b"\n")

        lines = iter(sys.stdin.buffer.readline, b"")
        try:
            trainer = load(msgspec.json.decode(next(lines), type=Setup))
            answer(trainer.hello())
            for line in lines:
                request = msgspec.json.decode(line, type=Request)
                made = _respond(trainer, request)
                answer(made)
                if isinstance(made, Step) and made.outcome == "cuda_error":
                    return  # the context of CUDA is lost
        except PrepcliError as error:
            answer(Failed(str(error), error.exit_code))
        except Exception as error:
            import traceback

            traceback.print_exc()
            answer(Failed(f"{type(error).__name__}: {' '.join(str(error).split())}"))


def _respond(trainer: Trainer, request: Request) -> Answer:
    if request.what == "lines":
        return trainer.count(request.duration, request.tokens)
    return trainer.step(request.duration, request.tokens, request.size)


def main(lifeline: int, answers: int) -> None:
    """Serve with a real model."""

    def load(setup: Setup) -> Trainer:
        from prepcli.commands.estimate_batch_sizes.steps import ModelTrainer

        return ModelTrainer(setup)

    serve(load, lifeline, answers)
