import socket

assert ("127.0.0.1", 80) in [a[4] for a in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)]
assert socket.gethostbyname("127.0.0.1") == "127.0.0.1"
socket.gethostname()
a, b = socket.socketpair()
a.send(b"x")
assert b.recv(1) == b"x"
