"""Resamples in worker processes, for codecs on a CPU."""

import numpy as np

from prepcli.jobs.prefetch import Samples


class SincResampler:
    """Resamples in a worker process, with torchaudio's sinc kernel."""

    def __init__(self, sampling_rate: int | None) -> None:
        """`sampling_rate`: the rate (Hz) to resample to; None changes nothing."""
        self._rate = sampling_rate
        self._is_ready = False

    def __call__(self, mono: Samples, rate: int) -> Samples:
        """The samples (n,) at the new rate."""
        if self._rate is None or self._rate == rate:
            return mono
        import torch

        from prepcli.models.sinc import resample_sinc

        if not self._is_ready:
            # There is already a worker per CPU, and threads do not survive the fork.
            torch.set_num_threads(1)
            self._is_ready = True
        with torch.inference_mode():
            out: Samples = resample_sinc(torch.from_numpy(np.ascontiguousarray(mono)), rate, self._rate).numpy()
        return out
