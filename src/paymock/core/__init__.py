"""The rules: pure, without I/O and without a clock. Standard library, msgspec and pycryptodome only."""
