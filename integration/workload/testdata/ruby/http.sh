ruby -rsocket -rnet/http -e '
	server = TCPServer.new("127.0.0.1", 0)
	Thread.new { c = server.accept; c.gets; c.write "HTTP/1.0 200 OK\r\n\r\ncontent"; c.close }
	raise unless Net::HTTP.get("localhost", "/", server.addr[1]) == "content"'
