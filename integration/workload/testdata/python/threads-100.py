import threading

gate = threading.Event()
threads = [threading.Thread(target=gate.wait, daemon=True) for _ in range(100)]
for t in threads:
    t.start()
gate.set()
for t in threads:
    t.join()
