cat >Sleep.java <<'J'
public class Sleep { public static void main(String[] a) throws Exception { Thread.sleep(20000); } }
J
javac Sleep.java
java -cp . Sleep &
for _ in $(seq 100); do jps -l | grep -q Sleep && break; sleep 0.1; done
jcmd -J-Dsun.tools.attach.attachTimeout=4000 $! VM.version | grep OpenJDK
kill $!
