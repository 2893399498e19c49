"""What these tests have counted is printed at the end."""

from collections import Counter

import pytest

COUNTED = ("faults", "power losses", "requests", "schedules")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                counts.update({name: value for name, value in report.user_properties if name in COUNTED})
    if counts:
        terminalreporter.line("disturbed runs: " + ", ".join(f"{value:,} {name}" for name, value in counts.items()))
