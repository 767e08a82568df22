// SPDX-License-Identifier: Apache-2.0
// A trace that is made up: calls by thread and depth, with names that are markup, and one of a megabyte.
export const HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'

/** Numbers that look random and are the same each time. */
export function random (seed) {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return ((state ^ (state >>> 16)) >>> 0) / 2 ** 32
  }
}

export const NAMES = [
  ['main', 'shop'],
  ['serve(request&)', 'shop'],
  ['parse_order', 'shop'],
  ['std::map<int, order>::find(int const&)', 'shop'],
  ['price_of', 'shop'],
  ['write_reply', 'shop'],
  ['malloc', 'libc.so.6'],
  ['free', 'libc.so.6'],
  ['memcpy', 'libc.so.6'],
  ['SSL_write', 'libssl.so.3'],
  ['EVP_EncryptUpdate', 'libcrypto.so.3'],
  ['sqlite3_step', 'libsqlite3.so.0'],
  ['pread64', 'libc.so.6'],
  [HOSTILE, 'evil<b>.so'],
  ['x'.repeat(1 << 20), 'long.so']
]

/** Calls in [from, to) at a depth, and theirs. */
function grow (rows, ids, next, from, to, depth, most) {
  let time = from + Math.floor((to - from) * 0.01 * next())
  while (time < to && depth < most) {
    const end = Math.min(
      to,
      time + Math.max(3, Math.floor((to - from) * (depth < 2 ? 0.03 + 0.1 * next() : 0.08 + 0.7 * next() ** 2)))
    )
    const fn = depth === 0 ? (next() < 0.5 ? 1 : 5) : 2 + Math.floor(next() * (NAMES.length - 2))
    const call = { id: ids.next++, fn, start: time, end, depth, parent: ids.open.at(-1) ?? -1, thread: ids.thread }
    ids.all.set(call.id, call)
    ;(rows[depth] ??= []).push(call)
    ids.open.push(call.id)
    if (end - time > 40 && next() < 0.85) grow(rows, ids, next, time, end, depth + 1, most)
    ids.open.pop()
    time = end + Math.floor((to - from) * 0.02 * next())
  }
}

export function makeTrace ({ threads = 3, length = 2e9, depth = 7, seed = 1 } = {}) {
  const ids = { next: 0, all: new Map(), open: [], thread: 0 }
  const next = random(seed)
  const rows = new Map()
  for (let thread = 1; thread <= threads; thread++) {
    ids.next = (thread - 1) * 2 ** 40 + 1
    ids.thread = thread
    const own = []
    grow(own, ids, next, 0, length, 0, depth)
    for (const row of own) row.sort((a, b) => a.start - b.start)
    rows.set(thread, own)
  }
  return { length, rows, calls: ids.all, threads }
}
