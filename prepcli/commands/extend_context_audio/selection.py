"""Select the best other utterance of a voice: a masked argmax over row chunks of one matrix product.

No sort, no matrix of all pairs, no loop over candidates: 10,000 utterances of 192 dimensions take less than a tenth of
the time and a fortieth of the memory of sorting the full matrix (`benchmarks/context.py`).
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prepcli.commands.extend_context_audio.copies import Copies

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from prepcli.commands.extend_context_audio.copies import Segments

CHUNK_VALUES = {"cpu": 1 << 20, "cuda": 1 << 27}
"""Similarities computed at a time: 4 MB on a CPU, which fits its cache, half a GB on a GPU."""
_MIN_ROWS = 96
"""Minimum rows of a chunk in large groups: with fewer, reading the candidates would dominate."""
_BLOCK = 64
"""Candidates per block: single candidates are compared only in blocks with a maximum near the row's best."""
_PAIRS = 1 << 15


class Chosen(NamedTuple):
    """For each row the chosen row and their cosine similarity; -1 and NaN without a candidate."""

    best: "NDArray[np.int64]"
    similarity: "NDArray[np.float64]"


def select_contexts(embeddings: "Tensor", is_candidate: "NDArray[np.bool_]", segments: "Segments") -> Chosen:
    """For each row of `embeddings` (N, D), float32 and of length 1, the most similar candidate row.

    A row is not a candidate for itself, nor for rows of the same segment: a copy tells a model nothing. The first of
    equally similar candidates is chosen. `is_candidate` must be false for rows that hold NaN; what is chosen for such
    rows means nothing.

    The product is in full float32. It rounds differently for different shapes, so whatever comes within the rounding of
    a row's best is compared again in float64, pair by pair: the choice is that of exact arithmetic, and two identical
    embeddings are a tie.
    """
    import torch

    count, dim = embeddings.shape
    candidates = np.flatnonzero(is_candidate)
    best = np.full(count, -1, np.int64)
    similarity = np.full(count, np.nan)
    if not len(candidates):
        return Chosen(best, similarity)
    device = embeddings.device
    columns = torch.from_numpy(candidates).to(device)
    padding = -len(candidates) % _BLOCK
    right = torch.nn.functional.pad(embeddings[columns], (0, 0, 0, padding)).T
    # Sums of `dim` products of numbers up to 1, each rounded to 24 bits.
    slack = 2 * dim * 2.0**-24
    same = Copies(segments, candidates)
    num_rows = max(_MIN_ROWS, CHUNK_VALUES[device.type] // len(candidates))
    for start in range(0, count, num_rows):
        stop = min(start + num_rows, count)
        values = embeddings[start:stop] @ right
        rows, hidden = same.pairs(start, stop)
        values[torch.from_numpy(rows).to(device), torch.from_numpy(hidden).to(device)] = -torch.inf
        values[:, len(candidates) :] = -torch.inf
        near_rows, near = _near_best(values, slack)
        exact = _exact(embeddings, near_rows + start, columns[near])
        chosen_rows, chosen_columns, chosen_values = _first_of_greatest(
            near_rows.cpu().numpy(), near.cpu().numpy(), exact
        )
        best[start + chosen_rows] = candidates[chosen_columns]
        similarity[start + chosen_rows] = chosen_values
    return Chosen(best, similarity)


def _near_best(values: "Tensor", slack: float) -> "tuple[Tensor, Tensor]":
    """Rows and columns of `values` (R, C) within `slack` of the maximum of their row; none in a row of -inf."""
    import torch

    blocks = values.view(len(values), -1, _BLOCK)
    greatest_of_block = blocks.amax(2)
    greatest = greatest_of_block.amax(1, keepdim=True)
    least = torch.where(greatest > -torch.inf, greatest - slack, torch.inf)
    rows, block = (greatest_of_block >= least).nonzero(as_tuple=True)
    found, within = (blocks[rows, block] >= least[rows]).nonzero(as_tuple=True)
    return rows[found], block[found] * _BLOCK + within


def _exact(embeddings: "Tensor", left: "Tensor", right: "Tensor") -> "NDArray[np.float64]":
    """Cosines of pairs of rows in float64."""
    parts = [np.empty(0)]
    for at in range(0, len(left), _PAIRS):
        a = embeddings[left[at : at + _PAIRS]].double()
        b = embeddings[right[at : at + _PAIRS]].double()
        parts.append((a * b).sum(1).cpu().numpy())
    return np.concatenate(parts)


def _first_of_greatest(
    rows: "NDArray[np.int64]", columns: "NDArray[np.int64]", values: "NDArray[np.float64]"
) -> "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]":
    """For each row that occurs, the maximum value and its first column."""
    order = np.lexsort((columns, -values, rows))
    rows = rows[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    return rows[first], columns[order][first], values[order][first]
