import queue, threading
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(16) as pool:
    assert sum(pool.map(lambda n: n * n, range(1000))) == 332833500
q, done = queue.Queue(10), []
consumer = threading.Thread(target=lambda: done.extend(iter(q.get, None)))
consumer.start()
for n in range(1000):
    q.put(n)
q.put(None)
consumer.join()
assert done == list(range(1000))
