"""Lines that are copied: the paths become absolute, and nothing else changes."""

import numpy as np
import pytest

from prepcli.jobs.copied_lines import Lines, in_output_form

LINES = {
    '{"audio_filepath": "a.wav", "duration": 1.50}': '{"audio_filepath": "/b/a.wav", "duration": 1.50}',
    '{"x":1,"audio_filepath":"/abs.wav"}': '{"x":1,"audio_filepath":"/abs.wav"}',
    '{"audio_filepath": "./a.wav"}': '{"audio_filepath": "/b/a.wav"}',
    '{"audio_filepath": "\\u00e9.wav"}': '{"audio_filepath": "/b/é.wav"}',
    '{"audio_filepath": "s3://c/a.wav"}': '{"audio_filepath": "s3://c/a.wav"}',
    '{"audio_filepath": "a", "context_audio_filepath": null}': (
        '{"audio_filepath": "/b/a", "context_audio_filepath": null}'
    ),
    '{"text": "\\"audio_filepath\\": \\"x", "audio_filepath": "a"}': (
        '{"text": "\\"audio_filepath\\": \\"x", "audio_filepath": "/b/a"}'
    ),
    '{"audio_filepath": "a", "more": {"audio_filepath": "x"}}': (
        '{"audio_filepath": "/b/a", "more": {"audio_filepath": "x"}}'
    ),
    '{"audio_filepath": "/a", "ref_audio": "./r.wav"}': '{"audio_filepath": "/a", "ref_audio": "/b/r.wav"}',
    '{"audio_filepath": "/a", "ref_audio": "r.wav"}': '{"audio_filepath": "/a", "ref_audio": "/b/r.wav"}',
    '{"audio_filename": "a", "duration": 1}': '{"audio_filepath": "/b/a", "duration": 1}',
}


@pytest.mark.parametrize("line", LINES)
def test_paths_become_absolute_and_nothing_else_changes(line: str) -> None:
    plain = b'{"audio_filepath": "p.wav"}'
    found = in_output_form(b"\n".join([plain, line.encode(), plain, b""]), 3, "/b").splitlines()
    assert found == [b'{"audio_filepath": "/b/p.wav"}', LINES[line].encode(), b'{"audio_filepath": "/b/p.wav"}']


COMMON = '{"audio_filepath": "/a/'


@pytest.mark.parametrize(
    ("more", "beginning"),
    [
        ('{"audio_filepath": "/a/3.wav"}', '{"audio_filepath": "/'),
        ('{"audio_filepath": "a/3.wav"}', ""),
        ('{"audio_filepath":"/a/3.wav"}', ""),
        ('{"id": "x", "audio_filepath": "/a"}', ""),
        ("{}", ""),
        ('{"audio_filepath": "/a", "context_audio_filepath": "c.wav"}', '{"audio_filepath": "/'),
        ('{"audio_filepath": "/a", "ref_audio": "c.wav"}', '{"audio_filepath": "/'),
        ('{"audio_filepath": "/a", "more": {"audio_filepath": "c.wav"}}', '{"audio_filepath": "/'),
    ],
)
def test_lines_that_begin_alike_are_written_as_others(more: str, beginning: str) -> None:
    lines = Lines(f'{COMMON}1.wav"}}\n{{"duration": 1}}\n{COMMON}2.wav"}}\n{more}'.encode())
    which = np.array([True, False, True, True])
    assert lines.beginning(which) == beginning.encode()
    data = lines.joined(which, {})
    assert in_output_form(data, 3, "/b", lines.beginning(which)) == in_output_form(data, 3, "/b")
