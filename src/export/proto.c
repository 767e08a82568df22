/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf messages. */
#include "export/proto.h"
#include "export/text.h"

void ct_proto_text(struct ct_proto *p, uint32_t field, const char *text) {
    char clean[CT_PROTO_TEXT];
    ct_proto_bytes(p, field, clean, ct_text_clean(clean, sizeof clean, text, true));
}

void ct_proto_put(struct ct_out *out, uint32_t field, const struct ct_proto *message) {
    uint8_t *to = ct_out_room(out, 20);
    size_t n = field ? ct_proto_varint(to, field << 3 | 2) : 0;
    n += ct_proto_varint(to + n, message->used);
    ct_out_took(out, n);
    ct_out_bytes(out, message->bytes, message->used);
}
