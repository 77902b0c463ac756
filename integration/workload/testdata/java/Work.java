import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;

public class Work {
    public static void main(String[] args) throws Exception {
        var count = new AtomicInteger();
        var pool = Executors.newFixedThreadPool(16);
        for (int i = 0; i < 1000; i++) {
            pool.submit(count::incrementAndGet);
        }
        pool.shutdown();
        pool.awaitTermination(10, java.util.concurrent.TimeUnit.SECONDS);
        long sum = IntStream.range(0, 1_000_000).parallel().asLongStream().sum();
        var child = new ProcessBuilder("echo", "child").start();
        var said = new String(child.getInputStream().readAllBytes()).strip();
        System.out.println(count + " " + sum + " " + said);
    }
}
