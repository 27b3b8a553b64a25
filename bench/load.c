/* A neutral load generator for RocketMQ brokers: one thread, epoll, N connections with M requests in flight each.
 *
 *   load send HOST PORT TOPIC CONNECTIONS IN_FLIGHT SECONDS WARM_SECONDS [BODY_BYTES [MESSAGES_A_SECOND]]
 *   load transact HOST PORT TOPIC CONNECTIONS IN_FLIGHT SECONDS WARM_SECONDS [BODY_BYTES]
 *   load grade HOST PORT TOPIC CONNECTIONS IN_FLIGHT SECONDS WARM_SECONDS [BODY_BYTES [MESSAGES_A_SECOND]]
 *   load pop HOST PORT TOPIC CONNECTIONS MESSAGES SECONDS WARM_SECONDS INVISIBLE_MS BROKER_NAME [keep]
 *   load pull|select_few|select_half HOST PORT TOPIC CONNECTIONS MESSAGES SECONDS WARM_SECONDS [FIRST_OFFSET [once | MESSAGES_A_SECOND]]
 *
 * send: SEND_MESSAGE_V2 with a JSON header as the stock Java client writes it, six properties (UNIQ_KEY, KEYS, TAGS, WAIT and
 * two of a user), eight queues in turn, one write() a request, as Netty does.  transact: the same as a half message, then
 * END_TRANSACTION that commits it, asked with an answer: a message counts when that has come.  pull: PULL_MESSAGE of MESSAGES units, one request in
 * flight a connection, each connection reading its queue from the start again when it has reached the end; with `once` it stops
 * there, and the run ends with the last of them.  MESSAGES_A_SECOND paces all connections together, as consumers that have work to
 * do with what they get; and producers with one request in flight each.  grade: send with one property more, which counts from 0
 * to 99 in each queue.  select_few, select_half: pull with an SQL92 selector that wants one of a hundred of these, or half of them;
 * what it passes over counts, too.  pop: POP_MESSAGE of MESSAGES from any queue, then BATCH_ACK_MESSAGE for all of them, one request
 * in flight a connection; a message counts when that is answered, with `keep` when it is popped, and nothing is acknowledged.  When
 * nothing is left all go on as another group, from the first message on; with `keep` the run ends there.
 * Prints one JSON line: messages, seconds, rate, latencies in microseconds, refused answers, the generator's own CPU.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { QUEUES = 8, BUFFER = 4 << 20, OPAQUES = 1 << 20, BUCKETS = 20000, BUCKET_US = 10 };

struct peer {
    int fd, queue, ended;
    int64_t ask_at;      /* when a paced reader asks again; 0 when it has asked */
    char *in;
    size_t have;
    char *out;           /* what the socket did not take yet */
    size_t out_at, out_have;
    long long offset;
    struct half *ends;   /* half messages that are to be committed next */
    int ends_have;
    char acks[8192];     /* the body that acknowledges what was popped last */
    int acks_bytes, acks_count;
    unsigned group;      /* number of the group of its last pop */
};

struct half {
    long long log, queue;
};

static int64_t sent_at[OPAQUES];
static char is_end[OPAQUES];
static uint64_t histogram[BUCKETS + 1];
static int64_t longest;
static uint64_t answered, messages, refused, opaque;
static int first_refusal = -1;
static char refusal_text[160];
static int measuring, pulling, grading, transacting, once, reading, popping, keeping;
static unsigned group;
static long long invisible_ms = 60000;
static char groups_of[64];
static const char *broker_name = "";
static double pace_us, paced_until;
static int body_bytes = 1024, pull_count = 32;
static const char *selector;
static long long first_offset;
static const char *topic;
static char body[1 << 20];

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void fail(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void be32(char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

static uint32_t read32(const char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static size_t frame(char *at, const char *header, size_t header_bytes, const char *payload, size_t payload_bytes) {
    be32(at, (uint32_t)(4 + header_bytes + payload_bytes));
    be32(at + 4, (uint32_t)header_bytes);
    memcpy(at + 8, header, header_bytes);
    memcpy(at + 8 + header_bytes, payload, payload_bytes);
    return 8 + header_bytes + payload_bytes;
}

static size_t send_frame(char *at, unsigned id) {
    char header[1024];
    int64_t wall = wall_ms();
    char grade[32] = "";
    if (grading) snprintf(grade, sizeof grade, "grade\\u0001%u\\u0002", id / QUEUES % 100);
    int n = snprintf(header, sizeof header,
        "{\"code\":310,\"extFields\":{\"a\":\"bench_producer\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"8\",\"e\":\"%u\",\"f\":\"%d\",\"g\":\"%lld\","
        "\"h\":\"0\",\"i\":\"UNIQ_KEY\\u00017F00000123456B884D57%08llX%04X\\u0002KEYS\\u0001order-%llu\\u0002WAIT\\u0001true\\u0002TAGS\\u0001TagA\\u0002"
        "region\\u0001eu-1\\u0002trace\\u0001abcdef0123456789\\u0002%s%s\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\",\"n\":\"broker-a\"},"
        "\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
        topic, id % QUEUES, transacting ? 4 : 0, (long long)wall, (unsigned long long)(wall & 0xFFFFFFFF), id & 0xFFFF,
        (unsigned long long)id, grade, transacting ? "TRAN_MSG\\u0001true\\u0002PGROUP\\u0001bench_producer\\u0002" : "", id);
    return frame(at, header, (size_t)n, body, (size_t)body_bytes);
}

static size_t end_frame(char *at, unsigned id, const struct half *half) {
    char header[1024];
    int n = snprintf(header, sizeof header,
        "{\"code\":37,\"extFields\":{\"producerGroup\":\"bench_producer\",\"topic\":\"%s\",\"tranStateTableOffset\":\"%lld\","
        "\"commitLogOffset\":\"%lld\",\"commitOrRollback\":\"8\",\"fromTransactionCheck\":\"false\",\"msgId\":\"7F00000123456B884D57\"},"
        "\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
        topic, half->queue, half->log, id);
    return frame(at, header, (size_t)n, "", 0);
}

static size_t pull_frame(char *at, unsigned id, const struct peer *peer) {
    char header[1024];
    int n = snprintf(header, sizeof header,
        "{\"code\":11,\"extFields\":{\"consumerGroup\":\"bench_consumer\",\"topic\":\"%s\",\"queueId\":\"%d\",\"queueOffset\":\"%lld\","
        "\"maxMsgNums\":\"%d\",\"sysFlag\":\"4\",\"commitOffset\":\"0\",\"suspendTimeoutMillis\":\"15000\",\"subscription\":\"%s\","
        "\"subVersion\":\"1700000000000\",\"expressionType\":\"%s\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
        topic, peer->queue, peer->offset, pull_count, selector ? selector : "*", selector ? "SQL92" : "TAG", id);
    return frame(at, header, (size_t)n, "", 0);
}

static size_t pop_frame(char *at, unsigned id, struct peer *peer) {
    char header[1024];
    peer->group = group;
    int n = snprintf(header, sizeof header,
        "{\"code\":200050,\"extFields\":{\"consumerGroup\":\"%s_%u\",\"topic\":\"%s\",\"queueId\":\"-1\",\"maxMsgNums\":\"%d\","
        "\"invisibleTime\":\"%lld\",\"pollTime\":\"0\",\"bornTime\":\"%lld\",\"initMode\":\"0\",\"expType\":\"TAG\",\"exp\":\"*\","
        "\"order\":\"false\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
        groups_of, group, topic, pull_count, invisible_ms, (long long)wall_ms(), id);
    return frame(at, header, (size_t)n, "", 0);
}

static size_t ack_frame(char *at, unsigned id, struct peer *peer) {
    char header[256];
    int n = snprintf(header, sizeof header,
        "{\"code\":200151,\"extFields\":{},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}", id);
    size_t bytes = frame(at, header, (size_t)n, peer->acks, (size_t)peer->acks_bytes);
    peer->acks_bytes = 0;
    return bytes;
}

static void flush_out(struct peer *peer, int epoll) {
    while (peer->out_at < peer->out_have) {
        ssize_t n = write(peer->fd, peer->out + peer->out_at, peer->out_have - peer->out_at);
        if (n < 0 && errno == EAGAIN) {
            struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = peer};
            epoll_ctl(epoll, EPOLL_CTL_MOD, peer->fd, &event);
            return;
        }
        if (n <= 0) fail("write");
        peer->out_at += (size_t)n;
    }
    if (peer->out_have) {
        peer->out_at = peer->out_have = 0;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
        epoll_ctl(epoll, EPOLL_CTL_MOD, peer->fd, &event);
    }
}

static void ask(struct peer *peer, int epoll) {
    if (peer->ended) return;
    if (pace_us > 0 && paced_until > (double)now_us() + 500) { peer->ask_at = (int64_t)paced_until; return; }
    peer->ask_at = 0;
    static char at[2 << 20];
    unsigned id = (unsigned)(opaque++ % OPAQUES);
    is_end[id] = peer->ends_have > 0 || peer->acks_bytes > 0;
    size_t bytes = popping ? (is_end[id] ? ack_frame(at, id, peer) : pop_frame(at, id, peer)) : pulling ? pull_frame(at, id, peer) : is_end[id] ? end_frame(at, id, &peer->ends[--peer->ends_have]) : send_frame(at, id);
    sent_at[id] = now_us();
    size_t done = 0;
    if (peer->out_have == 0) {
        ssize_t n = write(peer->fd, at, bytes);
        if (n < 0 && errno != EAGAIN) fail("write");
        done = n < 0 ? 0 : (size_t)n;
    }
    if (done < bytes) {
        if (peer->out_have + bytes > BUFFER) { errno = ENOBUFS; fail("the broker takes no more"); }
        memcpy(peer->out + peer->out_have, at + done, bytes - done);
        peer->out_have += bytes - done;
        flush_out(peer, epoll);
    }
}

static long long number_after(const char *header, size_t bytes, const char *name) {
    const char *at = memmem(header, bytes, name, strlen(name));
    return at ? atoll(at + strlen(name)) : -1;
}

static const char *text_after(const char *header, size_t bytes, const char *name) {
    const char *at = memmem(header, bytes, name, strlen(name));
    return at ? at + strlen(name) : NULL;
}

/* The bits of these offsets from `start` on, as a BitSet in base64. */
static void base64_bits(char *to, const char *offsets, long long start, int *count) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char bits[66] = {0};
    int last = 0;
    for (const char *at = offsets; *at >= '0' && *at <= '9';) {
        char *end;
        long long bit = strtoll(at, &end, 10) - start;
        if (bit >= 0 && bit < 512) {
            bits[bit / 8] |= (unsigned char)(1 << bit % 8);
            if (bit / 8 > last) last = (int)(bit / 8);
            ++*count;
        }
        at = *end == ',' ? end + 1 : end;
    }
    for (int i = 0; i <= last; i += 3) {
        unsigned three = (unsigned)bits[i] << 16 | (unsigned)bits[i + 1] << 8 | bits[i + 2];
        *to++ = letters[three >> 18];
        *to++ = letters[three >> 12 & 63];
        *to++ = i + 1 <= last ? letters[three >> 6 & 63] : '=';
        *to++ = i + 2 <= last ? letters[three & 63] : '=';
    }
    *to = 0;
}

/* Keep the body that acknowledges what this answer hands out. */
static void popped(struct peer *peer, const char *header, size_t bytes) {
    const char *starts = text_after(header, bytes, "\"startOffsetInfo\":\""), *offsets = text_after(header, bytes, "\"msgOffsetInfo\":\"");
    peer->acks_count = 0;
    if (!starts || !offsets) return;
    char *to = peer->acks;
    to += sprintf(to, "{\"acks\":[");
    for (int first = 1; to - peer->acks < (int)sizeof peer->acks - 1024; first = 0) {
        int flag, queue, other, length, other_length;
        long long start;
        if (sscanf(starts, "%d %d %lld%n", &flag, &queue, &start, &length) < 3 || sscanf(offsets, "%d %d %n", &flag, &other, &other_length) < 2) break;
        char bits[128];
        offsets += other_length;
        base64_bits(bits, offsets, start, &peer->acks_count);
        to += sprintf(to, "%s{\"b\":\"%s\",\"c\":\"%s_%u\",\"it\":%lld,\"pt\":%lld,\"q\":%d,\"r\":\"%d\",\"rq\":%lld,\"so\":%lld,\"t\":\"%s\"}",
            first ? "" : ",", bits, groups_of, peer->group, invisible_ms, number_after(header, bytes, "\"popTime\":\""), queue, flag,
            number_after(header, bytes, "\"reviveQid\":\""), start, topic);
        starts += length;
        offsets += strspn(offsets, "0123456789,");
        if (*starts != ';' || *offsets != ';') break;
        starts++;
        offsets++;
    }
    to += sprintf(to, "],\"brokerName\":\"%s\"}", broker_name);
    if (keeping) {
        if (measuring) messages += (uint64_t)peer->acks_count;
    } else {
        peer->acks_bytes = (int)(to - peer->acks);
    }
}

static void answer(struct peer *peer, const char *header, size_t header_bytes, size_t payload) {
    long long id = number_after(header, header_bytes, "\"opaque\":"), code = number_after(header, header_bytes, "\"code\":");
    int64_t took = now_us() - sent_at[id % OPAQUES];
    if (measuring) {
        answered++;
        if (took > longest) longest = took;
        histogram[took / BUCKET_US < BUCKETS ? took / BUCKET_US : BUCKETS]++;
    }
    if (popping && is_end[id % OPAQUES] && code == 0) {
        if (measuring) messages += (uint64_t)peer->acks_count;
        return;
    }
    if (popping && !is_end[id % OPAQUES]) {
        if (code == 0 && payload) { popped(peer, header, header_bytes); return; }
        if (code == 19 || code == 209 || code == 210) {
            if (number_after(header, header_bytes, "\"restNum\":\"") > 0 || peer->group != group) return;
            if (keeping) { peer->ended = 1; reading--; }
            else group++;
            return;
        }
    } else if (pulling) {
        long long next = number_after(header, header_bytes, "\"nextBeginOffset\":\"");
        if ((code == 0 && payload) || (selector && code == 20 && next > peer->offset)) {
            if (measuring) messages += (uint64_t)(next - peer->offset);
            if (pace_us > 0) {
                double now = (double)now_us();
                if (paced_until < now - 20000) paced_until = now - 20000;
                paced_until += pace_us * (double)(next - peer->offset);
            }
            peer->offset = next;
        } else if (code == 19 || code == 20 || code == 21) {
            if (once) { peer->ended = 1; reading--; }
            else peer->offset = first_offset;
        }
        if (code == 0 || code == 19 || code == 20 || code == 21) return;
    } else if (code == 0) {
        const char *place = transacting && !is_end[id % OPAQUES] ? memmem(header, header_bytes, "\"msgId\":\"", 9) : NULL;
        if (place) {
            char log[17] = {0};
            memcpy(log, place + 9 + 16, 16);
            peer->ends[peer->ends_have++] = (struct half){strtoll(log, NULL, 16), number_after(header, header_bytes, "\"queueOffset\":\"")};
        } else if (measuring) {
            messages++;
        }
        if (pace_us > 0) {
            double now = (double)now_us();
            if (paced_until < now - 20000) paced_until = now - 20000;
            paced_until += pace_us;
        }
        return;
    }
    if (measuring) refused++;
    if (first_refusal < 0) {
        first_refusal = (int)code;
        const char *remark = memmem(header, header_bytes, "\"remark\":\"", 10);
        if (remark) snprintf(refusal_text, sizeof refusal_text, "%.*s", (int)strcspn(remark + 10, "\"\\"), remark + 10);
    }
}

static double percentile(double share) {
    uint64_t want = (uint64_t)(share * (double)answered), seen = 0;
    for (int i = 0; i <= BUCKETS; i++)
        if ((seen += histogram[i]) > want) return (double)i * BUCKET_US;
    return (double)BUCKETS * BUCKET_US;
}

static int dial(const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1 || (ntohl(address.sin_addr.s_addr) >> 24) != 127) {
        fprintf(stderr, "load: %s is not a loopback address\n", host);
        exit(2);
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void receive(struct peer *peer, int epoll) {
    for (;;) {
        ssize_t n = read(peer->fd, peer->in + peer->have, BUFFER - peer->have);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) fail("the broker closed the connection");
        peer->have += (size_t)n;
        size_t at = 0;
        unsigned done = 0;
        while (peer->have - at >= 8) {
            uint32_t bytes = read32(peer->in + at), header = read32(peer->in + at + 4) & 0xFFFFFF;
            if (peer->have - at < 4 + (size_t)bytes) break;
            answer(peer, peer->in + at + 8, header, bytes - 4 - header);
            at += 4 + (size_t)bytes;
            done++;
        }
        memmove(peer->in, peer->in + at, peer->have - at);
        peer->have -= at;
        while (done--) ask(peer, epoll);
        if ((size_t)n < BUFFER / 2) return;
    }
}

int main(int argc, char **argv) {
    if (argc < 9) {
        fprintf(stderr, "usage: load send|grade|transact|pop|pull|select_few|select_half HOST PORT TOPIC CONNECTIONS IN_FLIGHT|MESSAGES SECONDS WARM_SECONDS [BODY_BYTES|FIRST_OFFSET]\n");
        return 2;
    }
    if (!strcmp(argv[1], "select_few")) selector = "grade = 7 AND region = 'eu-1'";
    if (!strcmp(argv[1], "select_half")) selector = "grade BETWEEN 0 AND 49 AND region = 'eu-1'";
    pulling = selector || !strcmp(argv[1], "pull");
    popping = !strcmp(argv[1], "pop");
    snprintf(groups_of, sizeof groups_of, "bench_pop_%lld", (long long)wall_ms());
    grading = !strcmp(argv[1], "grade");
    transacting = !strcmp(argv[1], "transact");
    topic = argv[4];
    int connections = atoi(argv[5]), depth = pulling || popping ? 1 : atoi(argv[6]);
    double seconds = atof(argv[7]), warm = atof(argv[8]);
    if (pulling || popping) pull_count = atoi(argv[6]);
    if (argc > 9) { if (popping) invisible_ms = atoll(argv[9]); else if (pulling) first_offset = atoll(argv[9]); else body_bytes = atoi(argv[9]); }
    if (argc > 10) { once = !strcmp(argv[10], "once"); if (popping) broker_name = argv[10]; else if (!once) pace_us = 1e6 / atof(argv[10]); }
    keeping = argc > 11 && !strcmp(argv[11], "keep");
    reading = connections;
    if (body_bytes > (int)sizeof body) return 2;
    for (int i = 0; i < body_bytes; i++) body[i] = (char)('a' + i % 26);
    signal(SIGPIPE, SIG_IGN);
    int epoll = epoll_create1(0);
    struct peer *peers = calloc((size_t)connections, sizeof *peers);
    for (int i = 0; i < connections; i++) {
        peers[i] = (struct peer){.fd = dial(argv[2], atoi(argv[3])), .queue = i % QUEUES, .in = malloc(BUFFER), .out = malloc(BUFFER), .offset = first_offset,
            .ends = malloc((size_t)depth * sizeof(struct half))};
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &peers[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, peers[i].fd, &event);
    }
    int64_t start = now_us(), measure_from = start + (int64_t)(warm * 1e6), end = measure_from + (int64_t)(seconds * 1e6);
    struct rusage before = {0}, after;
    for (int d = 0; d < depth; d++)
        for (int i = 0; i < connections; i++) ask(&peers[i], epoll);
    for (;;) {
        struct epoll_event events[256];
        int n = epoll_wait(epoll, events, 256, pace_us > 0 ? 1 : 1000);
        int64_t now = now_us();
        if (!measuring && now >= measure_from) {
            measuring = 1;
            measure_from = now;
            getrusage(RUSAGE_SELF, &before);
            printf("{\"event\":\"measuring\"}\n");
            fflush(stdout);
        }
        if (now >= end) { end = now; break; }
        for (int i = 0; i < n; i++) {
            struct peer *peer = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) flush_out(peer, epoll);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(peer, epoll);
        }
        for (int i = 0; pace_us > 0 && i < connections; i++)
            if (peers[i].ask_at && peers[i].ask_at <= now_us()) ask(&peers[i], epoll);
        if (!reading) { end = now_us(); break; } /* at once: the next wait has nothing to wait for */
    }
    getrusage(RUSAGE_SELF, &after);
    double cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1e6 +
                 (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec);
    double took = (double)(end - measure_from) / 1e6;
    printf("{\"event\":\"done\",\"messages\":%llu,\"answers\":%llu,\"seconds\":%.3f,\"rate\":%.1f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"p999_us\":%.0f,\"longest_us\":%lld,"
           "\"refused\":%llu,\"first_refusal\":%d,\"refusal\":\"%s\",\"generator_cpu_us_per_message\":%.2f}\n",
           (unsigned long long)messages, (unsigned long long)answered, took, (double)messages / took, percentile(0.5), percentile(0.99), percentile(0.999), (long long)longest,
           (unsigned long long)refused, first_refusal, refusal_text, messages ? cpu / (double)messages : 0.0);
    return 0;
}
