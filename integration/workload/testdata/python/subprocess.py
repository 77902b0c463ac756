import subprocess, sys

out = subprocess.run(["sort", "-n"], input="3\n1\n2\n", capture_output=True, text=True, check=True).stdout
assert out == "1\n2\n3\n", out
with subprocess.Popen([sys.executable, "-c", "input(); print('bye')"], stdin=-1, stdout=-1, start_new_session=True) as p:
    assert p.communicate(b"\n", timeout=10)[0] == b"bye\n"
try:
    subprocess.run(["sleep", "10"], timeout=0.2)
    sys.exit("no timeout")
except subprocess.TimeoutExpired:
    pass
assert subprocess.run("kill -TERM $$", shell=True).returncode == -15
