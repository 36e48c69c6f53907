"""What holds for all tests."""

import os
import signal

import pytest
from hypothesis import settings

# The suite is the same on every run; `make soak` goes looking for what nobody thought of.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


# who runs the suite in the background of a shell has these ignored, and programs under test would have them so too
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped, also when none was; `-rs` names them."""
    terminalreporter.write_line(f"skips: {len(terminalreporter.stats.get('skipped', ()))}")
