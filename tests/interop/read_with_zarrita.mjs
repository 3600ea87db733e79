// read_with_zarrita.mjs STORES: opens the v3 stores that Craton wrote with zarrita and compares them with expected.json.
import { readFileSync } from "node:fs";
import FileSystemStore from "@zarrita/storage/fs";
import * as zarr from "zarrita";

const folder = process.argv[2];
const expected = JSON.parse(readFileSync(`${folder}/expected.json`, "utf8"));
const names = ["v3", "v3_lz4", "v3_none", "v3_sharded", "v3_int16"];

function check(what, ok) {
  if (ok) return;
  console.error(`wrong: ${what}`);
  process.exitCode = 1;
}

async function read(root, name) {
  const array = await zarr.open.v3(root.resolve(name), { kind: "array" });
  const { data, shape } = await zarr.get(array);
  return { attrs: array.attrs, names: array.dimensionNames, shape, data: data.get ? Array.from(data) : data };
}

function sameNumbers(data, wanted) {
  return data.length === wanted.length && wanted.every((v, i) => v === data[i] || (Number.isNaN(v) && Number.isNaN(data[i])));
}

function checkStatistics(name, text, live) {
  const statistics = JSON.parse(text);
  check(`${name}: count`, statistics.count === expected.count);
  check(`${name}: minimum`, statistics.min === Math.min(...live));
  check(`${name}: maximum`, statistics.max === Math.max(...live));
  const sum = live.reduce((a, b) => a + b, 0);
  check(`${name}: sum`, Math.abs(statistics.sum - sum) <= 1e-9 * Math.abs(sum));
  check(`${name}: histogram`, statistics.histogram.counts.reduce((a, b) => a + b, 0) === expected.count);
}

async function checkAxes(name, root) {
  const [inlines, crosslines, samples] = expected.shape;
  const steps = (count, first, step) => Array.from({ length: count }, (_, i) => first + step * i);
  check(`${name}: inline`, sameNumbers((await read(root, "inline")).data, steps(inlines, 101, 2)));
  check(`${name}: crossline`, sameNumbers((await read(root, "crossline")).data, steps(crosslines, 300, 1)));
  const time = await read(root, "time");
  check(`${name}: time`, sameNumbers(time.data, steps(samples, 4, 4)) && time.attrs.unitsV1.time === "ms");
  const x = steps(inlines, 600000.5, 12.5).flatMap((v) => Array(crosslines).fill(v));
  check(`${name}: cdp_x`, sameNumbers((await read(root, "cdp_x")).data, x));
  const y = Array(inlines).fill(steps(crosslines, 6000000, 25)).flat();
  check(`${name}: cdp_y`, sameNumbers((await read(root, "cdp_y")).data, y));
}

for (const name of names) {
  const root = zarr.root(new FileSystemStore(`${folder}/${name}.mdio`));
  const group = await zarr.open.v3(root, { kind: "group" });
  check(`${name}: name`, group.attrs.name === expected.name);
  check(`${name}: default variable`, group.attrs.attributes.defaultVariableName === "amplitude");
  const amplitude = await read(root, "amplitude");
  const [scale, dead] = name === "v3_int16" ? [4, 32767] : [1, NaN];
  const values = expected.values.map((v) => (v === null ? dead : v * scale));
  check(`${name}: shape`, amplitude.shape.join() === expected.shape.join());
  check(`${name}: samples`, sameNumbers(amplitude.data, values));
  check(`${name}: names of the axes`, amplitude.names.join() === "inline,crossline,time");
  check(`${name}: coordinates`, amplitude.attrs.coordinates === "cdp_x cdp_y");
  const live = expected.values.filter((v) => v !== null).map((v) => v * scale);
  checkStatistics(name, amplitude.attrs.statsV1, live);
  const mask = (await read(root, "trace_mask")).data;
  check(`${name}: mask`, mask.length === expected.mask.length && expected.mask.every((v, i) => mask[i] === v));
  await checkAxes(name, root);
}
if (!process.exitCode) console.log(`zarrita has read ${names.join(", ")}`);
