#!/usr/bin/env python3
"""Seeds for segy_fuzz and segy_traces_fuzz from the small SEG-Y files of a folder.

Usage: make_segy_seeds.py DATA CORPUS. Each seed of segy_fuzz is a file behind the eight bytes that choose the options; the folder
CORPUS/traces gets trace headers and samples behind the six bytes that segy_traces_fuzz takes.
"""

import pathlib
import sys

LARGEST = 24000
CHOICES = [bytes(8), bytes([16, 0, 0, 0, 0, 0, 0, 0]), bytes([0, 0, 0, 2 + 4 * 1 + 16 * 2, 1, 0, 0, 0]), bytes([8, 0, 0, 3, 4, 0, 0, 0])]


def main():
    data, corpus = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    (corpus / "files").mkdir(parents=True, exist_ok=True)
    (corpus / "traces").mkdir(parents=True, exist_ok=True)
    paths = [p for p in sorted(data.rglob("*")) if p.suffix.lower() in (".sgy", ".segy", ".su") and p.is_file()]
    for number, path in enumerate(paths):
        content = path.read_bytes()
        if len(content) > LARGEST:
            content = content[:3600 + 4 * 600]
        for choice, options in enumerate(CHOICES):
            (corpus / "files" / f"{number:02}-{choice}-{path.stem}").write_bytes(options + content)
        for form in range(14):
            options = bytes([number % 64, form, 7, 1, 1, 3])
            (corpus / "traces" / f"{number:02}-{form}").write_bytes(options + content[3600 : 3600 + 900])


main()
