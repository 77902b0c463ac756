sqlite3 file.db 'pragma journal_mode=wal; create table t (n); insert into t values (1), (2);'
[ "$(sqlite3 file.db 'select sum(n) from t; pragma integrity_check')" = $'3\nok' ]
