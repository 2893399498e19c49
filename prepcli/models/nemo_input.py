"""Checks with NeMo's own reader that an `input_cfg` can be opened and returns a first record."""

from pathlib import Path
from typing import Any

from prepcli.errors import UsageError
from prepcli.models.devices import keeping_generators
from prepcli.models.nemo import quiet


def input_cuts(path: Path, **options: Any) -> Any:
    """Return an endless stream of the cuts of an `input_cfg`, as a training run draws them.

    Each cut comes from a data set that is drawn by its weight. `options` are further options of NeMo's loader.
    """
    from nemo.collections.common.data.lhotse.cutset import read_cutset_from_config
    from omegaconf import OmegaConf

    settings = {"shuffle": False, "shard_seed": 0, "force_iterable_dataset": True} | options
    config = OmegaConf.create({"input_cfg": OmegaConf.load(path), **settings})
    cuts, _ = read_cutset_from_config(config)
    return cuts


def open_input_cfg(path: Path) -> None:
    """Open an `input_cfg` and draw one record.

    Raises:
        UsageError: NeMo cannot read it.
    """
    try:
        with keeping_generators(), quiet():  # NeMo's imports print about telemetry
            next(iter(input_cuts(path)))
    except Exception as error:  # NeMo and lhotse have no common class of errors
        why = " ".join(str(error).split())[:300]
        what = f"NeMo cannot read {path}: {type(error).__name__}: {why}"
        raise UsageError(f"{what}; look at the sets that it names") from None
