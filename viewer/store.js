// SPDX-License-Identifier: Apache-2.0
// The state of the page: one flat object, in the URL's hash, so that an address shows what its sender saw.

export const VIEWS = ['timeline', 'flame', 'functions', 'latency', 'compare', 'crash', 'blocks', 'sql']

/** What is not in the hash has these values; -1 is "none". */
export const DEFAULTS = Object.freeze({
  view: 'timeline',
  trace: 0,
  with: -1, // the other trace of a comparison
  from: -1, // what the timeline shows
  to: -1,
  top: 0, // pixels above the first row that is shown
  a: -1, // the selected range
  b: -1,
  call: -1, // the selected call
  fn: -1, // the function that was searched for, or whose latency is shown
  name: '', // its name, which another server knows by another number
  thread: -1, // the only thread that counts
  folded: '', // threads that show one row: 1,5
  mode: 'callees', // of the flame graph
  sort: 'self', // of the functions
  order: '', // 'up': turned round
  text: '', // filter of the functions
  sql: '',
  chart: '',
  address: '', // of a block
  follow: 1 // a trace that is written: the end stays in sight
})

/** @typedef {{-readonly [K in keyof typeof DEFAULTS]: (typeof DEFAULTS)[K] extends number ? number : string}} State */

const LONGEST = 4000

/** @param {string} hash @returns {State} */
export function parse (hash) {
  const state = /** @type {any} */ ({ ...DEFAULTS })
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ''))) {
    if (!Object.hasOwn(DEFAULTS, name)) continue
    if (typeof state[name] === 'string') state[name] = text.slice(0, LONGEST)
    else if (/^-?\d{1,16}$/.test(text)) state[name] = Number(text)
  }
  if (!VIEWS.includes(state.view)) state.view = DEFAULTS.view
  for (const [low, high] of [
    ['from', 'to'],
    ['a', 'b']
  ]) {
    if (state[low] < 0 || state[high] <= state[low]) state[low] = state[high] = -1
  }
  return state
}

/** @param {State} state */
export function serialize (state) {
  const words = new URLSearchParams()
  const from = /** @type {any} */ (state)
  for (const [name, value] of Object.entries(DEFAULTS)) {
    if (from[name] !== value) words.set(name, String(from[name]))
  }
  return words.toString()
}

/** How long the address may be older than the state, in milliseconds: browsers refuse to change it at every frame. */
const SLOWNESS = 250

export class Store {
  /** @param {{hash: string, replace: (hash: string) => void, push: (hash: string) => void}} address */
  constructor (address) {
    this.address = address
    this.state = parse(address.hash)
    /** @type {Set<(state: State, before: State) => void>} */
    this.listeners = new Set()
    this.timer = /** @type {any} */ (0)
  }

  /** Changes the state and tells everybody. `step`: the browser's Back returns to before.
   * @param {Partial<State>} patch @param {{step?: boolean}} [how] */
  set (patch, { step = false } = {}) {
    const before = this.state
    const state = { ...before, ...patch }
    if (serialize(state) === serialize(before)) return
    if (step) this.write()
    this.state = state
    if (step) this.address.push(serialize(state))
    else if (!this.timer) this.timer = setTimeout(() => this.write(), SLOWNESS)
    this.tell(before)
  }

  /** The address gets the state. */
  write () {
    clearTimeout(this.timer)
    this.timer = 0
    this.address.replace(serialize(this.state))
  }

  /** The address has changed: by the user, or by Back. @param {string} hash */
  read (hash) {
    const before = this.state
    if (serialize(before) === serialize(parse(hash))) return
    clearTimeout(this.timer)
    this.timer = 0
    this.state = parse(hash)
    this.tell(before)
  }

  /** @param {State} before */
  tell (before) {
    for (const listener of [...this.listeners]) listener(this.state, before)
  }

  /** @param {(state: State, before: State) => void} listener @returns {() => void} ends it */
  watch (listener) {
    this.listeners.add(listener)
    return () => {
      this.listeners.delete(listener)
    }
  }
}

/** Whether one of these has changed. @param {State} a @param {State | null} b @param {...(keyof State)} names */
export const differs = (a, b, ...names) => !b || names.some(name => a[name] !== b[name])
