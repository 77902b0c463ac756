import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

public class Web {
    public static void main(String[] args) throws Exception {
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 7);
            exchange.getResponseBody().write("content".getBytes());
            exchange.close();
        });
        server.start();
        var uri = URI.create("http://localhost:" + server.getAddress().getPort() + "/");
        var answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString());
        System.out.println(answer.body());
        System.exit(answer.body().equals("content") ? 0 : 1);
    }
}
