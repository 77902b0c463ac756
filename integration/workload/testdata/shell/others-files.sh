# As a project's folder that belongs to the user outside, mounted into a
# container whose user is root.
cat /home/worker/.bashrc >/dev/null
echo more >>/home/worker/.bashrc
