/* A temporary folder of a test's own; POSIX, define _GNU_SOURCE before. */
#ifndef STAX_TESTS_FOLDER_H
#define STAX_TESTS_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Makes "<name>-XXXXXX" among the temporary folders; 0: it cannot be made. */
static int folder_make(char *folder, size_t n, const char *name) {
    const char *above = getenv("TMPDIR");
    snprintf(folder, n, "%s/%s-XXXXXX", above ? above : "/tmp", name);
    return mkdtemp(folder) != NULL;
}

/* With all that is in it. */
static void folder_remove(const char *folder) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) printf("cannot remove %s\n", folder);
}

#endif
