import fcntl, mmap, os, tempfile

with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile(dir=d) as f, tempfile.TemporaryFile() as anonymous:
    f.truncate(1 << 20)
    with mmap.mmap(f.fileno(), 0) as m:
        m[:5] = b"hello"
    assert os.pread(f.fileno(), 5, 0) == b"hello"
    fcntl.flock(f, fcntl.LOCK_EX)
    anonymous.write(b"x")
    os.link(f.name, os.path.join(d, "link"))
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
