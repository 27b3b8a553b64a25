import java.io.File;
import java.lang.annotation.Annotation;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.jar.JarFile;

/**
 * Reads constants, command headers and configuration defaults out of the RocketMQ jars on the class path by reflection and
 * prints them as one JSON object.  It knows no version: a class that a version lacks is left out.  Run by
 * `python -m conformance.truth`, which runs it twice under different circumstances to tell which defaults depend on them.
 */
public final class Truth {
    /** Where 5.x and 4.9 keep the protocol classes. */
    private static final String[] PROTOCOL = {"org.apache.rocketmq.remoting.protocol.", "org.apache.rocketmq.common.protocol."};

    /** The classes whose fields are configuration keys or the defaults of a stored configuration. */
    private static final String[] CONFIGURATIONS = {
        "org.apache.rocketmq.common.BrokerIdentity", "org.apache.rocketmq.common.BrokerConfig",
        "org.apache.rocketmq.store.config.MessageStoreConfig",
        "org.apache.rocketmq.remoting.netty.NettyServerConfig", "org.apache.rocketmq.remoting.netty.NettyClientConfig",
        "org.apache.rocketmq.common.namesrv.NamesrvConfig", "org.apache.rocketmq.common.ControllerConfig",
        "org.apache.rocketmq.auth.config.AuthConfig", "org.apache.rocketmq.common.TopicConfig",
        "org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig",
        "org.apache.rocketmq.common.subscription.SubscriptionGroupConfig",
    };

    public static void main(String[] args) throws Exception {
        Map<String, Object> truth = new LinkedHashMap<>();
        truth.put("host", hostTexts());
        truth.put("request_codes", constants("RequestCode"));
        truth.put("response_codes", constants("ResponseCode"));
        truth.put("languages", languages());
        Class<?> version = Class.forName("org.apache.rocketmq.common.MQVersion");
        int current = version.getField("CURRENT_VERSION").getInt(null);
        truth.put("version", current);
        truth.put("version_name", version.getMethod("getVersionDesc", int.class).invoke(null, current));
        truth.put("versions", ordinals("org.apache.rocketmq.common.MQVersion$Version"));
        truth.put("message_properties", texts("org.apache.rocketmq.common.message.MessageConst", "PROPERTY_"));
        Class<?> topics = Class.forName("org.apache.rocketmq.common.topic.TopicValidator");
        truth.put("system_topics", new TreeSet<>((Collection<?>) topics.getMethod("getSystemTopicSet").invoke(null)));
        truth.put("topics_not_sendable", new TreeSet<>((Collection<?>) topics.getMethod("getNotAllowedSendTopicSet").invoke(null)));
        truth.put("headers", headers());
        truth.put("configuration", configurations());
        StringBuilder out = new StringBuilder();
        write(out, truth);
        System.out.println(out);
    }

    /** Every public static number of the named protocol class and of its parents. */
    private static Map<String, Object> constants(String simpleName) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Class<?> c = protocol(simpleName); c != Object.class; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) && Number.class.isAssignableFrom(box(field.getType()))) {
                    field.setAccessible(true);
                    found.put(field.getName(), ((Number) field.get(null)).longValue());
                }
            }
        }
        return found;
    }

    /** The public static texts of a class whose names begin so. */
    private static Map<String, Object> texts(String className, String prefix) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Field field : Class.forName(className).getFields()) {
            if (field.getType() == String.class && field.getName().startsWith(prefix)) {
                found.put(field.getName().substring(prefix.length()), field.get(null));
            }
        }
        return found;
    }

    private static Map<String, Object> languages() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Object language : protocol("LanguageCode").getEnumConstants()) {
            found.put(language.toString(), ((Number) language.getClass().getMethod("getCode").invoke(language)).longValue());
        }
        return found;
    }

    private static Map<String, Object> ordinals(String name) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Object constant : Class.forName(name).getEnumConstants()) {
            found.put(constant.toString(), (long) ((Enum<?>) constant).ordinal());
        }
        return found;
    }

    /** Every class of RocketMQ's own jars that is a command header, by its simple name. */
    private static Map<String, Object> headers() throws Exception {
        Class<?> base = Class.forName("org.apache.rocketmq.remoting.CommandCustomHeader");
        Map<String, Object> found = new TreeMap<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            String jarName = new File(entry).getName();
            if (!jarName.startsWith("rocketmq-") || !jarName.endsWith(".jar")) {
                continue;
            }
            try (JarFile jar = new JarFile(entry)) {
                for (String path : Collections.list(jar.entries()).stream().map(Object::toString).sorted().toList()) {
                    if (path.matches("org/apache/rocketmq/.*Header(V\\d)?\\.class") && !path.contains("$")) {
                        Class<?> c = Class.forName(path.substring(0, path.length() - 6).replace('/', '.'), false, Truth.class.getClassLoader());
                        if (base.isAssignableFrom(c) && c != base && !c.isInterface()
                                && found.put(c.getSimpleName(), header(c)) != null) {
                            throw new IllegalStateException("two headers are called " + c.getSimpleName());
                        }
                    }
                }
            }
        }
        return found;
    }

    private static Map<String, Object> header(Class<?> c) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("class", c.getName());
        List<Object> parents = new ArrayList<>();
        for (Class<?> p = c.getSuperclass(); p != null && p != Object.class; p = p.getSuperclass()) {
            parents.add(p.getSimpleName());
        }
        row.put("parents", parents);
        row.put("fast", Arrays.stream(c.getInterfaces()).anyMatch(i -> i.getSimpleName().equals("FastCodesHeader")));
        Annotation action = marked(c.getAnnotations(), "RocketMQAction");
        if (action != null) {
            row.put("code", ((Number) member(action, "value")).longValue());
            row.put("resource", member(action, "resource").toString());
            row.put("action", Arrays.stream((Object[]) member(action, "action")).map(a -> (Object) a.toString()).sorted().toList());
        }
        Object fresh = null;
        if (!Modifier.isAbstract(c.getModifiers())) {
            fresh = c.getDeclaredConstructor().newInstance();
        }
        List<Object> fields = new ArrayList<>();
        for (Class<?> owner = c; owner != Object.class; owner = owner.getSuperclass()) {
            for (Field field : owner.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) || field.getName().startsWith("this")) {
                    continue;    // RemotingCommand.makeCustomHeaderToNet and decodeCommandCustomHeader skip the same
                }
                field.setAccessible(true);
                fields.add(headerField(field, owner == c ? null : owner.getSimpleName(), fresh));
            }
        }
        row.put("fields", fields);
        return row;
    }

    private static Map<String, Object> headerField(Field field, String inheritedFrom, Object fresh) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("name", field.getName());
        row.put("type", field.getType().getSimpleName());
        row.put("not_null", marked(field.getAnnotations(), "CFNotNull") != null);
        if (marked(field.getAnnotations(), "CFNullable") != null) {
            row.put("nullable", true);
        }
        Annotation resource = marked(field.getAnnotations(), "RocketMQResource");
        if (resource != null) {
            row.put("resource", member(resource, "value").toString());
            if (!member(resource, "splitter").toString().isEmpty()) {
                row.put("splitter", member(resource, "splitter").toString());
            }
        }
        if (fresh != null && field.get(fresh) != null) {
            row.put("default", plain(field.get(fresh)));
        }
        if (inheritedFrom != null) {
            row.put("from", inheritedFrom);
        }
        return row;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> configurations() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (String name : CONFIGURATIONS) {
            Class<?> c;
            try {
                c = Class.forName(name);
            } catch (ClassNotFoundException absent) {
                continue;
            }
            Object fresh = c.getDeclaredConstructor().newInstance();
            Map<String, Object> keys = new TreeMap<>();
            for (Class<?> owner = c; owner != Object.class; owner = owner.getSuperclass()) {
                for (Field field : owner.getDeclaredFields()) {
                    if (!Modifier.isStatic(field.getModifiers()) && !field.getName().startsWith("this")) {
                        field.setAccessible(true);
                        keys.putIfAbsent(field.getName(), key(field, c, owner, field.get(fresh)));
                    }
                }
            }
            TreeSet<String> settable = settable(c);
            keys.forEach((key, value) -> {
                if (!settable.contains(key)) {
                    ((Map<String, Object>) value).put("settable", false);
                }
            });
            settable.removeAll(keys.keySet());
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("class", c.getName());
            row.put("keys", keys);
            row.put("setters_without_a_field", new ArrayList<>(settable));
            found.put(c.getSimpleName(), row);
        }
        return found;
    }

    private static Map<String, Object> key(Field field, Class<?> c, Class<?> owner, Object value) throws NoSuchMethodException {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("type", field.getType().getSimpleName());
        row.put("default", plain(value));
        if (owner != c) {
            row.put("from", owner.getSimpleName());
        }
        if (marked(field.getAnnotations(), "ImportantField") != null) {
            row.put("important", true);    // shown by `mqbroker -m`
        }
        return row;
    }

    /** The keys that MixAll.properties2Object can set: those of setters that take a number, a boolean or a text. */
    private static TreeSet<String> settable(Class<?> c) {
        TreeSet<String> keys = new TreeSet<>();
        for (Method method : c.getMethods()) {
            String name = method.getName();
            if (name.startsWith("set") && name.length() > 3 && method.getParameterCount() > 0 && List.of("int", "Integer", "long", "Long",
                "double", "Double", "boolean", "Boolean", "float", "Float", "String").contains(method.getParameterTypes()[0].getSimpleName())) {
                keys.add(name.substring(3, 4).toLowerCase() + name.substring(4));
            }
        }
        return keys;
    }

    /** Texts that name this machine: its names and addresses. */
    private static List<Object> hostTexts() throws Exception {
        List<Object> texts = new ArrayList<>();
        texts.add(InetAddress.getLocalHost().getHostName());
        texts.add(InetAddress.getLocalHost().getHostAddress());
        for (NetworkInterface card : Collections.list(NetworkInterface.getNetworkInterfaces())) {
            Collections.list(card.getInetAddresses()).forEach(address -> texts.add(address.getHostAddress()));
        }
        return texts;
    }

    private static Class<?> protocol(String simpleName) throws ClassNotFoundException {
        for (String where : PROTOCOL) {
            try {
                return Class.forName(where + simpleName);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(simpleName);
    }

    private static Annotation marked(Annotation[] marks, String simpleName) {
        return Arrays.stream(marks).filter(mark -> mark.annotationType().getSimpleName().equals(simpleName)).findFirst().orElse(null);
    }

    private static Object member(Annotation mark, String name) throws Exception {
        return mark.annotationType().getMethod(name).invoke(mark);
    }

    private static Class<?> box(Class<?> type) {
        return type == int.class || type == short.class || type == long.class ? Long.class : type;
    }

    /** A value as JSON can show it: numbers, booleans and collections as such, anything else as its text. */
    private static Object plain(Object value) throws NoSuchMethodException {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return value;
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> sorted = new TreeMap<>();
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                sorted.put(String.valueOf(entry.getKey()), plain(entry.getValue()));
            }
            return sorted;
        }
        if (value instanceof Collection<?> items) {
            List<Object> shown = new ArrayList<>();
            for (Object item : items) {
                shown.add(plain(item));
            }
            return shown;
        }
        if (value.getClass().isArray()) {
            List<Object> items = new ArrayList<>();
            for (int i = 0; i < java.lang.reflect.Array.getLength(value); i++) {
                items.add(plain(java.lang.reflect.Array.get(value, i)));
            }
            return items;
        }
        if (value.getClass().getMethod("toString").getDeclaringClass() == Object.class) {
            return value.getClass().getName();    // Object's own text has an address in it
        }
        return value.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map<?, ?> map) {
            String separator = "";
            out.append('{');
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                write(out, entry.getKey());
                out.append(':');
                write(out, entry.getValue());
                separator = ",";
            }
            out.append('}');
        } else if (value instanceof Collection<?> items) {
            String separator = "";
            out.append('[');
            for (Object item : items) {
                out.append(separator);
                write(out, item);
                separator = ",";
            }
            out.append(']');
        } else if (value instanceof String text) {
            out.append('"');
            for (char c : text.toCharArray()) {
                out.append(c < ' ' || c == '"' || c == '\\' || c > '~' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
            }
            out.append('"');
        } else {
            out.append(value);
        }
    }
}
