"""Notes that any code may make about the work, for the summary of the run.

A job passes the notes of a unit to the engine, which shows each text once, however many units made it.
"""

_notes: dict[str, None] = {}


def note(text: str) -> None:
    """Make a note for the summary of the run, unless this process has just made the same note.

    `text` must not depend on the order in which records and units are done.
    """
    _notes[text] = None


def take_notes() -> list[str]:
    """Return the texts that `note` has collected in this process, newest first, and forget them."""
    return [_notes.popitem()[0] for _ in range(len(_notes))]
