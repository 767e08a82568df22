// SPDX-License-Identifier: Apache-2.0
// Questions to the server. An answer is bounded in size, a question that nobody waits for is cancelled, and only a few
// are on their way at once. The cookie that the server has set says who asks.

const LARGEST = 16 << 20 // bytes of an answer
const AT_ONCE = 4
const PATIENCE = 60000 // milliseconds

export class Refused extends Error {
  /** @param {string} text @param {number} status */
  constructor (text, status) {
    super(text)
    this.status = status
  }
}

/** @param {unknown} error */
export const cancelled = error => error instanceof DOMException && error.name === 'AbortError'

/** The address of a question; what is undefined is left out. @param {string} path
 * @param {Record<string, string | number | undefined>} words */
export function question (path, words) {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(words)) if (value !== undefined) search.set(name, String(value))
  return `/api/${path}?${search}`
}

/** The text of an answer, or an error when it is too large. @param {Response} response */
async function text (response) {
  if (!response.body) return ''
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  const parts = []
  for (let size = 0; ;) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.length
    if (size > LARGEST) {
      await reader.cancel()
      throw new Refused('The answer is too large for the page.', 0)
    }
    parts.push(decoder.decode(value, { stream: true }))
  }
  parts.push(decoder.decode())
  return parts.join('')
}

/** @param {Response} response */
async function answer (response) {
  const body = await text(response)
  let value
  try {
    value = JSON.parse(body)
  } catch {
    throw new Refused(response.ok ? 'The answer is cut.' : `The server answers ${response.status}.`, response.status)
  }
  if (!response.ok)
    throw new Refused(String(value?.error ?? `The server answers ${response.status}.`), response.status)
  return value
}

export class Api {
  constructor (fetcher = /** @type {typeof fetch} */ ((...words) => fetch(...words))) {
    this.fetch = fetcher
    this.running = 0
    /** @type {(() => void)[]} */
    this.queue = []
    /** @type {Map<string, AbortController>} */
    this.slots = new Map()
  }

  /** Asks. What asked before for the same `slot` is cancelled; '' is never cancelled by another.
   * @param {string} slot @param {string} path @param {Record<string, string | number | undefined>} [words]
   * @returns {Promise<any>} */
  get (slot, path, words = {}) {
    return this.send(slot, question(path, words), {})
  }

  /** @param {string} slot @param {string} path @param {object} body @returns {Promise<any>} */
  post (slot, path, body) {
    const headers = { 'content-type': 'application/json' }
    return this.send(slot, `/api/${path}`, { method: 'POST', body: JSON.stringify(body), headers })
  }

  /** @param {string} slot */
  cancel (slot) {
    this.slots.get(slot)?.abort()
    this.slots.delete(slot)
  }

  /** @param {string} slot @param {string} address @param {RequestInit} how */
  async send (slot, address, how) {
    const stop = new AbortController()
    if (slot) {
      this.cancel(slot)
      this.slots.set(slot, stop)
    }
    const timer = setTimeout(() => stop.abort(new Refused('The server does not answer.', 0)), PATIENCE)
    await this.turn()
    try {
      stop.signal.throwIfAborted()
      return await answer(await this.fetch(address, { ...how, signal: stop.signal, credentials: 'same-origin' }))
    } finally {
      clearTimeout(timer)
      if (this.slots.get(slot) === stop) this.slots.delete(slot)
      this.running--
      this.queue.shift()?.()
    }
  }

  /** Waits until there is room for one more. */
  async turn () {
    if (this.running >= AT_ONCE)
      await new Promise(resolve => {
        this.queue.push(() => resolve(null))
      })
    this.running++
  }
}
