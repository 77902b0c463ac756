tmux -f /dev/null new-session -d -s work 'sh -c "echo in the pane; sleep 50"'
for _ in $(seq 50); do tmux capture-pane -p -t work | grep -q 'in the pane' && break; sleep 0.1; done
tmux capture-pane -p -t work | grep 'in the pane'
tmux kill-server
