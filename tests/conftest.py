"""What holds for all tests."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped, also when none was; `-rs` names them."""
    terminalreporter.write_line(f"skips: {len(terminalreporter.stats.get('skipped', ()))}")
