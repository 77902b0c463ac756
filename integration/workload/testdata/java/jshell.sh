# The shell and the machine that runs its lines talk over a loopback socket.
echo 'System.out.println(6 * 7)' | jshell -s -
