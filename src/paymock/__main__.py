"""`python -m paymock` is the command `paymock`."""

from paymock.cli import main

main()
