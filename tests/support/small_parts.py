"""`python -m tests.support.small_parts COMMAND ...`: the command line with small parts of uploads, and a toy codec.

So that small objects are uploads in parts too, of which a killed process leaves some behind.
"""

import sys


def main() -> None:
    from prepcli.cli.app import main
    from prepcli.storage import client

    if "extend-codec-codes" in sys.argv:
        from tests.support.toy_codec import use_toy_codec

        use_toy_codec(setattr)
        client.PART_BYTES = 16 << 10
    else:
        client.PART_BYTES = 256 << 10
    main()


if __name__ == "__main__":
    main()
