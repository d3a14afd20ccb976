"""Tells which glibc an executable of PyInstaller needs; fails if it is later than the one that is given.

Run by scripts/binary: python glibc_needed.py EXECUTABLE VERSION
"""

import re
import sys
from pathlib import Path

from PyInstaller.archive.readers import CArchiveReader

_ELF = b"\x7fELF"
_NEEDED = re.compile(rb"\0GLIBC_(\d+)\.(\d+)")
_RELATIVE_RELOCATIONS = b"\0GLIBC_ABI_DT_RELR\0"  # no symbol has this version, and glibc has it since 2.36


def needed(content: bytes) -> tuple[int, int]:
    """The latest version that the string table of an ELF object names."""
    versions = {(int(major), int(minor)) for major, minor in _NEEDED.findall(content)}
    return max({(2, 0), *versions, *([(2, 36)] if _RELATIVE_RELOCATIONS in content else [])})


def main(executable: Path, most: str) -> None:
    archive = CArchiveReader(str(executable))
    contents = {name: archive.extract(name) for name in archive.toc}
    objects = {name: content for name, content in contents.items() if content.startswith(_ELF)}
    found = {
        name: needed(content) for name, content in {"its loader": executable.read_bytes(), **objects}.items()
    }
    limit = tuple(map(int, most.split(".")))
    over = [
        f"  {name} needs {'.'.join(map(str, version))}" for name, version in found.items() if version > limit
    ]
    if over:
        sys.exit("\n".join([f"paymock: more than glibc {most} is needed:", *sorted(over)]))
    size = executable.stat().st_size / 1e6
    print(f"{size:.1f} MB; needs glibc {'.'.join(map(str, max(found.values())))} or later")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
