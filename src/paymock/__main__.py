"""Entry point of `paymock` and `python -m paymock`."""

import gc
import sys

_INTERRUPTED = 130
"""128 plus the number of SIGINT: what a shell reports of an interrupted command."""


def main() -> None:
    """Run the command line. An interrupt ends the line on which a terminal shows ^C, during imports, too."""
    try:
        gc.disable()  # what is imported lives until the end
        from paymock.cli.main import main as run  # imported here, inside the `try`

        gc.freeze()
        gc.enable()
        run()
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            sys.stderr.write("\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
