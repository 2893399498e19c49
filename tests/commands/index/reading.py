"""What a cut is, in JSON; for both versions of lhotse."""

import hashlib
from typing import Any


def described(cut: Any) -> dict[str, Any]:
    """Its fields, and digests of its target and context audio as they are decoded."""
    supervision = cut.supervisions[0]
    return {
        "id": cut.id,
        "duration": cut.duration,
        "text": supervision.text,
        "speaker": supervision.speaker,
        "language": supervision.language,
        "custom": dict(sorted((supervision.custom or {}).items())),
        "target": hashlib.sha256(cut.load_target_audio().tobytes()).hexdigest(),
        "context": hashlib.sha256(cut.load_context_audio().tobytes()).hexdigest(),
    }
