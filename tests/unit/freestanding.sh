#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Layers that run inside stubs and the agent must call nothing outside Contrail: a compiler may turn a loop or the copy
# of a structure into a call of memcpy, which may be a hooked function.
status=0
for library; do
    foreign=$(nm -u "$library" |
        awk '$1 == "U" && $2 !~ /^(ct_|__(start|stop)_ct_|_GLOBAL_OFFSET_TABLE_$)/ { print $2 }' | sort -u)
    if [ -n "$foreign" ]; then
        echo "$library refers to:" "$foreign"
        status=1
    fi
done
exit $status
