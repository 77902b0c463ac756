import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory


def square(n):
    return n * n


def fill(name):
    block = shared_memory.SharedMemory(name)
    block.buf[0] = 42
    block.close()


if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with mp.get_context(method).Pool(3) as pool:
            assert sum(pool.map(square, range(100))) == 328350
    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, [1, 2, 3])) == [1, 4, 9]
    block = shared_memory.SharedMemory(create=True, size=1 << 20)
    p = mp.Process(target=fill, args=(block.name,))
    p.start()
    p.join()
    assert block.buf[0] == 42
    block.close()
    block.unlink()
