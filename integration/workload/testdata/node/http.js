const http = require("http"), assert = require("assert");

const server = http.createServer((req, res) => res.end("content")).listen(0, "127.0.0.1", async () => {
  const url = `http://127.0.0.1:${server.address().port}/`;
  const answers = await Promise.all([1, 2, 3, 4].map(() => fetch(url).then((r) => r.text())));
  assert.deepStrictEqual(answers, Array(4).fill("content"));
  server.close();
  server.closeAllConnections();
});
