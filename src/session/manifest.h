/* SPDX-License-Identifier: Apache-2.0 */
/* What is written about a recorded process besides its events: manifest.json and the symbols file. */
#ifndef CT_SESSION_MANIFEST_H
#define CT_SESSION_MANIFEST_H

#include <stdbool.h>

struct ct_json;
struct ct_recording;
struct ct_session;

int ct_manifest_write(struct ct_recording *r, bool complete);
int ct_manifest_write_symbols(struct ct_recording *r);
/* Writes the functions without a name that are new since (follower.h); nothing else can be. */
int ct_manifest_add_symbols(struct ct_recording *r);
/* Adds the members of the answer to `status` to an open object. */
void ct_manifest_status(struct ct_session *s, struct ct_json *json);

#endif
