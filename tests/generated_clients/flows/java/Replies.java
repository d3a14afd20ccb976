// Reads each reply with the client, openapi-generator's for Java, library native, and prints why it fails, by name.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.LinkedHashMap;
import java.util.Map;
import service.ApiClient;
import service.model.Payment;

class Replies {
    public static void main(String[] arguments) throws Exception {
        var mapper = new ObjectMapper();
        var client = ApiClient.createDefaultObjectMapper();
        Map<String, String> failures = new LinkedHashMap<>();
        for (var one : mapper.readTree(new File("replies.json"))) {
            var name = one.get(0).asText();
            try {
                var type = Class.forName("service.model." + one.get(1).asText());
                var read = client.readValue(mapper.writeValueAsString(one.get(2)), type);
                if (read instanceof Payment payment && payment.getAttempts().get(0).getInstructions() == null) {
                    throw new IllegalStateException("no instructions");
                }
                client.writeValueAsString(read);
            } catch (Exception error) {
                failures.put(name, String.valueOf(error.getMessage()));
            }
        }
        System.out.println(mapper.writeValueAsString(failures));
    }
}
