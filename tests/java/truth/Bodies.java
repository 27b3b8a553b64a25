import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONFactory;
import com.alibaba.fastjson2.reader.FieldReader;
import com.alibaba.fastjson2.reader.ObjectReader;
import com.alibaba.fastjson2.reader.ObjectReaderBean;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * How RemotingSerializable reads spellings of JSON that its own writer never uses: for each field of the named body classes, and
 * of the classes that they hold, spellings of values that suit its Java type, and what the member is afterwards.  What becomes of
 * a spelling turns out to depend on the type alone, so it is reported once per type.  Prints one JSON object: `classes` (fields with
 * their type, and their value when they are missing), `types` (given -> what became of it, "!" when the body was refused) and
 * `whole` (bodies -> `null`, `{}` for an object, "!"), all of them texts of JSON.  Run by `python -m conformance.truth`.
 */
public final class Bodies {
    private static final String[] PACKAGES = {
        "org.apache.rocketmq.remoting.protocol.body.", "org.apache.rocketmq.remoting.protocol.heartbeat.",
        "org.apache.rocketmq.remoting.protocol.subscription.", "org.apache.rocketmq.remoting.protocol.route.",
        "org.apache.rocketmq.remoting.protocol.admin.", "org.apache.rocketmq.remoting.protocol.header.",
        "org.apache.rocketmq.remoting.protocol.", "org.apache.rocketmq.",
    };
    private static final String REFUSED = "!";

    /** Spellings of one value. */
    private static final List<String> VALUES = List.of(
        "null", "true", "false", "0", "1", "2", "7", "-1", "5.0", "1.5", "1e2", "2147483647", "2147483648", "-2147483649",
        "9223372036854775807", "9223372036854775808", "\"\"", "\" \"", "\"0\"", "\"1\"", "\"2\"", "\"7\"", "\" 1\"", "\"1 \"", "\"+1\"",
        "\"-1\"", "\"007\"", "\"1.0\"", "\"1.5\"", "\"1e2\"", "\"0x10\"", "\"1L\"", "\"1,000\"", "\"-1.5\"", "-1.5", "1e-2", "1e22", "1.25e-7", "\".5\"", "\"1.\"", "\"-\"", "\"2147483648\"",
        "\"9223372036854775807\"", "\"9223372036854775808\"", "\"true\"", "\"false\"", "\"True\"", "\"TRUE\"", "\"yes\"", "\"on\"",
        "\"Y\"", "\"y\"", "\"N\"", "\"T\"", "\"FALSE\"", "\"Null\"", "\"null\"", "\"NULL\"", "\"abc\"", "\"\u00e4\"", "[]", "[1]", "[true]", "[\"a\"]", "[\"1\"]", "[\"a\",\"b\"]", "[1,2]", "[null]", "{}", "{\"a\":1}", "\"[]\"",
        "\"{}\"", "\"[1]\"", "\"{\\\"a\\\":1}\"");
    /** Spellings of keys of a table. */
    private static final List<String> KEYS = List.of(
        "\"0\"", "0", "\"a\"", "-1", "\"\"", "\"1.5\"", "\"null\"", "{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}",
        "{\"brokerName\":\"b\",\"queueId\":\"0\",\"topic\":5}", "{\"topic\":\"t\"}", "{}",
        "\"{\\\"brokerName\\\":\\\"b\\\",\\\"queueId\\\":0,\\\"topic\\\":\\\"t\\\"}\"");
    /** What is held in a list or a table, where that is no single value. */
    private static final List<String> HELD = List.of("null", "1", "\"\"", "\"abc\"", "\"null\"", "[]", "[{}]", "{}", "{\"noSuchField\":1}");
    /** Whole bodies. */
    private static final List<String> WHOLE = List.of(
        "", " ", "null", "[]", "[{}]", "1", "\"\"", "\"null\"", "\"{}\"", "{}", " {} ", "{}x", "{}{}", "{\"\u00e4\":[{}]}",
        "{\"noSuchField\":{\"a\":[1,null,{\"b\":[]}]}}", "{", "{\"a\"", "{\"a\":1,}", "{,}", "{'a':1}", "{a:1}", "{/**/}");

    public static void main(String[] names) throws Exception {
        Deque<Class<?>> waiting = new ArrayDeque<>();
        for (String name : names) {
            waiting.add(named(name));
        }
        Set<Class<?>> seen = new LinkedHashSet<>(waiting);
        Map<String, Object> classes = new TreeMap<>();
        Map<String, Object> types = new TreeMap<>();
        Map<String, Object> whole = null;
        while (!waiting.isEmpty()) {
            Class<?> c = waiting.remove();
            Map<String, Object> fields = new TreeMap<>();
            for (FieldReader<?> reader : readers(c)) {
                String name = reader.fieldName;
                String type = reader.fieldType.getTypeName().replaceAll("[a-z]\\w*\\.", "");
                Map<String, Object> field = new TreeMap<>();
                field.put("type", type);
                field.put("missing", member(c, name, "{}"));
                fields.put(name, field);
                Map<String, Object> read = new TreeMap<>();
                for (String given : spellings(reader.fieldType)) {
                    read.put(given, member(c, name, "{\"" + name + "\":" + given + "}"));
                }
                same(types.put(type, read), read, c + "." + name);
                beans(reader.fieldType).stream().filter(seen::add).forEach(waiting::add);
            }
            Map<String, Object> row = new TreeMap<>();
            row.put("class", c.getName());
            row.put("fields", fields);
            classes.put(c.getSimpleName(), row);
            Map<String, Object> read = whole(c);
            same(whole, read, c.getName());
            whole = read;
        }
        System.out.println(JSON.toJSONString(Map.of("classes", classes, "types", types, "whole", whole)));
    }

    /** What is reported once for all must be the same everywhere. */
    private static void same(Object before, Object now, String where) {
        if (before != null && !before.equals(now)) {
            throw new IllegalStateException(where + " is read differently: " + before + " and " + now);
        }
    }

    private static Class<?> named(String simpleName) throws ClassNotFoundException {
        for (String where : PACKAGES) {
            try {
                return Class.forName(where + simpleName);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(simpleName);
    }

    private static FieldReader<?>[] readers(Class<?> c) throws Exception {
        ObjectReader<?> reader = JSONFactory.getDefaultObjectReaderProvider().getObjectReader(c);
        for (Class<?> k = reader.getClass(); k != null; k = k.getSuperclass()) {
            for (Field field : k.getDeclaredFields()) {
                if (field.getType() == FieldReader[].class && field.getName().equals("fieldReaders")) {
                    field.setAccessible(true);
                    return Arrays.stream((FieldReader<?>[]) field.get(reader)).toArray(FieldReader<?>[]::new);
                }
            }
        }
        throw new IllegalStateException(c + " is read by " + reader.getClass());
    }

    private static Map<String, Object> whole(Class<?> c) {
        Map<String, Object> read = new TreeMap<>();
        for (String given : WHOLE) {
            try {
                read.put(given, RemotingSerializable.decode(given.getBytes(StandardCharsets.UTF_8), c) == null ? "null" : "{}");
            } catch (Throwable refused) {
                read.put(given, REFUSED);
            }
        }
        return read;
    }

    /** The member of that name of a body, or how the body was refused. */
    private static Object member(Class<?> c, String name, String text) throws Exception {
        Object body;
        try {
            body = RemotingSerializable.decode(text.getBytes(StandardCharsets.UTF_8), c);
        } catch (Throwable refused) {
            return REFUSED;
        }
        for (Class<?> owner = c; owner != Object.class; owner = owner.getSuperclass()) {
            for (Field field : owner.getDeclaredFields()) {
                String own = field.getName();
                if (!Modifier.isStatic(field.getModifiers()) && (own.equals(name) || own.equals("is" + name.substring(0, 1).toUpperCase() + name.substring(1)))) {
                    field.setAccessible(true);
                    return shown(field.get(body));
                }
            }
        }
        for (String prefix : List.of("get", "is")) {
            try {
                Method getter = c.getMethod(prefix + name.substring(0, 1).toUpperCase() + name.substring(1));
                return shown(getter.invoke(body));
            } catch (NoSuchMethodException none) {
                continue;
            }
        }
        return "?";
    }

    private static String shown(Object value) {
        return JSON.toJSONString(value).replaceAll("(\"(?:subVersion|timestamp|lastUpdateTimestamp)\":)1[6-9]\\d{11}\\b", "$1\"clock\"")
            .replaceAll("^1[6-9]\\d{11}$", "\"clock\"");
    }

    private static Set<String> spellings(Type type) {
        Class<?> raw = (Class<?>) (type instanceof ParameterizedType p ? p.getRawType() : type);
        Set<String> found = new LinkedHashSet<>(VALUES);
        if (raw.isEnum()) {
            for (Object constant : raw.getEnumConstants()) {
                found.add("\"" + constant + "\"");
                found.add("\"" + constant.toString().toLowerCase() + "\"");
                found.add("\"" + constant.toString().replace("_", "") + "\"");
                found.add(Integer.toString(((Enum<?>) constant).ordinal()));
                found.add("\"" + ((Enum<?>) constant).ordinal() + "\"");
            }
        }
        if (type instanceof ParameterizedType p && Collection.class.isAssignableFrom(raw)) {
            for (String inner : held(p.getActualTypeArguments()[0])) {
                found.add("[" + inner + "]");
            }
        } else if (type instanceof ParameterizedType p && Map.class.isAssignableFrom(raw)) {
            String key = p.getActualTypeArguments()[0] == String.class ? "\"a\"" : "0";
            if (p.getActualTypeArguments()[0].getTypeName().endsWith("MessageQueue")) {
                key = "{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}";
            }
            for (String inner : held(p.getActualTypeArguments()[1])) {
                found.add("{" + key + ":" + inner + "}");
            }
            String value = p.getActualTypeArguments()[1] instanceof ParameterizedType || !beans(p.getActualTypeArguments()[1]).isEmpty() ? "{}" : "1";
            for (String k : KEYS) {
                found.add("{" + k + ":" + value + "}");
            }
        }
        return found;
    }

    private static Collection<String> held(Type type) {
        return type instanceof ParameterizedType || !beans(type).isEmpty() ? HELD : spellings(type);
    }

    /** The classes of RocketMQ's own that are held in a value of this type. */
    private static List<Class<?>> beans(Type type) {
        List<Class<?>> found = new ArrayList<>();
        if (type instanceof ParameterizedType p) {
            for (Type inner : p.getActualTypeArguments()) {
                found.addAll(beans(inner));
            }
        } else if (type instanceof Class<?> c && c.getName().startsWith("org.apache.rocketmq.") && !c.isEnum() && !c.isInterface()
                && !Modifier.isAbstract(c.getModifiers())) {
            found.add(c);
        }
        return found;
    }
}
