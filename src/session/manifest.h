/* What is written about a recorded process beside its events: manifest.json and the symbols file. */
#ifndef CT_SESSION_MANIFEST_H
#define CT_SESSION_MANIFEST_H

#include <stdbool.h>

struct ct_json;
struct ct_recording;
struct ct_session;

int ct_manifest_write(struct ct_recording *r, bool complete);
int ct_manifest_write_symbols(struct ct_recording *r);
/* Only functions without a name can have come since (follower.h); writes them, if there are any. */
int ct_manifest_add_symbols(struct ct_recording *r);
/* Members of the answer to `status`, into an open object. */
void ct_manifest_status(struct ct_session *s, struct ct_json *json);

#endif
