/* A caller's own parallel_for, in unusual orders. `user` points to an int that counts the calls.
   Include first, or define _GNU_SOURCE before the first header. */
#ifndef STAX_TESTS_LOOPS_H
#define STAX_TESTS_LOOPS_H

#if !defined(_WIN32)
#include <pthread.h>
#endif
#include <stdint.h>

#include "random.h"

typedef void (*loop_body)(void *arg, int64_t i);

/* Another order at each call; long loops run backwards. */
static void shuffled_for(void *user, int64_t n, loop_body body, void *arg) {
    enum { MOST = 256 };
    int64_t order[MOST];
    uint64_t s = RANDOM_SEED + (uint64_t)++ * (int *)user;
    for (int64_t i = n - 1; n > MOST && i >= 0; i--) body(arg, i);
    if (n > MOST) return;
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)(draw(&s) % (uint64_t)(i + 1)), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (int64_t i = 0; i < n; i++) body(arg, order[i]);
}

#if !defined(_WIN32)
typedef struct loop_share {
    loop_body body;
    void *arg;
    int64_t i;
} loop_share;
static void *loop_share_work(void *p) {
    loop_share *s = (loop_share *)p;
    s->body(s->arg, s->i);
    return NULL;
}
/* A thread for every i below 64, started from the last: their host mode is the default one. */
static void threaded_for(void *user, int64_t n, loop_body body, void *arg) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    loop_share shares[MOST];
    ++*(int *)user;
    for (int64_t i = n - 1; i >= 0; i--) {
        if (i >= MOST) {
            body(arg, i);
            continue;
        }
        shares[i].body = body;
        shares[i].arg = arg;
        shares[i].i = i;
        pthread_create(&threads[i], NULL, loop_share_work, &shares[i]);
    }
    for (int64_t i = 0; i < n && i < MOST; i++) pthread_join(threads[i], NULL);
}
#endif

#endif
