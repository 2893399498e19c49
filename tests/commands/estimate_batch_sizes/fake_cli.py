"""The command line, with a toy in the child: `python -m tests.commands.estimate_batch_sizes.fake_cli COMMAND`."""

from prepcli.commands.estimate_batch_sizes import job
from tests.commands.estimate_batch_sizes import fake_child


def main() -> None:
    from prepcli.cli.app import main

    vars(job).update(ModelTrainer=fake_child.make, check_device=lambda device: None)
    main()


if __name__ == "__main__":
    main()
