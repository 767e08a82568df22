# SPDX-License-Identifier: Apache-2.0
"""The programs whose cost is measured. Each prints how long its work took, in milliseconds, recorded or not: the start
of the tool is not part of it."""
import re

# Prints `ms N`. /proc/uptime is in hundredths of a second.
LUA = """
local function now() local f = io.open('/proc/uptime') local s = f:read('n') f:close() return s end
local begin = now()
local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end
local c, k = 0, 0
for round = 1, %d do
  local t = {} for i = 1, 100000 do t[i] = (i * 7919) %% 100003 end table.sort(t)
  local s = {} for i = 1, 50000 do s[#s+1] = string.format('%%d:%%s', i, tostring(i*3)) end
  local x = table.concat(s) for w in x:gmatch('%%d+') do c = c + #w end
  local o = {} for i = 1, 150000 do local key = 'k' .. (i %% 1000) o[key] = (o[key] or 0) + i end
  k = k + o.k7 + fib(24)
end
print(c, k)
print(string.format('ms %%.0f', (now() - begin) * 1000))
"""

CLOCK = "select 'clock ' || cast((julianday('now') - 2440587.5) * 86400000 as integer);"
SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(x) as (select 1 union all select x+1 from n where x < %d)
  insert into t select x, 'v' || (x * 7919 %% 100003), x * 0.5 from n;
create index tb on t(b);
select count(*), sum(c), max(b) from t where b like 'v1%%';
select a.b, count(*) from t a join t b on a.b = b.b group by a.b order by 2 desc, 1 limit 5;
update t set c = c + 1 where a %% 3 = 0;
select sum(c) from t;
delete from t where a %% 7 = 0;
select count(*) from t;
"""


def lua(scale):
    return ["/usr/bin/lua5.4", "-e", LUA % max(1, round(3 * scale))]


def luajit(scale):
    """Longer: a compiled script does the work in a tenth of the time."""
    return ["/usr/bin/luajit", "-e", (LUA % max(1, round(20 * scale))).replace("read('n')", "read('*n')")]


def sqlite(scale):
    return ["/usr/bin/sqlite3", ":memory:", CLOCK + SQL % max(1000, round(200000 * scale)) + CLOCK]


NODE = """
const begin = process.hrtime.bigint();
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
let sum = 0;
for (let round = 0; round < %d; round++) {
  const t = Array.from({length: 100000}, (_, i) => (i * 7919) %% 100003).sort((a, b) => a - b);
  const s = t.map((v, i) => i + ':' + v).join('');
  sum += fib(27) + t[100] + s.length;
}
console.log(sum);
console.log('ms ' + Number(process.hrtime.bigint() - begin) / 1e6);
"""


def node(scale):
    return ["/usr/bin/node", "-e", NODE % max(1, round(10 * scale))]


def milliseconds(text):
    """How long the work took, from what a program printed."""
    found = re.search(r"^ms ([\d.]+)$", text, re.M)
    if found:
        return float(found[1])
    clocks = [int(word) for word in re.findall(r"^clock (\d+)$", text, re.M)]
    return float(clocks[1] - clocks[0])


def pair_ns(text):
    """Nanoseconds of a call and return, from the line of `calls`."""
    return float(re.search(r"([\d.]+) ns/call", text)[1])
