"""The command `paymock`, which is `python -m paymock` too."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line. An interrupt has an exit status even while the rest is still imported."""
    try:
        from paymock.cli.main import main as run  # here, since it takes a moment

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
