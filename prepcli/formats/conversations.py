"""Sets of conversations: NeMo's tars with a manifest for each, or tars of pairs of JSON and audio (webdataset)."""

import json
import re
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

from prepcli.errors import UsageError
from prepcli.formats.archives import tar_members
from prepcli.formats.folders import Listing, numbered
from prepcli.formats.stored_set import Shards, StoredSet, pattern
from prepcli.storage.paths import AnyPath

MANIFEST_NAME, TAR_NAME = "manifest_{}.jsonl", "audio_{}.tar"
PAIRS_NAME, META_NAME = "shard-{}.tar", "wids-meta.json"
_MANIFEST = re.compile(r"manifest_(\d+)\.jsonl$")
_TAR = re.compile(r"audio_(\d+)\.tar$")


class ConversationSet(StoredSet):
    """Conversations in `manifest_0.jsonl`, ... with `audio_0.tar`, ..., or in the tars that `wids-meta.json` lists."""

    kind = "conversations"
    index_kind = "nemo_tar"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "ConversationSet | None":
        """The set in a folder, or None if there is none."""
        names = {*listed.files, *published}
        if any(map(_MANIFEST.match, names)) and any(map(_TAR.match, names)):
            return cls(folder, listed)
        stored = cls(folder, listed)
        return stored if META_NAME in names and stored._has_turns() else None

    def _has_turns(self) -> bool:
        """Whether the first JSON of the tars is a conversation, or none can be read; other data have such indexes."""
        try:
            tar = self.folder / str(self.listed_shards[0]["url"])
            start, size = next((at, size) for name, at, size in tar_members(str(tar)) if name.endswith(".json"))
            with tar.open("rb") as file:
                file.seek(start)
                return b'"conversations"' in file.read(size or 0)
        except (OSError, IndexError, StopIteration, UsageError):
            return True

    @cached_property
    def manifests(self) -> Shards:
        """The manifests of NeMo's form, by number; empty for tars of pairs."""
        return numbered(self.folder, _MANIFEST, self.listed.files)

    @cached_property
    def shards(self) -> Shards:
        """The tars by number."""
        if self.manifests:
            return numbered(self.folder, _TAR, self.listed.files)
        return {number: self.folder / str(shard["url"]) for number, shard in enumerate(self.listed_shards)}

    @cached_property
    def listed_shards(self) -> list[dict[str, Any]]:
        """The entries of `shardlist` in `wids-meta.json`.

        Raises:
            UsageError: the file is damaged.
        """
        path = self.folder / META_NAME
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["shardlist"]
            return [{"url": str(shard["url"]), **shard} for shard in found]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{path} has no list of shards ({error!r}); copy it again") from None

    def check_complete(self) -> None:
        """Raise `UsageError` if a tar has no manifest, or a manifest no tar: NeMo reads them in pairs."""
        if different := sorted(self.manifests.keys() ^ self.shards.keys()):
            name = (MANIFEST_NAME if different[0] in self.shards else TAR_NAME).format(different[0])
            raise UsageError(f"{self.folder} lacks {name}; copy it again")

    def files(self) -> Iterator[AnyPath]:
        """The manifests and tars."""
        yield from self.manifests.values()
        yield from self.shards.values()

    def title(self, *, is_file: bool = False) -> str:
        """The words of `inspect`."""
        return "conversations"

    @property
    def is_for_nemo(self) -> bool:
        """NeMo loads it."""
        return True

    def entry(self) -> dict[str, Any]:
        """The entry in an `input_cfg`. A tag without quotes would be a list in YAML; the writer quotes it."""
        if not self.manifests:
            folder = str(self.folder.absolute())
            return {"type": "share_gpt_webdataset", "data_dir": folder, "audio_locator_tag": "[audio]"}
        return {
            "type": "multimodal_conversation",
            "manifest_filepath": pattern(self.manifests),
            "tarred_audio_filepaths": pattern(self.shards),
            "audio_locator_tag": "[audio]",
        }


def tar_of(manifest: AnyPath) -> AnyPath | None:
    """The tar that belongs to the manifest of a shard; None if the file is not one, or has no tar next to it."""
    match = _MANIFEST.fullmatch(manifest.name)
    tar = manifest.with_name(TAR_NAME.format(match[1])) if match else None
    return tar if tar is not None and tar.is_file() else None
