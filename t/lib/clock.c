/* For LD_PRELOAD: the wall clock is what a mapped file says, in microseconds. Monotonic clocks go
   on by themselves. redis-server's TIME and its key expiry both come from gettimeofday. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *microseconds;

__attribute__((constructor)) static void map_clock(void) {
    const char *path = getenv("RATE_LIMIT_CLOCK");
    int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file == -1) {
        abort(); /* better no server than one on the wrong clock */
    }
    microseconds = mmap(NULL, sizeof(*microseconds), PROT_READ, MAP_SHARED, file, 0);
    if (microseconds == MAP_FAILED) {
        abort();
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock != CLOCK_REALTIME || microseconds == NULL) {
        return (int)syscall(SYS_clock_gettime, clock, time);
    }
    long long now = *microseconds;
    time->tv_sec = now / 1000000;
    time->tv_nsec = now % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
