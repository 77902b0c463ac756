bwrap --ro-bind / / --unshare-ipc true
