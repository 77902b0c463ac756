const { execFileSync, fork, spawn } = require("child_process");
const assert = require("assert");

if (process.argv[2] === "child") {
  process.on("message", (m) => { process.send(m * 2); process.disconnect(); });
} else {
  assert.strictEqual(execFileSync("cat", { input: "text" }).toString(), "text");
  const p = fork(__filename, ["child"]);
  p.on("message", (m) => assert.strictEqual(m, 42));
  p.send(21);
  p.on("exit", (code) => assert.strictEqual(code, 0));
  spawn("sh", ["-c", "kill -9 $$"]).on("exit", (code, signal) => assert.strictEqual(signal, "SIGKILL"));
}
