"""The command `tugline`. `--version` and `--help` are answered before anything heavy is imported."""

import sys


def main() -> int:
    """Run the command line of this process; the exit code."""
    try:
        return _main()
    except KeyboardInterrupt:
        return 130  # before anything was there that could be interrupted


def _main() -> int:
    from tugline.cli import streams  # noqa: PLC0415  imported here: start-up cost

    closed = streams.secure()
    argv = sys.argv[1:]
    if argv in (["--version"], ["-v"]):
        from tugline.cli.version import version_line  # noqa: PLC0415  imported here: start-up cost

        return streams.put(version_line())
    if argv in (["--help"], ["-h"], ["help"]):
        from tugline.cli.help import MAIN  # noqa: PLC0415  imported here: start-up cost

        return streams.put(MAIN)
    from tugline.cli.start import start  # noqa: PLC0415  imported here: start-up cost

    return start(argv, closed)


if __name__ == "__main__":
    sys.exit(main())
