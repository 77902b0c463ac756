ruby -rjson -rdigest -rtempfile -e '
	threads = 8.times.map { |n| Thread.new { n * n } }
	raise unless threads.sum(&:value) == 140
	r, w = IO.pipe
	pid = fork { r.close; w.write JSON.dump(a: 1); exit! 3 }
	w.close
	raise unless JSON.parse(r.read) == { "a" => 1 }
	raise unless Process.wait2(pid)[1].exitstatus == 3
	Tempfile.create { |f| f.write "x" }
	raise unless 3.times.map { |n| Ractor.new(n) { |m| m } }.sum(&:take) == 3'
