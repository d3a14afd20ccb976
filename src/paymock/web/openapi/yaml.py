"""Readable YAML."""

from typing import Any

import yaml


def to_yaml(value: dict[str, Any]) -> str:
    """Return `value` as YAML: in its own order, long texts as blocks, no anchors."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Return True: anchors make a document hard to read."""
        return True


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _text)
