"""The options of `extend-text-context`."""

from dataclasses import dataclass
from typing import Annotated

from prepcli.engine.run.options import JobOptions
from prepcli.interface.options import Option
from prepcli.interface.shared_options import WorkDir
from prepcli.storage.paths import AnyPath


@dataclass(frozen=True, kw_only=True)
class ExtendTextContext(JobOptions):
    """Give the cuts of a Lhotse Shar set text contexts, which describe the voice in place of context audio.

    Writes SHAR_DIR/cuts_textContext/cuts.{000000}.jsonl.gz: the same cuts in the same order, whose custom fields are
    context_text, such as "Speaker and Emotion: | Language:en Dataset:x Speaker:y_HAPPY |", and emotion where there is
    one. Training reads them with the target audio or codes of the set, and without context audio. No audio is read.

    A cut without a speaker, or without what --suffix names, is a reject, and stays without context_text, so that the
    cuts are still aligned with the audio.

    Run the same command again to continue after an interruption.

    Example: prepcli extend-text-context shar/ --suffix field:emotion
    """

    suffix: Annotated[
        str | None,
        Option(
            "What follows the speaker in the text, after _: field:NAME, a field of the record such as emotion; "
            "regex:PATTERN, whose groups are found in the id of the supervision and joined by _; or a preset for a "
            "corpus (rivaLindyRodney, rivaEmmaMeganSeanTom, jhsdGtc20Amp20Keynote).",
            shown_default="nothing",
        ),
    ] = None
    keep_field: Annotated[
        tuple[str, ...],
        Option(
            "A field of the record to keep, beside emotion; normalized_text, for example. May be repeated.",
            one_each=True,
        ),
    ] = ()
    shar_dir: Annotated[
        AnyPath,
        Option(
            "Lhotse Shar set, as manifest-to-shar writes it.",
            metavar="SHAR_DIR",
            is_argument=True,
            shapes_output=False,
            must_exist="folder",
        ),
    ]
    work_dir: WorkDir = None
