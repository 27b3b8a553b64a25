package rmq;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.SqlFilter;

/**
 * What the stock evaluator makes of selectors.
 *
 * Standard input: a selector a line, and sets of properties behind it, all separated by tabs and URL-encoded; a set is
 * `name=value` pairs with `&` between them.  Standard output: a line each: `! message` when it does not compile, else a letter for
 * each set: T, F, N for null, X when evaluating fails.
 */
public final class Selectors {
    private Selectors() {
    }

    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
        out.flush();
    }

    private static String answer(String[] words) throws Exception {
        Expression compiled;
        try {
            compiled = new SqlFilter().compile(URLDecoder.decode(words[0], "UTF-8"));
        } catch (Exception e) {
            return "! " + URLEncoder.encode(String.valueOf(e.getMessage()), "UTF-8");
        }
        StringBuilder outcomes = new StringBuilder();
        for (int at = 1; at < words.length; at++) {
            outcomes.append(outcome(compiled, properties(words[at])));
        }
        return outcomes.toString();
    }

    private static char outcome(Expression compiled, Map<String, String> properties) {
        try {
            Object value = compiled.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return new HashMap<>(properties);
                }
            });
            return value == null ? 'N' : (Boolean) value ? 'T' : 'F';
        } catch (Throwable e) {
            return 'X';
        }
    }

    private static Map<String, String> properties(String text) throws Exception {
        Map<String, String> properties = new HashMap<>();
        for (String pair : text.split("&")) {
            int end = pair.indexOf('=');
            if (end > 0) {
                properties.put(URLDecoder.decode(pair.substring(0, end), "UTF-8"), URLDecoder.decode(pair.substring(end + 1), "UTF-8"));
            }
        }
        return properties;
    }
}
