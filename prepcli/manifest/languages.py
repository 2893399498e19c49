"""Turns names of languages, as corpora write them, into codes of ISO 639-1."""

import re
from functools import lru_cache

_CODES = """
aa Afar, ab Abkhazian, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese, av Avaric, ay Aymara,
az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bi Bislama, bm Bambara, bn Bengali, bo Tibetan, br Breton,
bs Bosnian, ca Catalan, ce Chechen, ch Chamorro, co Corsican, cr Cree, cs Czech, cv Chuvash, cy Welsh, da Danish,
de German, dv Divehi, dz Dzongkha, ee Ewe, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque,
fa Persian, ff Fulah, fi Finnish, fj Fijian, fo Faroese, fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic,
gl Galician, gn Guarani, gu Gujarati, gv Manx, ha Hausa, he Hebrew, hi Hindi, hr Croatian, ht Haitian, hu Hungarian,
hy Armenian, ia Interlingua, id Indonesian, ig Igbo, is Icelandic, it Italian, iu Inuktitut, ja Japanese, jv Javanese,
ka Georgian, kg Kongo, kk Kazakh, kl Greenlandic, km Khmer, kn Kannada, ko Korean, ks Kashmiri, ku Kurdish, kv Komi,
kw Cornish, ky Kyrgyz, la Latin, lb Luxembourgish, lg Ganda, li Limburgish, ln Lingala, lo Lao, lt Lithuanian,
lv Latvian, mg Malagasy, mi Maori, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese,
my Burmese, nb Norwegian Bokmål, ne Nepali, nl Dutch, nn Norwegian Nynorsk, no Norwegian, nv Navajo, ny Chichewa,
oc Occitan, om Oromo, or Odia, os Ossetian, pa Punjabi, pl Polish, ps Pashto, pt Portuguese, qu Quechua, rm Romansh,
rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit, sc Sardinian, sd Sindhi, se Northern Sami, sg Sango,
si Sinhala, sk Slovak, sl Slovenian, sm Samoan, sn Shona, so Somali, sq Albanian, sr Serbian, ss Swati, st Sotho,
su Sundanese, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog,
tn Tswana, to Tongan, tr Turkish, ts Tsonga, tt Tatar, tw Twi, ty Tahitian, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek,
ve Venda, vi Vietnamese, wa Walloon, wo Wolof, xh Xhosa, yi Yiddish, yo Yoruba, za Zhuang, zh Chinese, zu Zulu,
en Singaporean English, zh Mandarin, zh Mandarin Chinese, es Castilian, fa Farsi, ku Kurmanji, or Oriya, ga Gaelic
"""
_BY_NAME = {
    name.casefold(): code for entry in _CODES.split(",") for code, _, name in [entry.strip().partition(" ")] if name
}
_FORM_OF_CODE = re.compile(r"[a-z]{2,3}([_-][A-Za-z0-9]+)*")


@lru_cache(maxsize=1024)
def language_code(name: str) -> str | None:
    """The code of a language: `English` and `ENGLISH` -> `en`; None if the name is unknown.

    A variant after the name is ignored: `English-Nigeria` -> `en`. A text in the form of a code, such as `yue` or
    `en_us`, is returned as it is; two capital letters become lower case: `EN` -> `en`.
    """
    text = name.strip()
    known = _BY_NAME.get(text.casefold()) or _BY_NAME.get(text.partition("-")[0].strip().casefold())
    if known is not None:
        return known
    if text.isupper() and len(text) == 2:
        text = text.lower()
    return text if _FORM_OF_CODE.fullmatch(text) else None
