# A manager's process is spoken to over an AF_UNIX socket.
import multiprocessing as mp


def put(d, n):
    d[n] = n * n


if __name__ == "__main__":
    with mp.Manager() as manager:
        d = manager.dict()
        for p in [mp.Process(target=put, args=(d, n)) for n in range(3)]:
            p.start()
            p.join()
        assert dict(d) == {0: 0, 1: 1, 2: 4}, dict(d)
