/* For LD_PRELOAD: while there is a file NO_MEMORY, allocations of 10 to 60 KB fail. nginx makes none of
   that size for itself. */

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

void *__libc_malloc(size_t size);

void *malloc(size_t size) {
    if (size >= 10000 && size <= 60000 && access(NO_MEMORY, F_OK) == 0) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}
