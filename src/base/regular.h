/* Opening files whose names, or what is behind them, somebody else decides. */
#ifndef CT_BASE_REGULAR_H
#define CT_BASE_REGULAR_H

/* A regular file for reading, O_CLOEXEC; -1 with errno. Anything else (a device may act on being opened, a pipe may wait) is not
 * opened at all: EINVAL. */
int ct_open_regular(const char *path);

#endif
