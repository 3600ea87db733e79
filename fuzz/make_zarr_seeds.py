#!/usr/bin/env python3
"""make_zarr_seeds.py DATA CORPUS: seeds for zarr_fuzz from the sample stores: metadata with one chunk each, shards, frames."""
import json
import pathlib
import sys

data, corpus = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
corpus.mkdir(parents=True, exist_ok=True)
count = 0


def seed(mode, content):
    global count
    (corpus / f"seed{count:03}").write_bytes(bytes([mode]) + content)
    count += 1


for document in sorted(data.rglob("zarr.json")) + sorted(data.rglob(".zarray")):
    v3 = document.name == "zarr.json"
    metadata = json.loads(document.read_text())
    if v3 and metadata.get("node_type") != "array":
        continue
    metadata.pop("attributes", None)
    chunks = [p for p in document.parent.rglob("*") if p.is_file() and p.name not in ("zarr.json", ".zarray", ".zattrs")]
    chunk = min(chunks, key=lambda p: p.stat().st_size).read_bytes() if chunks else b""
    if len(chunk) > 20000:
        continue
    seed(0 if v3 else 1, json.dumps(metadata, separators=(",", ":")).encode() + b"\0" + chunk)
    codecs = json.dumps(metadata)
    for mode, name in enumerate(["blosc", "zstd", "gzip", "zlib", "lz4", "bz2"], start=4):
        if f'"{name}"' in codecs or f"numcodecs.{name}" in codecs:
            seed(mode, chunk)
print(f"{count} seeds in {corpus}")
