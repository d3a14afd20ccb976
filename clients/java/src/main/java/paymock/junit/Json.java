package paymock.junit;

import java.math.BigDecimal;
import java.util.*;
import java.util.regex.*;
import java.util.stream.Collectors;

/** JSON as Map, List, String, BigDecimal, Boolean and null. */
public final class Json {
    private static final Pattern TOKEN = Pattern.compile(
        "[{}\\[\\]]|\"[^\"\\\\]*+(?:\\\\.[^\"\\\\]*+)*+\"|[^\\s{}\\[\\]:,\"]++");
    private static final Pattern ESCAPE = Pattern.compile("\\\\(u(....)|.)");

    private Json() {}

    /** The value below names of members and indexes of elements: {@code at(payment, "attempts", 0, "status")}. */
    @SuppressWarnings("unchecked")
    public static <T> T at(Object json, Object... path) {
        for (var step : path) {
            json = step instanceof Integer index ? ((List<?>) json).get(index) : ((Map<?, ?>) json).get(step);
        }
        return (T) json;
    }

    /** Reads what a server has written; other text leads to any RuntimeException. */
    static Object read(String text) {
        var tokens = TOKEN.matcher(text).results().map(MatchResult::group).iterator();
        return value(tokens.next(), tokens);
    }

    private static Object value(String token, Iterator<String> tokens) {
        if (token.equals("{")) {
            var map = new LinkedHashMap<String, Object>();
            for (var name = tokens.next(); !name.equals("}"); name = tokens.next()) {
                map.put(string(name), value(tokens.next(), tokens));
            }
            return map;
        }
        if (token.equals("[")) {
            var list = new ArrayList<>();
            for (var next = tokens.next(); !next.equals("]"); next = tokens.next()) {
                list.add(value(next, tokens));
            }
            return list;
        }
        return switch (token) {
            case "true", "false" -> Boolean.valueOf(token);
            case "null" -> null;
            default -> token.startsWith("\"") ? string(token) : new BigDecimal(token);
        };
    }

    private static String string(String token) {
        return ESCAPE.matcher(token.substring(1, token.length() - 1)).replaceAll(escape -> {
            var at = "bfnrt".indexOf(escape.group(1));
            return Matcher.quoteReplacement(escape.group(2) != null ? Character.toString(Integer.parseInt(escape.group(2), 16))
                : at < 0 ? escape.group(1) : "\b\f\n\r\t".substring(at, at + 1));
        });
    }

    /** Writes maps, lists, numbers, booleans and null, and anything else as a string. */
    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(member -> write(member.getKey().toString()) + ":" + write(member.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        } else if (value instanceof List<?> list) {
            return list.stream().map(Json::write).collect(Collectors.joining(",", "[", "]"));
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        return '"' + Pattern.compile("[\"\\\\\\x00-\\x1f]").matcher(value.toString())
            .replaceAll(found -> "\\\\u%04x".formatted((int) found.group().charAt(0))) + '"';
    }
}
