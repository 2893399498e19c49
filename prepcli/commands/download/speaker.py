"""The field `speaker` of a manifest."""


def speaker_name(language: str, corpus: str, speaker: str) -> str:
    """Return the name of a speaker in the form of Magpie-TTS, which is also used to group context audio."""
    return f"| Language:{language} Dataset:{corpus} Speaker:{speaker} |"
