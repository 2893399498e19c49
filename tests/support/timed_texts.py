"""A small file in each form of texts with times."""

import json

SEEDS = {
    "a.srt": "1\n00:00:01,000 --> 00:00:02,500\none <i>x</i>\ntwo\n\n2\n00:00:03,000 --> 00:00:04,000\n{\\an8}on\n",
    "a.vtt": "WEBVTT\n\nNOTE x\n\nSTYLE\n::cue {}\n\nid\n00:01.000 --> 00:02.000 align:start\n<v Ann>hi &amp; b\n",
    "part/a.TextGrid": 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n3\n5\n<exists>\n1\n"IntervalTier"\n"a"\n'
    '3\n5\n1\n3\n4\n"x"\n',
    "a.TextGrid": 'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = 2\ntiers? <exists>\n'
    'size = 2\nitem [1]:\nclass = "IntervalTier"\nname = "words"\nxmin = 0\nxmax = 2\nintervals: size = 1\n'
    'intervals [1]:\nxmin = 0\nxmax = 1\ntext = "a ""b"""\nitem [2]:\nclass = "TextTier"\nname = "p"\nxmin = 0\n'
    'xmax = 2\npoints: size = 1\npoints [1]:\nnumber = 1\nmark = "x"\n',
    "a.json": '{"segments": [{"start": 0, "end": 2.5, "text": " A b", "words": [{"word": "A", "start": 0, "end": 1}, '
    '{"word": "b", "start": null}], "speaker": "x"}]}',
    "ms/a.json": '{"audio_duration": 3, "utterances": [{"start": 0, "end": 2500, "text": "A b", "words": [{"text": '
    '"A", "start": 0, "end": 1000}, {"text": "b", "start": 1000, "end": 2500}], "speaker": "x"}], "words": null}',
    "all.json": json.dumps(
        [
            {"key": "a", "text": "你好 world", "timestamp": [[0, 200], [200, 400], [400, 900]]},
            {"key": "b", "sentence_info": [{"text": "x", "start": 0, "end": 1, "spk": 0, "timestamp": [[0, 1]]}]},
        ],
        ensure_ascii=False,
    ),
    "a.ctm": ";; c\na 1 0.0 0.5 hello 0.9\na 1 0.5 0.5 wor<space>ld\nb 2 0 1 x\n",
    "a.rttm": "SPEAKER a 1 0.0 0.5 <NA> <NA> ann <NA> <NA>\nSPKR-INFO a 1 <NA> <NA> <NA> unknown ann <NA>\n",
    "a.txt": "0.5\t1.5\thello\n\\\t1\t2\n2,0\t3,0\tx\n",
    "segments": "u1 a 0.0 1.0\nu2 a 1 -1 0\n",
    "text": "u1 one\nu2 two\n",
}
"""Contents by the names of files; folders before names tell apart forms of one suffix. They are of a.wav."""
TABLES = {"text": "segments", "segments": "text"}
"""Each of the two files of a data directory, and the other one."""
