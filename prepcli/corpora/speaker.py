"""How a speaker is written in a manifest."""


def speaker_name(language: str, corpus: str, speaker: str) -> str:
    """A speaker as Magpie-TTS wants it, which also is a good group for context audio."""
    return f"| Language:{language} Dataset:{corpus} Speaker:{speaker} |"
