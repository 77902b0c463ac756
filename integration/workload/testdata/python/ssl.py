# A whole handshake in memory: TLS needs no socket.
import ssl, subprocess

subprocess.run(
    "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem -out cert.pem -days 1".split(),
    check=True, capture_output=True,
)
server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile="cert.pem")
server.load_cert_chain("cert.pem", "key.pem")
up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
s = server.wrap_bio(up, down, server_side=True)
client.check_hostname = False
c = client.wrap_bio(down, up)
waiting = {s, c}
for _ in range(10):
    for side in list(waiting):
        try:
            side.do_handshake()
            waiting.discard(side)
        except ssl.SSLWantReadError:
            pass
assert not waiting
c.write(b"hello")
assert s.read() == b"hello"
print(c.version(), c.cipher())
