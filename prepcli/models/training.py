"""Loads a model as for training, with a trainer that runs nothing itself and an optimizer, and runs single steps."""

import importlib
import inspect
import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prepcli.errors import IncompleteError, UsageError, option
from prepcli.interface.calls import log_less
from prepcli.models.faults import fault_of
from prepcli.models.fetching import fetching_once
from prepcli.models.nemo import cause_of, extraction_filters, is_file, quiet, target_of, without_earlier_models

if TYPE_CHECKING:
    from torch import Tensor

NEVER = 10**9
"""Number of steps between two logs, larger than any run. Lightning sets it to 0 for a trainer without logs, and NeMo
3.0 divides by this number."""
DATA_KEYS = ("train_ds", "validation_ds", "test_ds")
"""The sections of a model's config that describe data."""


def load_for_training(model: str | None, model_class: str | None, config: Path | None, device: str) -> Any:
    """Load a model with its trainer.

    Args:
        model: a `.nemo` file or the name of a pretrained model; None: a model of `model_class` without weights.
        model_class: the full name of the class; None: the class in the file, or NeMo's `ASRModel`.
        config: the training config of `model_class`, with the key `model`; not read if `model` is given.
        device: "cpu" or "cuda:N".

    Raises:
        UsageError: NeMo is not installed, or the model cannot be loaded.
    """
    what = option("--model", model) if model is not None else option("--config", config)
    stderr = sys.stderr
    with quiet():
        trainer = _trainer(device)
        own_class = target_of(model, "--model") if model is not None and is_file(model) else None
        kind = _class(model_class or own_class, what)
        try:
            with extraction_filters(), without_earlier_models(), fetching_once(stderr):
                loaded = _load(kind, model, config, trainer)
        except Exception as error:
            if fault_of(error) is not None or isinstance(error, IncompleteError):
                raise
            raise UsageError(f"{what} cannot be loaded: {type(error).__name__}: {cause_of(error)}") from error
    log_less("nemo_logger", logging.ERROR)
    loaded = loaded.to(device)
    loaded.train()
    return loaded


def _trainer(device: str) -> Any:
    try:
        import lightning.pytorch as lightning
    except ImportError as error:
        raise UsageError(f"estimate-batch-sizes needs NeMo: pip install 'prepcli[nemo]' ({error})") from None
    kind, _, number = device.partition(":")
    accelerator, devices = ("cpu", 1) if kind == "cpu" else ("gpu", [int(number)])
    trainer: Any = lightning.Trainer(barebones=True, accelerator=accelerator, devices=devices)
    trainer.log_every_n_steps = NEVER
    return trainer


def _load(kind: Any, model: str | None, config: Path | None, trainer: Any) -> Any:
    if model is not None:
        load = kind.restore_from if is_file(model) else kind.from_pretrained
        return load(model, map_location="cpu", trainer=trainer)
    from omegaconf import OmegaConf

    loaded_config = OmegaConf.load(config)
    if "model" not in loaded_config:
        raise ValueError("it has no key `model`: give the config of a training")
    section = loaded_config.model
    for name in DATA_KEYS:  # no data is needed, and none need exist
        if name in section:
            section[name] = None
    if "trainer" in inspect.signature(kind).parameters:
        return kind(cfg=section, trainer=trainer)
    loaded = kind(OmegaConf.to_container(section, resolve=True))  # a speech language model, as NeMo's scripts make it
    _freeze(loaded, section)
    return loaded


def _freeze(model: Any, section: Any) -> None:
    """Freeze the parameters that a speech language model freezes when it makes its own optimizer.

    The patterns `freeze_params` of the config match the beginnings of names, and `prevent_freeze_params` outweigh them.
    """
    frozen, kept = (section.get(name) or [] for name in ("freeze_params", "prevent_freeze_params"))
    for name, parameter in model.named_parameters():
        if any(re.match(each, name) for each in frozen) and not any(re.match(each, name) for each in kept):
            parameter.requires_grad_(False)


def _class(name: str | None, what: str) -> Any:
    module, _, word = (name or "nemo.collections.asr.models.ASRModel").rpartition(".")
    try:
        return getattr(importlib.import_module(module), word)
    except (ImportError, AttributeError, ValueError) as error:
        package = (getattr(error, "name", None) or "").split(".")[0]
        if isinstance(error, ModuleNotFoundError) and package not in ("", "nemo", module.split(".")[0]):
            raise UsageError(
                f"{option('--model-class', name)} needs the Python package {package}: install it"
            ) from None
        if package == "nemo":
            raise UsageError(f"{what} needs NeMo: pip install 'prepcli[nemo]' ({cause_of(error)})") from None
        raise UsageError(f"{option('--model-class', name)}: there is no such class ({cause_of(error)})") from None


def make_optimizer(model: Any, name: str) -> Any:
    """Return the optimizer of a training run, with a learning rate so small that the model hardly changes.

    Raises:
        UsageError: there is no optimizer of this name.
    """
    import torch

    with quiet():
        if hasattr(model, "setup_optimization"):
            try:
                optimizer, _ = model.setup_optimization({"name": name, "lr": 1e-7, "weight_decay": 0.0})
            except Exception as error:
                raise UsageError(f"{option('--optimizer', name)}: {cause_of(error)}") from error
            return optimizer
    kinds = {name.lower(): name for name in vars(torch.optim) if name[:1].isupper()}
    if name.lower() not in kinds:
        raise UsageError(f"{option('--optimizer', name)}: neither PyTorch nor the model has an optimizer of this name")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return getattr(torch.optim, kinds[name.lower()])(trained, lr=1e-7)


def make_step(model: Any, optimizer: Any, batch: Any, dtype: str, device: str) -> None:
    """Run one training step; the gradients stay in memory until the next step, as in a training run."""
    import torch

    kind = device.partition(":")[0]
    optimizer.zero_grad()
    with torch.autocast(kind, getattr(torch, dtype), enabled=dtype != "float32"):
        made = model.training_step(batch, 0)
        loss: Tensor = made["loss"] if isinstance(made, dict) else made
        loss.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
