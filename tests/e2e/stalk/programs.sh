#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs of the distribution, natively and followed from their constructors to their end: output, errors and exit
# status must be the same, and the report of the preloaded library must show that they were followed.
#   programs.sh PRELOAD [MODE...]       a mode is a list of settings of preload.c, as STALK_TRUST=-1:STALK_MEMORY=2
# CONTRAIL_TEST_WORK=N: programs that do N times as much (10 in make check-all).
preload=$(realpath "$1") || exit 1
shift
[ $# -gt 0 ] || set -- ''
amount=${CONTRAIL_TEST_WORK:-1}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

run() { # settings, command
    local settings=$1
    shift
    if [ -n "$settings" ]; then
        # shellcheck disable=SC2086 # settings, one word each
        timeout 300 env STALK_REPORT="$work/report" LD_PRELOAD="$preload" ${settings//:/ } "$@" </dev/null 2>&1
    else
        timeout 300 "$@" </dev/null 2>&1
    fi
    echo "status $?"
}

check() { # name, command
    local name=$1
    shift
    if ! command -v "$1" >/dev/null; then
        echo "skipped: $name, no $1"
        return
    fi
    run '' "$@" >expected
    for mode in "${modes[@]}"; do
        rm -f report
        run "STALK=1${mode:+:$mode}" "$@" >got
        if ! cmp -s expected got; then
            echo "FAILED: $name${mode:+ ($mode)}"
            diff expected got | head -5
            failed=1
        elif ! grep -q '^following 1 blocks [1-9]' report 2>/dev/null; then
            echo "FAILED: $name${mode:+ ($mode)} was not followed to its end"
            failed=1
        else
            echo "ok: $name${mode:+ ($mode)}"
        fi
    done
}

modes=("$@")
export HOME=$work GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_COMMITTER_DATE='1700000000 +0000'
git config --global init.defaultBranch master
for _ in 1 2 3 4 5 6; do cat /proc/self/exe; done | head -c $((amount * 200000)) >data
cat >script.sql <<END
create table t(a integer primary key, b text, c real);
with recursive n(x) as (select 1 union all select x+1 from n where x<$((amount * 2000)))
insert into t select x, 'v'||(x*7919%10007), x*0.5 from n;
create index tb on t(b);
select count(*), sum(c), max(b) from t where b like 'v1%';
select a.b, count(*) from t a join t b on a.b=b.b group by a.b order by 2 desc, 1 limit 5;
update t set c=c+1 where a%3=0; delete from t where a%7=0; select count(*), sum(c) from t;
END
cat >threads.py <<END
import hashlib, json, re, subprocess, threading
results = []
def work(i):
    h = hashlib.sha256()
    for k in range($((amount * 100))): h.update(b'%d' % (i * k))
    results.append(h.hexdigest())
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(results))
print(subprocess.run(['echo', 'child'], capture_output=True).stdout)
d = {str(i): [i] * 5 for i in range($((amount * 200)))}
print(len(re.findall('[0-9]+', json.dumps(d))))
try: 1 / 0
except ZeroDivisionError as e: print(e)
END
cat >exceptions.cc <<END
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>
struct guard { int &n; explicit guard(int &x) : n(x) {} ~guard() { n++; } };
static int unwound;
static int dive(int depth) {
    guard g(unwound);
    if (!depth) throw std::runtime_error("bottom");
    return dive(depth - 1) + 1;
}
int main() {
    int caught = 0;
    for (int i = 0; i < $((amount * 300)); i++) {
        try { dive(i % 20); } catch (const std::runtime_error &e) { caught += e.what()[0] == 'b'; }
        try { std::vector<int>().at(3); } catch (const std::out_of_range &) { caught++; }
    }
    printf("%d %d\\n", caught, unwound);
}
END

check bash bash -c 'x=0; for i in $(seq 1 200); do x=$((x+i)); done; echo $x | cat
a=(1 2 3); echo ${a[@]} $(echo sub | tr a-z A-Z)
trap "echo got" USR1; kill -USR1 $$; (exit 3); echo $?'
check sqlite3 sqlite3 :memory: '.read script.sql'
check python3 python3 threads.py
check perl perl -e 'my %h; $h{$_ % 97} .= chr(65+$_%26) for 1..'$((amount * 2000))';
print join(",", map {"$_=".length $h{$_}} sort keys %h), "\n";
use Time::HiRes "ualarm"; $SIG{ALRM}=sub{die "alarm\n"}; eval {ualarm 100000; 1 while 1;}; print $@;'
check git bash -c 'rm -rf repo && git init -q repo && cd repo &&
for i in 1 2 3; do seq 1 $((i * 300)) >list; echo "$i" >"file$i"; git add . && git commit -qm "change $i"; done
git log --stat --format="%H %an %ad %s" && git grep -n 77 HEAD~1 -- list && git diff HEAD~2 | tail -3 &&
git gc -q && git fsck --strict && git checkout -q -b side HEAD~1 &&
echo x >>file1 && git commit -qam side && git merge -q --no-edit master && git log --oneline --graph'
check xz bash -c 'xz -T2 -1 -c --block-size=50000 data | md5sum'
check openssl bash -c 'openssl dgst -sha512 data
for c in aes-256-ctr chacha20 aria-128-cbc; do
    openssl enc -$c -K $(printf %064d 7) -iv $(printf %032d 9) -in data 2>/dev/null | md5sum
done
openssl genrsa 1024 2>/dev/null | openssl rsa -check -noout; openssl prime 1000003'
if [ -z "${CONTRAIL_TEST_EMULATED:-}" ]; then
    check gcc bash -c 'echo "int main(void){return 3;}" >m.c; gcc -O2 m.c -o m && ./m; echo $?'
    check g++ g++ -O1 exceptions.cc -o exceptions
else
    echo "skipped: gcc, half a million blocks take an emulated machine minutes"
fi
# Exceptions that excluded code throws through followed frames, or unwinds, or only allocates.
g++ -O1 exceptions.cc -o exceptions
check exceptions ./exceptions
cxx=$(ldd exceptions | awk '/libstdc/ { print $3 }')
modes=(STALK_EXCLUDE="$(basename "$(readlink -f "$cxx")")" STALK_EXCLUDE=libgcc_s.so.1 STALK_EXCLUDE=libc.so.6)
check 'exceptions, excluded' ./exceptions
modes=("$@")
check lua lua5.4 -e 'local ok, e = pcall(error, {}) print(ok)
local s = {} for i = 1, '$((amount * 500))' do s[i] = string.format("%d", i) end print(#table.concat(s))'
check node node -e 'function f(n) { return n < 2 ? n : f(n-1) + f(n-2) }
console.log(f(22), JSON.stringify({a: [1, {b: 3}]}));
try { null.x } catch (e) { console.log(e.constructor.name) }'
# Compilers at run time change code that other threads run: nobody could promise that it stays as it is.
cat >Work.java <<'END'
import java.util.*;
import java.util.concurrent.*;
public class Work {
    static long sum(List<Shape> shapes) { long n = 0; for (Shape s : shapes) n += s.area(); return n; }
    public static void main(String[] args) throws Exception {
        List<Shape> shapes = new ArrayList<>();
        for (int i = 0; i < 2000; i++) shapes.add(new Square(i));
        for (int i = 0; i < 300; i++) sum(shapes);
        for (int i = 0; i < 2000; i++) shapes.add(new Strip(i));
        for (int i = 0; i < 300; i++) sum(shapes);
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < 6; i++) results.add(pool.submit(() -> sum(shapes)));
        for (Future<Long> r : results) System.out.println(r.get());
        pool.shutdown();
        int caught = 0;
        for (int i = 0; i < 3000; i++) try { ((Shape) null).area(); } catch (NullPointerException e) { caught++; }
        System.out.println(caught);
    }
}
interface Shape { int area(); }
record Square(int side) implements Shape { public int area() { return side * side; } }
record Strip(int length) implements Shape { public int area() { return length; } }
END
modes=(STALK_CHILDREN=1) # its main thread is not the process's
case " $* " in
*STALK_TRUST=0*) ;;
*)
    if [ "$amount" = 1 ] && javac Work.java 2>/dev/null; then
        check java java -XX:+UseSerialGC Work
    else # with the compiler, which is most of the work
        check java java -XX:+UseSerialGC Work.java
    fi
    ;;
esac
modes=("$@")
check sort bash -c 'seq 1 '$((amount * 500))' | sort -R --random-source=data | sort -n | md5sum'
exit $failed
