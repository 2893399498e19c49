"""What follows from the declaration of an option."""

import msgspec
import pytest

from prepcli.commands.manifest_to_shar.command import manifest_to_shar
from prepcli.interface.command import declaration
from prepcli.interface.options import settings_of
from prepcli.storage.paths import path_of


@pytest.mark.parametrize("folder", ["/data/audio", "s3://bucket/audio"])
def test_a_path_is_a_text_in_the_settings(folder: str) -> None:
    options = declaration(manifest_to_shar).options
    settings = settings_of(options(manifest="m.json", out=path_of("out"), audio_base_dir=path_of(folder)))
    assert folder in msgspec.json.decode(msgspec.json.encode(settings)).values()
