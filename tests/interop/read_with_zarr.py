"""read_with_zarr.py STORES: opens the v2 stores that Craton wrote with Debian's zarr-python and compares them with expected.json.
Exit code 77: there is no zarr here."""
import base64
import json
import os
import sys

try:
    import numpy as np
    import zarr
except ImportError as error:
    print(f"skipped: {error}; Debian's python3-zarr has it")
    sys.exit(1 if os.environ.get("CRATON_REQUIRE_INTEROP") else 77)

folder = sys.argv[1]
expected = json.load(open(f"{folder}/expected.json"))
values = np.array([np.nan if v is None else v for v in expected["values"]], dtype="<f4").reshape(expected["shape"])
mask = np.array(expected["mask"]).reshape(expected["shape"][:2])
failed = False


def check(what, ok):
    global failed
    if not ok:
        print(f"wrong: {what}")
        failed = True


def check_samples(name, samples):
    if name == "v2_int16":
        scaled = np.where(np.isnan(values), 32767, values * 4)
        check(f"{name}: samples", samples.dtype == np.int16 and np.array_equal(samples, scaled))
    elif name == "v2_zfp":
        difference = np.abs(samples - np.where(np.isnan(values), 0, values))
        check(f"{name}: samples off by {difference.max()}", difference.max() <= 0.125)
    else:
        check(f"{name}: samples", np.array_equal(samples, values, equal_nan=True))


def check_statistics(name, array, scale):
    statistics = json.loads(array.attrs["statsV1"])
    live = values[~np.isnan(values)].astype("f8") * scale
    check(f"{name}: count", statistics["count"] == expected["count"])
    for key, value in {"sum": live.sum(), "sumSquares": (live**2).sum(), "min": live.min(), "max": live.max()}.items():
        check(f"{name}: {key}", abs(statistics[key] - value) <= 1e-9 * abs(value))
    check(f"{name}: histogram", sum(statistics["histogram"]["counts"]) == expected["count"])


def check_headers(name, group):
    headers = group["headers"][:]
    inlines, crosslines = np.meshgrid(group["inline"][:], group["crossline"][:], indexing="ij")
    check(f"{name}: headers", np.array_equal(headers["inline"], inlines) and np.array_equal(headers["crossline"], crosslines))
    raw = group["raw_headers"][:]
    check(f"{name}: raw headers", raw.dtype.itemsize == 240 and raw[3, 4].tobytes()[188:192] == (107).to_bytes(4, "big"))
    header = group["segy_file_header"].attrs
    check(f"{name}: text header", header["textHeader"].startswith("C 1 interop"))
    check(f"{name}: binary header", header["binaryHeader"]["sample_interval"] == 4000)
    check(f"{name}: raw binary header", base64.b64decode(header["rawBinaryHeader"]) == b"\x01" * 400)


def check_group(name, group):
    array = group["amplitude"]
    check_samples(name, array[:])
    check(f"{name}: axes", array.attrs["_ARRAY_DIMENSIONS"] == ["inline", "crossline", "time"])
    check(f"{name}: mask", group["trace_mask"].dtype == bool and np.array_equal(group["trace_mask"][:], mask))
    for axis, first, step in (("inline", 101, 2), ("crossline", 300, 1), ("time", 4, 4)):
        size = expected["shape"][["inline", "crossline", "time"].index(axis)]
        check(f"{name}: {axis}", np.array_equal(group[axis][:], first + step * np.arange(size)) and group[axis].dtype == np.int32)
    check(f"{name}: unit of time", group["time"].attrs["unitsV1"] == {"time": "ms"})
    for axis, first, step in (("cdp_x", 600000.5, 12.5), ("cdp_y", 6000000.0, 25.0)):
        along = np.arange(mask.shape[0])[:, None] if axis == "cdp_x" else np.arange(mask.shape[1])[None, :]
        check(f"{name}: {axis}", np.array_equal(group[axis][:], np.broadcast_to(first + step * along, mask.shape)))
    check(f"{name}: name", group.attrs["name"] == expected["name"])
    check(f"{name}: default variable", group.attrs["attributes"]["defaultVariableName"] == "amplitude")
    check_statistics(name, array, 4 if name == "v2_int16" else 1)
    check_headers(name, group)


names = ["v2", "v2_lz4", "v2_int16", "v2_float64"]
if os.path.exists(f"{folder}/v2_zfp.mdio"):
    from numcodecs.registry import codec_registry

    if "zfpy" in codec_registry:
        names.append("v2_zfp")
    else:
        print("not read: v2_zfp; Debian's python3-zfpy would")
        failed = bool(os.environ.get("CRATON_REQUIRE_INTEROP"))
for name in names:
    check_group(name, zarr.open_group(f"{folder}/{name}.mdio", mode="r"))
    check_group(name, zarr.open_consolidated(f"{folder}/{name}.mdio", mode="r"))
print(f"zarr {zarr.__version__} has read {', '.join(names)}")
sys.exit(failed)
