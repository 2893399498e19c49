"""Data for omnilingual-asr: Parquet files in folders `corpus=…/split=…/language=…`, with mono audio at 16 kHz.

Its reader weighs corpora and languages by a table of hours next to the folders. The name of the table begins with `_`,
because the reader takes all other files below the folder for Parquet.
"""

import re
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache

from prepcli.formats.folders import Listing, listing
from prepcli.formats.stored_set import Shards, StoredSet
from prepcli.storage.paths import AnyPath

RATE = 16_000
"""The sampling rate of all audio, in Hz."""
ROWS_PER_GROUP, MIN_ROWS = 100, 10_000
"""Rows per row group, and minimum number of rows per file if a partition has several files; as in omnilingual-asr."""
SUMMARY_NAME = "_language_distribution.tsv"
CORPUS = "corpus="
"""The beginning of the name of a corpus's folder."""
_FOLDER = CORPUS + "{}/split={}/language={}"
AUDIO, SIZE, TEXT = "audio_bytes", "audio_size", "text"
NAME_OF_CORPUS = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
"""A valid name of a corpus. Arrow would read some other names as numbers, or decode escapes such as `%20` in them."""
NAME_OF_SPLIT = re.compile(r"[A-Za-z][A-Za-z0-9.-]*")
"""A valid name of a split. It has no `_`: omnilingual-asr's reader takes the text after `_` for a corpus."""
_SPLITS = {"training": "train", "valid": "dev", "val": "dev", "validation": "dev", "testing": "test"}
_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_BY_CODE = dict(
    re.findall(
        r"(\w+)=(\w+)",
        "af=afr_Latn am=amh_Ethi ar=arb_Arab as=asm_Beng az=aze_Latn ba=bak_Cyrl be=bel_Cyrl bg=bul_Cyrl bn=ben_Beng "
        "bo=bod_Tibt br=bre_Latn bs=bos_Latn ca=cat_Latn cs=ces_Latn cv=chv_Cyrl cy=cym_Latn da=dan_Latn de=deu_Latn "
        "dv=div_Thaa dz=dzo_Tibt el=ell_Grek en=eng_Latn eo=epo_Latn es=spa_Latn et=ekk_Latn eu=eus_Latn fa=fas_Arab "
        "ff=ful_Latn fi=fin_Latn fo=fao_Latn fr=fra_Latn ga=gle_Latn gl=glg_Latn gn=grn_Latn gu=guj_Gujr ha=hau_Latn "
        "he=heb_Hebr hi=hin_Deva hr=hrv_Latn ht=hat_Latn hu=hun_Latn hy=hye_Armn ia=ina_Latn id=ind_Latn ig=ibo_Latn "
        "is=isl_Latn it=ita_Latn ja=jpn_Jpan jv=jav_Latn ka=kat_Geor kk=kaz_Cyrl km=khm_Khmr kn=kan_Knda ko=kor_Hang "
        "ky=kir_Cyrl la=lat_Latn lb=ltz_Latn lg=lug_Latn ln=lin_Latn lo=lao_Laoo lt=lit_Latn lv=lav_Latn mg=mlg_Latn "
        "mi=mri_Latn mk=mkd_Cyrl ml=mal_Mlym mn=mon_Cyrl mr=mar_Deva ms=zsm_Latn mt=mlt_Latn my=mya_Mymr nb=nob_Latn "
        "ne=nep_Deva nl=nld_Latn no=nob_Latn ny=nya_Latn oc=oci_Latn om=orm_Latn or=ory_Orya pa=pan_Guru pl=pol_Latn "
        "ps=pus_Arab pt=por_Latn ro=ron_Latn ru=rus_Cyrl rw=kin_Latn sd=snd_Arab si=sin_Sinh sk=slk_Latn sl=slv_Latn "
        "sn=sna_Latn so=som_Latn sq=als_Latn sr=srp_Cyrl su=sun_Latn sv=swe_Latn sw=swh_Latn ta=tam_Taml te=tel_Telu "
        "tg=tgk_Cyrl th=tha_Thai tk=tuk_Latn tl=tgl_Latn tn=tsn_Latn tr=tur_Latn ts=tso_Latn tt=tat_Cyrl ug=uig_Arab "
        "uk=ukr_Cyrl ur=urd_Arab uz=uzb_Latn vi=vie_Latn wo=wol_Latn xh=xho_Latn yo=yor_Latn zh=cmn_Hans zu=zul_Latn ",
    )
)
_BY_CODE |= {name.partition("_")[0]: name for name in _BY_CODE.values()}
_BY_TAG = {"zh-tw": "cmn_Hant", "zh-hk": "yue_Hant", "cmn-tw": "cmn_Hant"}
"""omnilingual-asr's names for some tags of a language and a region: for the language alone, the name is another one."""


@lru_cache(maxsize=256)
def language_of(code: str) -> str | None:
    """Return omnilingual-asr's name of a language: `deu_Latn` for `de`, `de-DE`, `deu` or `deu_Latn`; None if unknown.

    A script in the code is kept: `sr-Latn` is `srp_Latn`.
    """
    if _LANGUAGE.fullmatch(code):
        return code
    tag = code.lower().replace("_", "-")
    language, _, more = tag.partition("-")
    known = _BY_TAG.get(tag) or _BY_CODE.get(language)
    if known is not None and re.fullmatch("[a-z]{4}", more):
        return f"{known[:3]}_{more.title()}"
    return known


def split_of(name: str) -> str:
    """Return the usual name of a split: `dev` for `validation`; other names are returned as they are."""
    return _SPLITS.get(name.lower(), name)


def folder_of(corpus: str, split: str, language: str) -> str:
    """Return the folder of a partition, relative to the data set."""
    return _FOLDER.format(corpus, split, language)


def summary(samples: Mapping[tuple[str, str], float]) -> str:
    """Return the table of hours by corpus and language, as text with tabs; all splits are added up.

    `samples` has the number of audio samples, at `RATE`, for each pair of corpus and language.
    """
    rows = [f"{corpus}\t{language}\t{count / RATE / 3600!r}" for (corpus, language), count in sorted(samples.items())]
    return "".join(f"{row}\n" for row in ("corpus\tlanguage\thours", *rows))


class OmnilingualSet(StoredSet):
    """Parquet files for omnilingual-asr, in folders by corpus, split and language."""

    kind = "omnilingual"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "OmnilingualSet | None":
        """The set in a folder with folders `corpus=...`, or in which a run has `published` some; else None."""
        has_corpus = any(name.startswith(CORPUS) for name in (*listed.folders, *published))
        return cls(folder, listed) if has_corpus else None

    def title(self, *, is_file: bool = False) -> str:
        """The same words for all."""
        return "Parquet for omnilingual-asr"

    @cached_property
    def shards(self) -> Shards:
        """All Parquet files, numbered from 0 in the order of their paths."""
        folders = [self.folder / name for name in self.listed.folders if name.startswith(CORPUS)]
        for _ in range(2):  # splits and languages
            folders = [folder / name for folder in folders for name in listing(folder).folders]
        files = [folder / name for folder in folders for name in listing(folder).files]
        return dict(enumerate(path for path in files if path.name.endswith(".parquet")))
