// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

const UNITS = /** @type {[number, string][]} */ ([
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns']
])

/** A duration with three digits: 12.3 µs. @param {number} ns */
export function duration (ns) {
  if (!Number.isFinite(ns)) return '?'
  const size = Math.abs(ns)
  if (size >= 120e9) return `${Math.floor(ns / 60e9)} min ${Math.floor((ns % 60e9) / 1e9)} s`
  for (const [unit, name] of UNITS) {
    if (size >= unit || unit === 1) {
      const value = ns / unit
      const digits =
        unit === 1 && Number.isInteger(ns) ? 0 : Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
      return `${value.toFixed(digits)} ${name}`
    }
  }
  return '0 ns'
}

/** A round duration without digits that say nothing: 20 ms. @param {number} ns */
export const whole = ns => duration(ns).replace(/\.0+(?= )/, '')

/** A moment, exact to the nanosecond: 1.234 567 890 s. @param {number} ns */
export function moment (ns) {
  const whole = Math.trunc(ns / 1e9)
  const rest = String(Math.round(Math.abs(ns % 1e9))).padStart(9, '0')
  return `${whole}.${rest.slice(0, 3)} ${rest.slice(3, 6)} ${rest.slice(6)} s`
}

/** @param {number} number */
export const count = number =>
  Number.isFinite(number)
    ? Math.round(number)
        .toString()
        .replace(/\B(?=(\d{3})+(?!\d))/g, ',')
    : '?'

/** Short: 12.3 M. @param {number} number */
export function short (number) {
  if (number >= 1e9) return `${(number / 1e9).toFixed(number >= 1e10 ? 0 : 1)} G`
  if (number >= 1e6) return `${(number / 1e6).toFixed(number >= 1e7 ? 0 : 1)} M`
  if (number >= 1e4) return `${(number / 1e3).toFixed(0)} k`
  return count(number)
}

/** @param {number} part @param {number} whole */
export const percent = (part, whole) =>
  whole > 0 ? `${((100 * part) / whole).toFixed(part * 10 < whole ? 1 : 0)} %` : ''

/** @param {number} number @param {string} one @param {string} [many] */
export const plural = (number, one, many = one + 's') => `${count(number)} ${number === 1 ? one : many}`

/** What a trace is called on the page: its program and the time of day, and more where that is not enough to tell it
 * from the others. @param {import('./types.js').TraceName | undefined} trace
 * @param {import('./types.js').TraceName[]} all */
export function traceLabel (trace, all) {
  if (!trace) return ''
  const forms = [timed, dated, (/** @type {import('./types.js').TraceName} */ one) => one.path]
  const form = forms.find(one => all.filter(other => one(other) === one(trace)).length < 2) ?? forms[2]
  return form(trace)
}

const SESSION = /^session_(\d{8})_(\d\d)(\d\d)(\d\d)$/

/** @param {import('./types.js').TraceName} trace */
const timed = ({ name, program }) => {
  const [, , hours, minutes, seconds] = SESSION.exec(name) ?? []
  return hours && program ? `${program.slice(0, 40)} ${hours}:${minutes}:${seconds}` : name
}

/** @param {import('./types.js').TraceName} trace */
const dated = ({ name, program }) => `${(program ?? '').slice(0, 40)} ${name.replace(/^session_(?=\d)/, '')}`.trim()

/** The last part of a path. @param {string} path */
export const base = path => path.slice(path.lastIndexOf('/') + 1) || path

/** Steps of a ruler: 1, 2 or 5 times a power of ten, at least `least`. @param {number} least */
export function step (least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)))
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least) return factor * power
  return 10 * power
}

/** The text of a tick of the ruler: as many digits as its step needs. @param {number} ns @param {number} by */
export function tick (ns, by) {
  const [unit, name] = by >= 1e9 ? UNITS[0] : by >= 1e6 ? UNITS[1] : by >= 1e3 ? UNITS[2] : UNITS[3]
  return `${count(Math.round(ns / unit))} ${name}`
}

/** Whether a signal has killed its process. @param {{signal: string, crash?: boolean}} signal */
export const isCrash = signal => signal.crash ?? /^SIG(SEGV|BUS|ILL|FPE|ABRT|TRAP|SYS)$/.test(signal.signal)

/** A trace in words, for those who do not see it. @param {import('./types.js').Info} info */
export const spoken = info =>
  `${plural(info.threads.length, 'thread')}, ${count(info.calls)} calls, ${duration(info.end - info.start)}`
