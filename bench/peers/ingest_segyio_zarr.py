"""SEG-Y into Zarr with segyio and zarr, as one would write it by hand: samples and grid only.

Usage: ingest_segyio_zarr.py FILE STORE THREADS. Prints the seconds that it took, without the imports. Exits with 3 when a library is
missing. The codec is that of craton's own stores: blosc, zstd level 3, byte shuffle, chunks of 64 x 64 x 64.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

try:
    import numcodecs
    import numpy as np
    import segyio
    import zarr
except ImportError as error:
    print(f"ingest_segyio_zarr: {error}", file=sys.stderr)
    sys.exit(3)

EDGE = 64


def main():
    path, store, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    numcodecs.blosc.use_threads = False  # one chunk per thread, as many threads as on the other side
    start = time.perf_counter()
    with segyio.open(path, iline=189, xline=193) as f:
        ilines, xlines, samples = f.ilines.copy(), f.xlines.copy(), f.samples.copy()
    shape = (len(ilines), len(xlines), len(samples))
    root = zarr.open_group(store, mode="w")
    codec = numcodecs.Blosc(cname="zstd", clevel=3, shuffle=numcodecs.Blosc.SHUFFLE)
    data = root.create_dataset("amplitude", shape=shape, chunks=(EDGE, EDGE, EDGE), dtype="<f4", compressor=codec)
    for name, values in (("inline", ilines), ("crossline", xlines), ("time", samples)):
        root.create_dataset(name, data=np.asarray(values))

    def copy(first):
        last = min(first + EDGE, shape[0])
        with segyio.open(path, iline=189, xline=193, ignore_geometry=True) as f:
            slab = f.trace.raw[first * shape[1] : last * shape[1]]
        data[first:last] = slab.reshape(last - first, shape[1], shape[2])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(copy, range(0, shape[0], EDGE)))
    print(time.perf_counter() - start)


main()
