/* Protobuf messages. */
#include "export/proto.h"

/* Bytes of the character of UTF-8 that begins here, 0: none does. */
static size_t character(const uint8_t *at, size_t left) {
    size_t n = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if ((at[0] >= 0x80 && at[0] < 0xc2) || n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool outside = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return overlong || outside ? 0 : n;
}

void ct_proto_text(struct ct_proto *p, uint32_t field, const char *text) {
    uint8_t clean[CT_PROTO_TEXT];
    size_t length = strlen(text), used = 0, n;
    for (size_t at = 0; at < length; at += n) {
        n = character((const uint8_t *)text + at, length - at);
        if (used + (n ? n : 1) > sizeof clean)
            break;
        if (n)
            memcpy(clean + used, text + at, n);
        else
            clean[used] = '?';
        n = n ? n : 1;
        used += n;
    }
    ct_proto_bytes(p, field, clean, used);
}

void ct_proto_put(struct ct_out *out, uint32_t field, const struct ct_proto *message) {
    uint8_t *to = ct_out_room(out, 20);
    size_t n = field ? ct_proto_varint(to, field << 3 | 2) : 0;
    n += ct_proto_varint(to + n, message->used);
    ct_out_took(out, n);
    ct_out_bytes(out, message->bytes, message->used);
}
