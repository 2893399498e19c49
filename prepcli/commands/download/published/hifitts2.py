"""HiFiTTS-2: 36,700 hours of English audio books; manifests on the Hugging Face Hub, recordings at LibriVox."""

from prepcli.commands.download.fetch import Archive

COMMAND = "download hifitts2"
DATASET = "HiFiTTS2"
"""The name of the corpus in the field `speaker`."""
SETS = ("train", "dev_seen", "dev_unseen", "test_seen", "test_unseen")
"""The values of the field `set`; each has a manifest."""
RATES = {"22khz": 22050, "44khz": 44100}
"""The sampling rate of the utterances of each edition (Hz)."""
_HUB = "https://huggingface.co/datasets/nvidia/hifitts-2/resolve/main"


def folder_of(edition: str) -> str:
    """The name of an edition's folder in the data root, such as `hifitts2_22khz`; its workspace has the same name."""
    return f"hifitts2_{edition}"


def published(edition: str, base_url: str | None) -> list[Archive]:
    """The two published files of an edition: the manifest of utterances, and the list of chapters.

    A line of the list is a chapter with the utterances to cut from its recording.
    """
    names = f"manifest_{edition}.json", f"chapters_{edition}.json"
    return [Archive(name, (f"{_HUB}/{name}",)).at(base_url, {}) for name in names]
