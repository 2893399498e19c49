"""Arrays as bytes: there and back, and that damage of any kind is one kind of error."""

import io

import numpy as np
import pytest

from prepcli.formats.npy import npy_bytes, read_npy

CODES = np.arange(600, dtype=np.int16).reshape(4, 150)
WHOLE = npy_bytes(CODES)


def zipped() -> bytes:
    file = io.BytesIO()
    np.savez(file, codes=CODES)
    return file.getvalue()


def test_there_and_back() -> None:
    found = read_npy(WHOLE)
    assert found.dtype == CODES.dtype
    np.testing.assert_array_equal(found, CODES)
    np.testing.assert_array_equal(np.load(io.BytesIO(WHOLE), allow_pickle=False), CODES)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"codes",
        WHOLE[:5],
        WHOLE[:100],
        WHOLE[:-1],
        WHOLE.replace(b"}", b"\x01"),  # found by fuzzing: numpy hands on tokenize.TokenError
        WHOLE.replace(b"'shape'", b"'shape\\"),
        WHOLE.replace(b"'shape'", b" 1 2 3 "),
        WHOLE.replace(b"'descr'", b"      1"),
        WHOLE.replace(b"'<i2'", b"'|O' "),
        WHOLE.replace(b"(4, 150)", b"(9**99,)"),
        WHOLE.replace(b"(4, 150), }                  ", b"(4, 150000000000000000), }"),
        zipped(),
    ],
    ids=range(13),
)
def test_what_is_not_an_array(data: bytes) -> None:
    assert data != WHOLE
    with pytest.raises(ValueError, match="not what numpy saves: "):
        read_npy(data)


def test_no_byte_of_the_header_raises_anything_else() -> None:
    for place in range(len(WHOLE) - CODES.nbytes):
        for byte in b"\0(){}[],:'0 -e\\\xff":
            data = WHOLE[:place] + bytes([byte]) + WHOLE[place + 1 :]
            try:
                found = read_npy(data)
            except ValueError:
                continue
            assert found.size <= CODES.nbytes
