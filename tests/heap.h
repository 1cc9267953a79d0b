/* An allocator that counts blocks and bytes, checks the sizes it is given back, and fails either at
   call N alone or at call N and all later ones. */
#ifndef STAX_TESTS_HEAP_H
#define STAX_TESTS_HEAP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stax.h"

/* Zeroed, it never fails. */
typedef struct heap {
    int64_t calls, fail_at, blocks, bytes, wrong;
    int from_then_on, failed;
} heap;

typedef struct heap_head {
    size_t bytes, offset, magic;
} heap_head;

static void *heap_alloc(size_t bytes, size_t align, void *user) {
    heap *p = (heap *)user;
    p->calls++;
    if (p->fail_at && (p->calls == p->fail_at || (p->from_then_on && p->calls > p->fail_at))) {
        p->failed = 1;
        return NULL;
    }
    if (bytes > (size_t)1 << 36) return NULL; /* some systems promise what they have not */
    if (align == 0 || (align & (align - 1))) p->wrong++;
    if (align < 16) align = 16;
    char *raw = (char *)malloc(bytes + align + sizeof(heap_head));
    if (!raw) return NULL;
    char *at = raw + sizeof(heap_head);
    at += (align - (size_t)((uintptr_t)at % align)) % align;
    heap_head *hd = (heap_head *)(void *)(at - sizeof(heap_head));
    hd->bytes = bytes;
    hd->offset = (size_t)(at - raw);
    hd->magic = 0x5745u;
    memset(at, 0xcd, bytes);
    p->blocks++;
    p->bytes += (int64_t)bytes;
    return at;
}

static void heap_free(void *ptr, size_t bytes, void *user) {
    heap *p = (heap *)user;
    if (!ptr) return;
    heap_head *hd = (heap_head *)(void *)((char *)ptr - sizeof(heap_head));
    if (hd->magic != 0x5745u || hd->bytes != bytes) {
        if (getenv("STAX_TEST_ABORT")) abort(); /* for a debugger */
        if (p->wrong++ < 4) printf("freed %zu bytes of a block of %zu\n", bytes, hd->bytes);
    }
    hd->magic = 0;
    p->blocks--;
    p->bytes -= (int64_t)hd->bytes;
    memset(ptr, 0xdd, hd->bytes);
    free((char *)ptr - hd->offset);
}

static inline stax_allocator heap_allocator(heap *p) {
    stax_allocator a;
    a.alloc = heap_alloc;
    a.free = heap_free;
    a.user = p;
    return a;
}

static inline stax_options heap_options(heap *p) {
    stax_options o = stax_options_default();
    o.allocator = heap_allocator(p);
    return o;
}

#endif
