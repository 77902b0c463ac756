import sqlite3

db = sqlite3.connect("file.db")
db.execute("pragma journal_mode=wal")
db.execute("create table t (n integer primary key, s text)")
with db:
    db.executemany("insert into t (s) values (?)", [(str(n),) for n in range(10000)])
other = sqlite3.connect("file.db")
assert other.execute("select count(*), max(n) from t").fetchone() == (10000, 10000)
