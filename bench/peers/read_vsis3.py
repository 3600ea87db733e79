"""Whole objects of a bucket by GDAL's /vsis3 or /vsis3_streaming, one process for each.

Usage: read_vsis3.py ORIGIN HANDLER COUNT BYTES REPEATS. Reads object0, object1, ... of the bucket "bucket", of so many bytes each, so
often. Exits with 1 when an object is not read in full.
"""

import os
import sys

from osgeo import gdal

PIECE = {"vsis3": 4 << 20, "vsis3_streaming": 256 << 10}


def read(path, size, piece):
    gdal.VSICurlClearCache()
    file = gdal.VSIFOpenL(path, "rb")
    if file is None:
        sys.exit(f"{path}: {gdal.GetLastErrorMsg() or 'not found'}")
    total = 0
    while data := gdal.VSIFReadL(1, piece, file):
        total += len(data)
    gdal.VSIFCloseL(file)
    if total != size:
        sys.exit(f"{path}: {total} of {size} bytes")


def main():
    origin, handler, count, size, repeats = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    settings = {
        "AWS_NO_SIGN_REQUEST": "YES",
        "AWS_S3_ENDPOINT": origin.removeprefix("http://"),
        "AWS_HTTPS": "NO",
        "AWS_VIRTUAL_HOSTING": "FALSE",
        "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
        "CPL_VSIL_CURL_CHUNK_SIZE": str(1 << 20),
    }
    for name, value in settings.items():
        gdal.SetConfigOption(name, value)
    children = []
    for i in range(count):
        child = os.fork()
        if child == 0:
            for _ in range(repeats):
                read(f"/{handler}/bucket/object{i}", size, PIECE[handler])
            sys.exit(0)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    sys.exit(1 if failed else 0)


main()
