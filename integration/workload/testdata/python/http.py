import http.server, threading, urllib.request

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
open("page", "w").write("content")
url = f"http://localhost:{server.server_port}/page"
assert urllib.request.urlopen(url, timeout=5).read() == b"content"
server.shutdown()
