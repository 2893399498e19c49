"""Finds speakers that may be the same person: they have the same name in several inputs, or similar voices.

A voice is the mean of embeddings.

A unit has all records of some speakers. Only a few utterances of each speaker are decoded, so the time grows with the
number of speakers, not with the hours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.find_duplicates.fields import field_keys, notes_on_fields
from prepcli.commands.find_duplicates.groups import GroupWriter, Sets, equal_keys, with_several
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.function import OutputFile
from prepcli.engine.run.report import Report
from prepcli.engine.run.unit import Advance
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import normal_path
from prepcli.jobs.embedding import EmbeddingWork, SpeakerOnDevice
from prepcli.jobs.model_job import Begin, run_with_model
from prepcli.jobs.prefetch import DecodingPool
from prepcli.jobs.record_job import RecordContents, RecordUnit, each_record, units_of
from prepcli.jobs.records import Records, hash_segments
from prepcli.jobs.source import RecordSource
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.speakers import speaker_of
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.speakers import identity, notes_on_speaker_model
from prepcli.planning.arrays import Values
from prepcli.planning.split import Indices

MAX_UTTERANCES = 20
"""Maximum number of utterances of a speaker that are embedded."""
MIN_SECONDS = 2.0
"""Shorter utterances are embedded only if their speaker has too few longer ones: embeddings of short audio are less
reliable."""
_UNIT_UTTERANCES, _NUM_UNITS = 500, 16
"""A unit embeds about `_UNIT_UTTERANCES` utterances; fewer if the input would have fewer than `_NUM_UNITS` units."""
_NAME = "parts/{}.voices"
_PAIRS_SHOWN = 20
_BATCH_SECONDS = 120.0
_VALUES_AT_ONCE = 1 << 24
_ROUNDING = 1e-4
"""An upper bound for the rounding error of a similarity in float32."""


@dataclass(frozen=True, slots=True)
class VoiceContents(RecordContents):
    """The records by speaker.

    Attributes:
        speaker_of: the number of the speaker of each record, by first appearance; -1 without one.
        is_drawn: whether the record is embedded.
        first_of: the first record of each speaker.
    """

    speaker_of: Indices
    is_drawn: NDArray[np.bool_]
    first_of: Indices


VoicePlan = Plan[RecordUnit, VoiceContents]


class _VoicesOnDevice(SpeakerOnDevice[VoiceContents]):
    def read_ahead(self, contents: VoiceContents, unit: RecordUnit, workers: DecodingPool[int]) -> Begin:
        """Return a function that begins the unit; nothing is read ahead."""
        return lambda tick: _Voices(contents, unit, self.model, self.max_batch_samples)


def find_same_voices(
    source: RecordSource,
    output: OutputFile,
    devices: str,
    speaker_model: str,
    inputs: Sequence[object],
    *,
    least: float,
    between: bool,
) -> Report:
    """Write one file. A unit computes the mean embeddings (voices) of its speakers; they are compared at the end.

    Voices are the same if their similarity is `least` or more; `inputs` and `between` as in the command.

    Raises:
        UsageError: the speaker model cannot be used, or most records of an input have no speaker.
    """

    def plan(workspace: Workspace) -> VoicePlan:
        """Index the manifests, draw utterances of each speaker, and put whole speakers into units."""
        keys: dict[str, KeyFunction] = {"path": normal_path, **field_keys(["speaker"])}
        records = source.read(workspace, keys)
        notes = notes_on_fields(records, inputs, source.input_of, ["speaker"])
        values = dict(source.layout(records, lambda scratch: _drawn(records)))
        bounds, seconds = values.pop("bounds"), values.pop("seconds")
        units = units_of("speakers", bounds.tolist(), seconds.tolist(), make=RecordUnit)
        return records.plan(
            units, VoiceContents(records, **values), notes=[*notes, *notes_on_speaker_model(speaker_model)]
        )

    def finish(made: VoicePlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Compare the voices, and write the records of speakers with the same name or voice."""
        contents = made.contents
        parts = [np.fromfile(writer.part(_NAME.format(marker.unit)), "<f8") for marker in markers]
        count = len(contents.first_of)
        voices = np.concatenate([np.empty(0), *parts]).reshape(count, -1 if count else 0)
        pairs, similarities = similar_pairs(voices, least)
        sets = Sets(count)
        is_same = similarities >= least
        for first, other in pairs[is_same].tolist():
            sets.join(first, other)
        keys = np.zeros((len(contents.speaker_of), 2), np.uint64)
        named = contents.speaker_of >= 0
        keys[named, 0] = sets.labels()[contents.speaker_of[named]] + 1
        groups = GroupWriter(writer.open(output.name), contents.records, source.input_of)
        # A name alone, in one input, makes no group.
        value_of = groups.input_of if between else groups.input_of * (count + 1) + contents.speaker_of + 1
        numbers, group_of = with_several(*equal_keys(keys), value_of)
        groups.write("speaker", numbers, group_of)
        shown: dict[str, list[dict[str, Any]]] = {"same_voice": [], "other_voice": []}
        for at in _most_similar(similarities).tolist():
            names = [_name_of(contents, pair) for pair in pairs[at].tolist()]
            pair = {"speakers": names, "similarity": round(float(similarities[at]), 4)}
            shown["same_voice" if is_same[at] else "other_voice"].append(pair)
        without = int(np.isnan(voices).any(axis=1).sum()) if count else 0
        details = {"found": groups.rows, **shown, "num_same_voice": int(is_same.sum()), "without_voice": without}
        return {"duplicates": output.path, "between": between, **details}

    return run_with_model(
        output,
        devices,
        lambda device: _VoicesOnDevice(device, speaker_model, _BATCH_SECONDS),
        plan,
        finish,
        settings=source.settings | {"--speaker-model": identity(speaker_model), "inputs": source.input_of},
        input_files=[speaker_model],
        telemetry=("between", "num_same_voice", "without_voice"),
    )


def _name_of(contents: VoiceContents, speaker: int) -> str:
    return speaker_of(contents.records.record(int(contents.first_of[speaker]))) or ""


def _drawn(records: Records) -> Values:
    """Draw utterances of each speaker by a hash, and divide the speakers into units; returns the arrays of the plan."""
    index = records.index
    none = int.from_bytes(key_bytes(""), "little")
    keys = index.keys["speaker"]
    unique, first, number = np.unique(keys, return_index=True, return_inverse=True)
    named = unique != none
    rank = np.full(len(unique), -1, np.int64)
    by_appearance = np.flatnonzero(named)[np.argsort(first[named])]
    rank[by_appearance] = np.arange(len(by_appearance))
    speaker = rank[number]
    draw = hash_segments(index.keys["path"], index.offset, index.duration)
    order = np.lexsort((draw, index.duration < MIN_SECONDS, speaker))
    place = np.arange(len(order)) - np.searchsorted(speaker[order], speaker[order])
    is_drawn = np.zeros(len(order), bool)
    is_drawn[order[(place < MAX_UTTERANCES) & (speaker[order] >= 0)]] = True
    per_speaker = np.bincount(speaker[is_drawn], minlength=len(by_appearance))
    unit_size = max(1, min(_UNIT_UTTERANCES, int(per_speaker.sum()) // _NUM_UNITS))
    unit_of_speaker = (np.cumsum(per_speaker) - per_speaker) // unit_size
    _, unit_of_speaker = np.unique(unit_of_speaker, return_inverse=True)
    unit_of = np.concatenate((unit_of_speaker, [0]))[speaker]  # records without a speaker are in the first unit
    by_speaker = np.argsort(np.where(speaker < 0, -1, speaker), kind="stable")
    bounds = np.searchsorted(unit_of[by_speaker], np.arange(int(unit_of.max(initial=-1)) + 2))
    seconds = np.bincount(unit_of, weights=index.duration * is_drawn, minlength=len(bounds) - 1)
    return {
        "order": by_speaker,
        "bounds": bounds,
        "seconds": np.asarray(seconds, np.float64),
        "speaker_of": speaker,
        "is_drawn": is_drawn,
        "first_of": first[by_appearance],
    }


class _Voices(EmbeddingWork[NDArray[np.float64]]):
    """Computes the voices of a unit's speakers."""

    def __init__(self, contents: VoiceContents, unit: RecordUnit, encoder: SpeakerEncoder, max_samples: int) -> None:
        """`max_samples`: maximum number of samples per batch."""
        assert contents.order is not None
        everyone = contents.order[unit.lo : unit.hi]
        is_drawn = contents.is_drawn[everyone]
        super().__init__(everyone[is_drawn], contents.records, encoder, max_samples)
        self._others = everyone[~is_drawn]
        self._speakers = contents.speaker_of[self.numbers]

    def finish(self, advance: Advance) -> NDArray[np.float64]:
        """Return the mean embedding of each speaker, scaled to length 1: shape (speakers, dim).

        The values are NaN for a speaker without a readable utterance.
        """
        embeddings = self.embedded().cpu().numpy().astype(np.float64)
        readable = self.is_readable()
        first = np.flatnonzero(np.diff(self._speakers, prepend=-1))
        sums = np.add.reduceat(np.where(readable[:, None], embeddings, 0), first) if len(first) else embeddings
        advance(len(self._others), float(self._records.index.duration[self._others].sum()))
        with np.errstate(invalid="ignore", divide="ignore"):
            voices: NDArray[np.float64] = sums / np.sqrt((sums**2).sum(axis=1, keepdims=True))
        return voices

    def write(self, computed: NDArray[np.float64], writer: UnitWriter) -> None:
        """Write the voice of each speaker. Records that are not in the sample of their speaker count as processed."""
        durations = self._records.index.duration
        position_of = {number: position for position, number in enumerate(self.numbers.tolist())}

        def check(number: int) -> float:
            rejected = self.rejects.get(position_of[number])
            if rejected is not None:
                raise rejected
            return float(durations[number])

        each_record(self._records, position_of, check, writer)
        writer.count(len(self._others), float(durations[self._others].sum()))
        writer.open_part(_NAME.format(writer.unit.id)).write(computed.astype("<f8").tobytes())
        writer.extra.update(self.extra)


def similar_pairs(voices: NDArray[np.float64], least: float) -> tuple[Indices, NDArray[np.float64]]:
    """Find the pairs of voices whose cosine similarity is at least `least`, and in any case the most similar pairs.

    A matrix product in float32 finds candidates. Their similarities are computed again in float64, one by one, because
    the rounding of a matrix product depends on the machine.

    Args:
        voices: shape (voices, dim), rows of length 1; a row of NaN is in no pair.
        least: the minimum similarity, from -1 to 1.

    Returns:
        The row numbers of the pairs, shape (P, 2), ascending, and their similarities, shape (P,). They include the
        `_PAIRS_SHOWN` most similar pairs, also those below `least`.
    """
    voiced = np.flatnonzero(~np.isnan(voices).any(axis=1))
    own = voices[voiced]
    rough = own.astype(np.float32)
    pairs = [np.empty((0, 2), np.int64)]
    best = np.full(_PAIRS_SHOWN, -np.inf, np.float32)  # the highest values of the product
    rows = max(1, _VALUES_AT_ONCE // max(1, len(own)))
    for start in range(0, len(own), rows):
        product = rough[start : start + rows] @ rough[start:].T
        product[np.tri(*product.shape, dtype=np.bool_)] = -np.inf  # each pair once, and no voice with itself
        best = np.partition(np.concatenate((best, product[product > best.min()])), -_PAIRS_SHOWN)[-_PAIRS_SHOWN:]
        first, second = np.nonzero(product >= max(min(least, best.min()) - 2 * _ROUNDING, -2))
        pairs.append(np.stack([first, second], axis=1) + start)
    all_pairs = np.concatenate(pairs)
    similarities = np.concatenate(
        [np.empty(0), *((own[some[:, 0]] * own[some[:, 1]]).sum(axis=1) for some in pairs[1:])]
    )
    kept = similarities >= least
    kept[_most_similar(similarities)] = True
    return voiced[all_pairs[kept]], similarities[kept]


def _most_similar(similarities: NDArray[np.float64]) -> Indices:
    """Return the numbers of the `_PAIRS_SHOWN` most similar pairs, the most similar one first."""
    return np.argsort(-similarities, kind="stable")[:_PAIRS_SHOWN]
