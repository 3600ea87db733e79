"""Windows of an array of a Zarr store, read one by one as a training script would.

Usage: windows_zarr.py STORE ARRAY WINDOWS. WINDOWS holds a line "i j k di dj dk" for each. Prints the seconds that it took, without the
imports, and the sum of the samples. Exits with 3 when a library is missing.
"""

import sys
import time

try:
    import numpy as np
    import zarr
except ImportError as error:
    print(f"windows_zarr: {error}", file=sys.stderr)
    sys.exit(3)


def main():
    array = zarr.open_group(sys.argv[1], mode="r")[sys.argv[2]]
    windows = [tuple(map(int, line.split())) for line in open(sys.argv[3])]
    start = time.perf_counter()
    total = 0.0
    for i, j, k, di, dj, dk in windows:
        total += float(np.nansum(array[i : i + di, j : j + dj, k : k + dk][0, 0, :8]))
    print(time.perf_counter() - start, total)


main()
