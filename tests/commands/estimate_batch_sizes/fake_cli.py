"""The command line, with a toy in the child: `python -m tests.commands.estimate_batch_sizes.fake_cli COMMAND`."""

from prepcli.commands.estimate_batch_sizes import children


def main() -> None:
    from prepcli.cli.app import main

    children.MODULE = "tests.commands.estimate_batch_sizes.fake_child"
    main()


if __name__ == "__main__":
    main()
