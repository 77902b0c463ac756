python3 -P /workload/python/manager.py
