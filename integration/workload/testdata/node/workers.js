const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const crypto = require("crypto"), fs = require("fs"), zlib = require("zlib"), assert = require("assert");

async function main() {
  const sums = await Promise.all([1, 2, 3].map((n) => new Promise((resolve, reject) =>
    new Worker(__filename, { workerData: n }).on("message", resolve).on("error", reject))));
  assert.deepStrictEqual(sums, [1e6, 2e6, 3e6]);
  const text = Buffer.alloc(1 << 20, "text");
  const packed = await new Promise((r, e) => zlib.gzip(text, (err, z) => (err ? e(err) : r(z))));
  assert(zlib.gunzipSync(packed).equals(text));
  await new Promise((r, e) => crypto.scrypt("password", "salt", 32, (err) => (err ? e(err) : r())));
  await fs.promises.writeFile("file", text);
  const seen = new Promise((r) => { const w = fs.watch("file", () => { w.close(); r(); }); });
  await fs.promises.appendFile("file", "more");
  await seen;
}

if (isMainThread) main();
else {
  let sum = 0;
  for (let i = 0; i < 1e6; i++) sum += workerData;
  parentPort.postMessage(sum);
}
