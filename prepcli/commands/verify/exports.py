"""Checks exports to other toolkits: each part of an export by itself, then all parts together."""

from typing import Any

from prepcli.commands.verify import conversations, mels, omnilingual, omnivoice, parquet, qwen3_tts, wenet
from prepcli.commands.verify.shards import Verification, repeated
from prepcli.formats.stored_set import StoredSet
from prepcli.interface.printing import number_of

RULES: dict[str, Any] = {
    "conversations": conversations,
    "wenet": wenet,
    "mels": mels,
    "parquet": parquet,
    "omnilingual": omnilingual,
    "omnivoice": omnivoice,
    "qwen3-tts": qwen3_tts,
}
"""The module with the rules of each kind. It has two functions: `find(set, of)` returns the parts to check and
problems, such as missing files; `check(part)` returns the `ShardReport` of a part, in a worker process.
"""


def verify_export(export: StoredSet, of: Verification) -> None:
    """Check each part of an export, and that ids are unique over all parts."""
    report, rules = of.report, RULES[export.kind]
    report.kind = export.kind
    parts, problems = rules.find(export, of)
    checked = list(of.check(rules.check, parts, decodes=export.kind != "mels"))
    report.problems += problems
    if num_repeated := len(repeated(part.id_hashes for part in checked)):
        report.problems.append(
            f"{number_of(num_repeated, 'record', 'have')} the id of another record; ids must be unique"
        )
    if num_dropped := sum(part.num_dropped for part in checked):
        report.notes.append(
            f"{number_of(num_dropped, 'record')} would be dropped by WeNet's default filter_conf (10 to 10,240 frames, "
            "1 to 200 characters)"
        )
