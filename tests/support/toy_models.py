"""`python -m tests.support.toy_models COMMAND ...`: the command line with toys in the place of all models."""

from tests.support.toy_codec import use_toy_codec
from tests.support.toy_voice import use_toy_voice


def main() -> None:
    from prepcli.cli.app import main

    use_toy_codec(setattr)
    use_toy_voice(setattr)
    main()


if __name__ == "__main__":
    main()
