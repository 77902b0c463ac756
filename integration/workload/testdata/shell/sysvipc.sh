ipcmk --shmem 4096 --semaphore 2 --queue
ipcs | grep -q 4096
ipcrm --all
