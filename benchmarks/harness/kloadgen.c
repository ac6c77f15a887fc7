/*
 * kloadgen - load generator for servers that speak size-prefixed, correlated
 * request/response frames (the Kafka wire protocol).
 *
 * It opens N TCP connections, sends binary frame templates with a fresh
 * correlation id patched in, counts the answers, checks that each answer
 * has the right correlation id and (optionally) the expected int16 at a
 * byte offset, and reports rate and latency percentiles.
 *
 * One thread, epoll, no dependencies:  gcc -O2 -o kloadgen kloadgen.c
 * load.py builds and runs it; `kloadgen -h` lists its options.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_TARGETS 64
#define MAX_CODES 64
#define NO_OFFSET INT32_MIN

static void die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("kloadgen: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint32_t rd32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static void wr32(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

/* ---- latency histogram: log-linear, 1/64 relative precision ------------ */
#define SUB_BITS 6
#define SUB (1u << SUB_BITS)
#define HIST_N ((64 - SUB_BITS + 1) * SUB)
static uint64_t hist[HIST_N];
static uint64_t hist_count, hist_max;
static double hist_sum;

static unsigned hist_index(uint64_t v) {
    if (v < SUB) return (unsigned)v;
    unsigned msb = 63u - (unsigned)__builtin_clzll(v);
    unsigned shift = msb - SUB_BITS;
    return (shift + 1) * SUB + (unsigned)((v >> shift) - SUB);
}
static uint64_t hist_value(unsigned i) {
    if (i < SUB) return i;
    unsigned shift = i / SUB - 1;
    return ((uint64_t)(i % SUB) + SUB) << shift;
}
static void hist_add(uint64_t v) {
    hist[hist_index(v)]++;
    hist_count++;
    hist_sum += (double)v;
    if (v > hist_max) hist_max = v;
}
static double hist_pct(double q) { /* in microseconds */
    if (!hist_count) return 0;
    uint64_t want = (uint64_t)(q * (double)hist_count + 0.5), seen = 0;
    if (want < 1) want = 1;
    for (unsigned i = 0; i < HIST_N; i++) {
        seen += hist[i];
        if (seen >= want) return (double)hist_value(i) / 1000.0;
    }
    return (double)hist_max / 1000.0;
}

/* ---- frame templates ---------------------------------------------------- */
typedef struct {
    uint8_t *data; /* whole frame with its 4-byte size prefix */
    uint32_t len;
    int target; /* -1: any */
} frame_t;

typedef struct {
    frame_t *v;
    size_t n, cap;
} frames_t;

static int hexval(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* One frame a line, in hex, '#' starts a comment, "@K " before the hex pins
 * the frame to target number K. */
static void load_frames(const char *path, frames_t *fs) {
    FILE *f = fopen(path, "r");
    if (!f) die("cannot open %s: %s", path, strerror(errno));
    char *line = NULL;
    size_t cap = 0;
    ssize_t got;
    int lineno = 0;
    while ((got = getline(&line, &cap, f)) >= 0) {
        lineno++;
        char *p = line;
        int target = -1;
        while (isspace((unsigned char)*p)) p++;
        if (*p == '@') {
            target = (int)strtol(p + 1, &p, 10);
            while (isspace((unsigned char)*p)) p++;
        }
        if (!*p || *p == '#') continue;
        uint8_t *d = malloc((size_t)got / 2 + 1);
        uint32_t n = 0;
        int hi = -1;
        for (; *p && *p != '#'; p++) {
            if (isspace((unsigned char)*p)) continue;
            int v = hexval(*p);
            if (v < 0) die("%s:%d: not hex: '%c'", path, lineno, *p);
            if (hi < 0) {
                hi = v;
            } else {
                d[n++] = (uint8_t)(hi << 4 | v);
                hi = -1;
            }
        }
        if (hi >= 0) die("%s:%d: odd number of hex digits", path, lineno);
        if (n < 12) die("%s:%d: frame shorter than size+key+version+correlation", path, lineno);
        if (rd32(d) != n - 4) die("%s:%d: size prefix says %u, frame has %u bytes after it", path, lineno, rd32(d), n - 4);
        if (fs->n == fs->cap) {
            fs->cap = fs->cap ? fs->cap * 2 : 64;
            fs->v = realloc(fs->v, fs->cap * sizeof *fs->v);
        }
        fs->v[fs->n++] = (frame_t){d, n, target};
    }
    free(line);
    fclose(f);
    if (!fs->n) die("%s: no frames", path);
}

/* ---- connections -------------------------------------------------------- */
typedef struct {
    uint64_t t;    /* when it was sent (closed loop) or due (open loop) */
    uint32_t corr; /* correlation id expected back */
} slot_t;

typedef struct {
    int fd, target;
    uint32_t index;   /* number among all connections */
    uint32_t rank;    /* number among this target's connections */
    uint32_t peers;   /* connections to this target */
    size_t cursor;    /* next template (index into the target's list) */
    uint32_t next_corr;
    uint8_t *in;
    size_t in_len, in_cap;
    uint8_t *out;
    size_t out_len, out_off, out_cap;
    slot_t *ring;
    uint32_t head, count;
    uint64_t sched_j; /* open loop: number of requests this connection has issued */
    int want_out;
    int dead;
    size_t setup_left;
} conn_t;

/* options */
static int opt_conns = 1, opt_depth = 1, opt_json = 0, opt_dump = 0, opt_cpu = -1;
static double opt_secs = 5, opt_warm = 1, opt_rate = 0;
static uint64_t opt_count = 0;
static int32_t opt_err_off = NO_OFFSET;
static int opt_err_want = 0;

static struct sockaddr_in targets[MAX_TARGETS];
static int n_targets;
static frames_t frames, setup_frames;
static frame_t **tframes[MAX_TARGETS];
static size_t tframes_n[MAX_TARGETS];

static conn_t *conns;
static int epfd;
static uint64_t t_begin, t_measure, t_end, sched_t0;
static uint64_t n_sent, n_ok, n_bad_code, n_bad_corr, n_short, n_closed;
static uint64_t bytes_in, bytes_out;
static struct { int code; uint64_t n; } codes[MAX_CODES];
static int n_codes;
static int measuring, stopping;

static void count_code(int code) {
    for (int i = 0; i < n_codes; i++)
        if (codes[i].code == code) {
            codes[i].n++;
            return;
        }
    if (n_codes < MAX_CODES) {
        codes[n_codes].code = code;
        codes[n_codes++].n = 1;
    }
}

static void conn_kill(conn_t *c) {
    if (c->dead) return;
    c->dead = 1;
    n_closed++;
    epoll_ctl(epfd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
}

static void conn_poll(conn_t *c, int out) {
    if (c->want_out == out) return;
    c->want_out = out;
    struct epoll_event ev = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epfd, EPOLL_CTL_MOD, c->fd, &ev);
}

static void conn_flush(conn_t *c) {
    while (c->out_off < c->out_len) {
        ssize_t w = send(c->fd, c->out + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
        if (w < 0) {
            if (errno == EAGAIN) {
                conn_poll(c, 1);
                return;
            }
            if (errno == EINTR) continue;
            conn_kill(c);
            return;
        }
        c->out_off += (size_t)w;
        if (measuring) bytes_out += (uint64_t)w;
    }
    c->out_off = c->out_len = 0;
    conn_poll(c, 0);
}

static void conn_queue(conn_t *c, const frame_t *f, uint64_t t) {
    if (c->out_off && c->out_off == c->out_len) c->out_off = c->out_len = 0;
    if (c->out_len + f->len > c->out_cap) {
        c->out_cap = (c->out_len + f->len) * 2;
        c->out = realloc(c->out, c->out_cap);
    }
    memcpy(c->out + c->out_len, f->data, f->len);
    uint32_t corr = c->next_corr++ & 0x7fffffff;
    wr32(c->out + c->out_len + 8, corr);
    c->out_len += f->len;
    slot_t *s = &c->ring[(c->head + c->count) % (uint32_t)opt_depth];
    s->t = t;
    s->corr = corr;
    c->count++;
    n_sent++;
}

/* Queue what this connection may send now; does not flush. */
static void conn_fill(conn_t *c, uint64_t now) {
    if (c->dead || stopping || c->setup_left) return;
    size_t n = tframes_n[c->target];
    while (c->count < (uint32_t)opt_depth) {
        uint64_t t = now;
        if (opt_rate > 0) {
            t = sched_t0 + (uint64_t)(((double)c->index + (double)c->sched_j * opt_conns) / opt_rate * 1e9);
            if (t > now) break;
            c->sched_j++;
        }
        if (opt_count && n_sent >= opt_count) break;
        const frame_t *f = tframes[c->target][c->cursor];
        /* rank, rank+peers, rank+2*peers, ... then back to the first */
        c->cursor += c->peers;
        if (c->cursor >= n) c->cursor = c->rank % n;
        conn_queue(c, f, t);
    }
}

static void conn_setup_next(conn_t *c) {
    const frame_t *f = &setup_frames.v[setup_frames.n - c->setup_left];
    n_sent--; /* set-up frames do not count */
    conn_queue(c, f, now_ns());
    conn_flush(c);
}

/* Handle complete frames in the input buffer. */
static void conn_frames(conn_t *c, uint64_t now) {
    size_t off = 0;
    while (c->in_len - off >= 4) {
        uint32_t size = rd32(c->in + off);
        if (size > (1u << 30)) {
            conn_kill(c);
            return;
        }
        if (c->in_len - off < 4 + (size_t)size) break;
        const uint8_t *b = c->in + off + 4;
        off += 4 + (size_t)size;
        if (!c->count || size < 4) {
            n_short++;
            continue;
        }
        slot_t s = c->ring[c->head];
        c->head = (c->head + 1) % (uint32_t)opt_depth;
        c->count--;
        if (opt_dump > 0) {
            opt_dump--;
            fprintf(stderr, "conn %u: %u bytes: ", c->index, size);
            for (uint32_t i = 0; i < size && i < 512; i++) fprintf(stderr, "%02x", b[i]);
            fputc('\n', stderr);
        }
        if (rd32(b) != s.corr) n_bad_corr++;
        if (c->setup_left) {
            c->setup_left--;
            if (c->setup_left) conn_setup_next(c);
            continue;
        }
        if (measuring) hist_add(now > s.t ? now - s.t : 0);
        if (opt_err_off != NO_OFFSET) {
            int64_t o = opt_err_off >= 0 ? opt_err_off : (int64_t)size + opt_err_off;
            if (o < 0 || o + 2 > (int64_t)size) {
                n_short++;
            } else {
                int code = (int16_t)(b[o] << 8 | b[o + 1]);
                if (code != opt_err_want) {
                    n_bad_code++;
                    count_code(code);
                } else {
                    n_ok++;
                }
            }
        } else {
            n_ok++;
        }
    }
    if (off) {
        memmove(c->in, c->in + off, c->in_len - off);
        c->in_len -= off;
    }
}

static void conn_read(conn_t *c) {
    for (;;) {
        if (c->in_cap - c->in_len < 4096) {
            c->in_cap = c->in_cap * 2;
            c->in = realloc(c->in, c->in_cap);
        }
        size_t room = c->in_cap - c->in_len;
        ssize_t r = recv(c->fd, c->in + c->in_len, room, 0);
        if (r < 0) {
            if (errno == EAGAIN || errno == EINTR) break;
            conn_kill(c);
            return;
        }
        if (r == 0) {
            conn_kill(c);
            return;
        }
        c->in_len += (size_t)r;
        if (measuring) bytes_in += (uint64_t)r;
        if ((size_t)r < room) break;
    }
    uint64_t now = now_ns();
    conn_frames(c, now);
    if (!c->dead) {
        conn_fill(c, now);
        if (c->out_len) conn_flush(c);
    }
}

static void add_target(const char *s) {
    if (n_targets == MAX_TARGETS) die("too many targets");
    char host[256];
    const char *colon = strrchr(s, ':');
    if (!colon || (size_t)(colon - s) >= sizeof host) die("target must be host:port, not '%s'", s);
    memcpy(host, s, (size_t)(colon - s));
    host[colon - s] = 0;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ai;
    int rc = getaddrinfo(host, colon + 1, &hints, &ai);
    if (rc) die("cannot resolve %s: %s", s, gai_strerror(rc));
    memcpy(&targets[n_targets++], ai->ai_addr, sizeof targets[0]);
    freeaddrinfo(ai);
}

static int connect_target(int t) {
    for (int attempt = 0;; attempt++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) die("socket: %s", strerror(errno));
        if (connect(fd, (struct sockaddr *)&targets[t], sizeof targets[t]) == 0) {
            int one = 1;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
            return fd;
        }
        int e = errno;
        close(fd);
        if (attempt >= 50) die("connect to port %d: %s", ntohs(targets[t].sin_port), strerror(e));
        usleep(100000);
    }
}

static void usage(void) {
    fputs(
        "usage: kloadgen -t HOST:PORT [-t HOST:PORT ...] -f FRAMES.hex [options]\n"
        "  -c N      connections, spread over the targets (1)\n"
        "  -P N      requests in flight per connection (1)\n"
        "  -d SECS   measured time (5)          -w SECS   warm-up before it (1)\n"
        "  -n COUNT  stop after COUNT requests (warm-up becomes 0)\n"
        "  -r RATE   open loop: RATE requests/s in all, latency counted from the due time\n"
        "  -e OFF    check the int16 at byte OFF of each answer (0 = correlation id; negative = from the end)\n"
        "  -E CODE   the value wanted there (0)\n"
        "  -s FILE   frames to send once on each connection first (handshake)\n"
        "  -C CPU    pin to this CPU            -D N      dump the first N answers in hex\n"
        "  -j        print one line of JSON\n"
        "exit status: 0 all answers as wanted, 3 some were not, 2 could not run\n",
        stderr);
    exit(2);
}

int main(int argc, char **argv) {
    const char *ffile = NULL, *sfile = NULL;
    int o;
    while ((o = getopt(argc, argv, "t:f:s:c:P:d:w:n:r:e:E:C:D:jh")) != -1) {
        switch (o) {
        case 't': add_target(optarg); break;
        case 'f': ffile = optarg; break;
        case 's': sfile = optarg; break;
        case 'c': opt_conns = atoi(optarg); break;
        case 'P': opt_depth = atoi(optarg); break;
        case 'd': opt_secs = atof(optarg); break;
        case 'w': opt_warm = atof(optarg); break;
        case 'n': opt_count = strtoull(optarg, NULL, 10); break;
        case 'r': opt_rate = atof(optarg); break;
        case 'e': opt_err_off = atoi(optarg); break;
        case 'E': opt_err_want = atoi(optarg); break;
        case 'C': opt_cpu = atoi(optarg); break;
        case 'D': opt_dump = atoi(optarg); break;
        case 'j': opt_json = 1; break;
        default: usage();
        }
    }
    if (!ffile || !n_targets || opt_conns < 1 || opt_depth < 1) usage();
    if (opt_cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(opt_cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set)) die("cannot pin to CPU %d: %s", opt_cpu, strerror(errno));
    }
    if (opt_count) opt_warm = 0;
    load_frames(ffile, &frames);
    if (sfile) load_frames(sfile, &setup_frames);
    for (int t = 0; t < n_targets; t++) {
        tframes[t] = malloc(frames.n * sizeof(frame_t *));
        for (size_t i = 0; i < frames.n; i++)
            if (frames.v[i].target < 0 || frames.v[i].target == t) tframes[t][tframes_n[t]++] = &frames.v[i];
        if (!tframes_n[t]) die("no frame for target %d", t);
    }
    struct rlimit rl = {(rlim_t)opt_conns + 64, (rlim_t)opt_conns + 64}, cur;
    getrlimit(RLIMIT_NOFILE, &cur);
    if (cur.rlim_cur < rl.rlim_cur) {
        if (cur.rlim_max != RLIM_INFINITY && cur.rlim_max > rl.rlim_max) rl.rlim_max = cur.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &rl)) die("cannot raise the open-file limit to %d", opt_conns + 64);
    }

    epfd = epoll_create1(EPOLL_CLOEXEC);
    conns = calloc((size_t)opt_conns, sizeof *conns);
    uint32_t per_target[MAX_TARGETS] = {0};
    for (int i = 0; i < opt_conns; i++) per_target[i % n_targets]++;
    for (int i = 0; i < opt_conns; i++) {
        conn_t *c = &conns[i];
        c->index = (uint32_t)i;
        c->target = i % n_targets;
        c->rank = (uint32_t)(i / n_targets);
        c->peers = per_target[c->target];
        c->cursor = c->rank % tframes_n[c->target];
        c->next_corr = (uint32_t)i * 7919u;
        c->in_cap = 65536;
        c->in = malloc(c->in_cap);
        c->ring = calloc((size_t)opt_depth, sizeof *c->ring);
        c->setup_left = setup_frames.n;
        c->fd = connect_target(c->target);
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epfd, EPOLL_CTL_ADD, c->fd, &ev);
    }

    struct epoll_event evs[512];
    if (setup_frames.n) { /* run the handshake on every connection before any load */
        for (int i = 0; i < opt_conns; i++) conn_setup_next(&conns[i]);
        for (;;) {
            int left = 0;
            for (int i = 0; i < opt_conns; i++)
                if (!conns[i].dead && conns[i].setup_left) left = 1;
            if (!left) break;
            stopping = 1; /* conn_read must not start load yet */
            int n = epoll_wait(epfd, evs, 512, 5000);
            if (n == 0) die("no answer to the set-up frames in 5 s");
            for (int i = 0; i < n; i++) conn_read(evs[i].data.ptr);
        }
        stopping = 0;
        n_sent = 0;
    }

    struct rusage ru0 = {0}, ru1;
    t_begin = sched_t0 = now_ns();
    t_measure = t_begin + (uint64_t)(opt_warm * 1e9);
    t_end = opt_count ? UINT64_MAX : t_measure + (uint64_t)(opt_secs * 1e9);
    uint64_t sched_k = 0, t_stop = 0, t_last = t_begin;
    if (opt_warm <= 0) {
        measuring = 1;
        getrusage(RUSAGE_SELF, &ru0);
    }
    for (int i = 0; i < opt_conns; i++) {
        conn_fill(&conns[i], t_begin);
        if (conns[i].out_len) conn_flush(&conns[i]);
    }
    for (;;) {
        int timeout = 50;
        if (opt_rate > 0 && !stopping) {
            uint64_t now = now_ns();
            for (;;) {
                uint64_t due = sched_t0 + (uint64_t)((double)sched_k / opt_rate * 1e9);
                if (due > now) {
                    timeout = due - now < 1000000 ? 0 : (int)((due - now) / 1000000);
                    break;
                }
                conn_t *c = &conns[sched_k % (uint64_t)opt_conns];
                conn_fill(c, now);
                if (!c->dead && c->out_len) conn_flush(c);
                sched_k++;
            }
            if (timeout > 50) timeout = 50;
        }
        int n = epoll_wait(epfd, evs, 512, timeout);
        for (int i = 0; i < n; i++) {
            conn_t *c = evs[i].data.ptr;
            if (c->dead) continue;
            if (evs[i].events & EPOLLOUT) conn_flush(c);
            if (!c->dead && evs[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) conn_read(c);
        }
        uint64_t now = now_ns();
        if (!measuring && !stopping && now >= t_measure) {
            measuring = 1;
            t_measure = now;
            getrusage(RUSAGE_SELF, &ru0);
        }
        if (measuring && now >= t_end) {
            measuring = 0;
            stopping = 1;
            t_last = now;
            t_stop = now + 2000000000ull;
            getrusage(RUSAGE_SELF, &ru1);
        }
        if (n_closed == (uint64_t)opt_conns) {
            if (!stopping) {
                t_last = now;
                getrusage(RUSAGE_SELF, &ru1);
            }
            break;
        }
        if (opt_count && !stopping && n_sent >= opt_count) {
            int left = 0;
            for (int i = 0; i < opt_conns; i++) left |= !conns[i].dead && conns[i].count;
            if (!left) {
                t_last = now;
                getrusage(RUSAGE_SELF, &ru1);
                break;
            }
        }
        if (stopping) { /* drain, so that the server is left with no half-read request */
            int left = 0;
            for (int i = 0; i < opt_conns; i++) left |= !conns[i].dead && conns[i].count;
            if (!left || now > t_stop) break;
        }
    }

    double secs = (double)(t_last - t_measure) / 1e9;
    double cpu = (double)(ru1.ru_utime.tv_sec - ru0.ru_utime.tv_sec + ru1.ru_stime.tv_sec - ru0.ru_stime.tv_sec) +
                 (double)(ru1.ru_utime.tv_usec - ru0.ru_utime.tv_usec + ru1.ru_stime.tv_usec - ru0.ru_stime.tv_usec) / 1e6;
    double rps = secs > 0 ? (double)hist_count / secs : 0;
    uint64_t bad = n_bad_code + n_bad_corr + n_short + n_closed;
    if (opt_json) {
        printf("{\"conns\":%d,\"depth\":%d,\"secs\":%.3f,\"responses\":%llu,\"rps\":%.1f,"
               "\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,"
               "\"mb_in_s\":%.2f,\"mb_out_s\":%.2f,\"client_cpu\":%.3f,\"sent\":%llu,"
               "\"bad_code\":%llu,\"bad_corr\":%llu,\"short\":%llu,\"closed\":%llu,\"codes\":{",
               opt_conns, opt_depth, secs, (unsigned long long)hist_count, rps,
               hist_count ? hist_sum / (double)hist_count / 1e3 : 0, hist_pct(.5), hist_pct(.9), hist_pct(.99),
               hist_pct(.999), (double)hist_max / 1e3, (double)bytes_in / 1e6 / secs, (double)bytes_out / 1e6 / secs,
               secs > 0 ? cpu / secs : 0, (unsigned long long)n_sent, (unsigned long long)n_bad_code, (unsigned long long)n_bad_corr,
               (unsigned long long)n_short, (unsigned long long)n_closed);
        for (int i = 0; i < n_codes; i++)
            printf("%s\"%d\":%llu", i ? "," : "", codes[i].code, (unsigned long long)codes[i].n);
        printf("}}\n");
    } else {
        printf("%d connections, %d in flight each: %llu answers in %.2f s = %.0f/s\n", opt_conns, opt_depth,
               (unsigned long long)hist_count, secs, rps);
        printf("latency us: mean %.1f  p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f\n",
               hist_count ? hist_sum / (double)hist_count / 1e3 : 0, hist_pct(.5), hist_pct(.9), hist_pct(.99),
               hist_pct(.999), (double)hist_max / 1e3);
        printf("bytes: %.2f MB/s in, %.2f MB/s out; this client used %.0f%% of a core\n", (double)bytes_in / 1e6 / secs,
               (double)bytes_out / 1e6 / secs, secs > 0 ? cpu / secs * 100 : 0);
        if (bad) {
            printf("NOT AS WANTED: %llu wrong code, %llu wrong correlation id, %llu short, %llu connections lost\n",
                   (unsigned long long)n_bad_code, (unsigned long long)n_bad_corr, (unsigned long long)n_short,
                   (unsigned long long)n_closed);
            for (int i = 0; i < n_codes; i++) printf("  code %d: %llu times\n", codes[i].code, (unsigned long long)codes[i].n);
        }
    }
    return bad ? 3 : 0;
}
