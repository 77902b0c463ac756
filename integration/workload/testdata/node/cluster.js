const cluster = require("cluster"), http = require("http");

if (cluster.isPrimary) {
  for (let i = 0; i < 2; i++) cluster.fork();
  cluster.on("exit", () => process.exit(1));
  cluster.once("listening", async (worker, address) => {
    const text = await fetch(`http://127.0.0.1:${address.port}/`).then((r) => r.text());
    process.exit(text === "content" ? 0 : 1);
  });
} else {
  http.createServer((req, res) => res.end("content")).listen(0, "127.0.0.1");
}
