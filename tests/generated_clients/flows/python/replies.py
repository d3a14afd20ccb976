"""Reads each reply with the client, openapi-generator's for Python, and prints why it fails, by name."""

import json
from pathlib import Path

import service

failures = {}
for name, type_name, reply in json.loads(Path("replies.json").read_text(encoding="utf-8")):
    try:
        getattr(service, type_name).from_dict(reply).to_dict()
    except Exception as error:  # noqa: BLE001 - whatever it is
        failures[name] = repr(error)
print(json.dumps(failures))
