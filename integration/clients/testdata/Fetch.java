import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.WebSocket;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/** Prints what is at a URL, fetched in one of the ways that Java has. */
public class Fetch {
    public static void main(String[] args) {
        try {
            System.out.print(fetch(args[0], URI.create(args[1])));
        } catch (Throwable t) {
            for (; t != null; t = t.getCause()) System.err.println(t);
            System.exit(1);
        }
        System.exit(0);
    }

    static String fetch(String how, URI at) throws Exception {
        switch (how) {
            case "url":
                try (var in = at.toURL().openStream()) { return new String(in.readAllBytes()); }
            case "client":
                return HttpClient.newHttpClient().send(HttpRequest.newBuilder(at).build(), BodyHandlers.ofString()).body();
            default:
                var answer = new CompletableFuture<String>();
                HttpClient.newHttpClient().newWebSocketBuilder().buildAsync(at, new WebSocket.Listener() {
                    public CompletionStage<?> onText(WebSocket socket, CharSequence text, boolean last) {
                        answer.complete(text.toString());
                        return null;
                    }
                    public void onError(WebSocket socket, Throwable error) { answer.completeExceptionally(error); }
                }).get().sendText("hello", true);
                return answer.get();
        }
    }
}
