"""HiFiTTS-2: 36,700 hours of English audio books; manifests on the Hugging Face Hub, recordings at LibriVox."""

from prepcli.commands.download.chapters import Chapters
from prepcli.commands.download.fetch import Archive

_HUB = "https://huggingface.co/datasets/nvidia/hifitts-2/resolve/main"
_RATES = {"22khz": 22050, "44khz": 44100}


def chapters(edition: str, base_url: str | None) -> Chapters:
    """The edition `22khz` or `44khz`; with `base_url` all files come from there."""
    manifest, listed = (
        Archive(name, (f"{_HUB}/{name}",)).at(base_url, {})
        for name in (f"manifest_{edition}.json", f"chapters_{edition}.json")
    )
    return Chapters(
        command="download hifitts2",
        name=f"hifitts2_{edition}",
        dataset="HiFiTTS2",
        manifest=manifest,
        chapters=listed,
        sampling_rate=_RATES[edition],
        sets=("train", "dev_seen", "dev_unseen", "test_seen", "test_unseen"),
        base_url=base_url,
    )
