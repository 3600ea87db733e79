"""ingested_file.py CRATON DATA FOLDER: ingests a real file with dead traces to Zarr v2 and compares what Debian's zarr-python reads
with the truth that came with the file. Exit code 77: no zarr, or no sample data."""
import os
import pathlib
import subprocess
import sys

program, data, folder = (pathlib.Path(argument) for argument in sys.argv[1:])


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import numpy as np
    import zarr
except ImportError as error:
    print(f"skipped: {error}; Debian's python3-zarr has it")
    sys.exit(1 if os.environ.get("CRATON_REQUIRE_INTEROP") else 77)
data = pathlib.Path(os.environ.get("CRATON_TEST_DATA", data))
if not (data / "segysak").is_dir():
    skip(f"no sample data at {data}; set CRATON_TEST_DATA")
folder.mkdir(parents=True, exist_ok=True)
store = folder / "f3-withdead.mdio"
subprocess.run(
    [program, "volume", "ingest", data / "segysak/f3-withdead.sgy", store, "--zarr", "2", "--chunks", "8,8,32", "--replace", "--quiet"],
    check=True,
)
truth = np.load(data / "mdio_v1_layout/f3_withdead_zarr2.mdio.truth.npy")
dead = np.isnan(truth).all(axis=2)
group = zarr.open_consolidated(str(store), mode="r")
samples = group["amplitude"][:]
assert np.array_equal(group["trace_mask"][:], ~dead), "the mask"
assert samples.shape == truth.shape and np.array_equal(samples[~dead], truth[~dead]), "the samples"
assert np.array_equal(group["inline"][:], np.arange(111, 134)), "inline"
assert np.array_equal(group["crossline"][:], np.arange(875, 893)), "crossline"
assert np.array_equal(group["headers"][:]["inline"][~dead], np.broadcast_to(group["inline"][:][:, None], dead.shape)[~dead]), "headers"
print(f"zarr {zarr.__version__} has read the ingested file")
