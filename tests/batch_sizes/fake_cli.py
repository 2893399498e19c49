"""`python -m tests.batch_sizes.fake_cli COMMAND ...`: the command line with a toy in the child process."""

from prepcli.batch_sizes import children


def main() -> None:
    from prepcli.cli.app import main

    children.MODULE = "tests.batch_sizes.fake_child"
    main()


if __name__ == "__main__":
    main()
