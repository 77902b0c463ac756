choom -n 500 -- sh -c '[ "$(cat /proc/self/oom_score_adj)" = 500 ]'
