# A terminal of its own, as an agent's tool gives it to its shell: stop a job
# with ^Z, see it in the list, continue it.
cat >rc <<'RC'
PS1='ready> '
RC
cat >session.py <<'PY'
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "--noprofile", "--rcfile", "rc", "-i"])
seen = b""
def until(text):
    global seen
    end = time.time() + 10
    while text not in seen:
        if time.time() > end:
            sys.exit(f"waited for {text}, saw {seen}")
        seen += os.read(terminal, 4096)
    print(seen.decode(errors="replace"))
    seen = seen.split(text, 1)[1]
until(b"ready> ")
# No shell, which a stop between its fork and the exec would leave waiting.
os.write(terminal, b"""python3 -c "import time; print('sta' 'rted', flush=True); time.sleep(100)"\n""")
until(b"started")
os.write(terminal, b"\x1a")
until(b"Stopped")
os.write(terminal, b"bg; kill %1; wait %1; stty size; tty; exit 7\n")
until(b"/dev/pts/")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
PY
python3 session.py
script -qec 'test -t 1 && tty' /dev/null
