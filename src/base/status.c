/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of the status codes; the list itself is contrail/status.h. */
#include <contrail/status.h>

const char *ct_status_name(int status) {
    switch (status) {
    case CT_OK:
        return "OK";
#define CASE(name, value, text)                                                                                        \
    case value:                                                                                                        \
        return "ERR_" #name;
        CT_STATUS_LIST(CASE)
#undef CASE
    default:
        return "ERR_UNKNOWN";
    }
}

const char *ct_status_text(int status) {
    switch (status) {
    case CT_OK:
        return "success";
#define CASE(name, value, text)                                                                                        \
    case value:                                                                                                        \
        return text;
        CT_STATUS_LIST(CASE)
#undef CASE
    default:
        return "unknown error";
    }
}
