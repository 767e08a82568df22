#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Line coverage of src/ by the unit and end-to-end suites, in a build of its own: a table on stdout and
# build-coverage/coverage.txt, pages in build-coverage/html.
set -eu
cd "$(dirname "$0")/.."

dir=build-coverage
[ -f $dir/build.ninja ] || CC=gcc CXX=g++ meson setup $dir -Db_coverage=true >/dev/null
ninja -C $dir >/dev/null
find $dir -name '*.gcda' -delete
meson test -C $dir --no-rebuild --print-errorlogs --suite unit --suite e2e --timeout-multiplier 2
mkdir -p $dir/html
gcovr --root . --filter src/ --object-directory $dir --gcov-ignore-parse-errors \
    --txt $dir/coverage.txt --html-details $dir/html/index.html $dir
cat $dir/coverage.txt
echo "pages: $dir/html/index.html"
