[ "$(PGCONNECT_TIMEOUT=10 psql -h $1 -U postgres -At -c 'select 6 * 7')" = 42 ]
