// SPDX-License-Identifier: Apache-2.0
// The cells that the page has: tiles of 1024 columns, at levels whose columns are powers of two of a nanosecond. What a
// picture needs and is not here is asked for; until it comes, a coarser or finer tile takes its place.

export const COLUMNS = 1024
export const CHUNK = 32 // depths of a tile
const MOST_THREADS = 32 // of a question
const ROOM = 8e6 // numbers that are kept
const RETRY = 400 // milliseconds between questions while the server still prepares its levels; later ones take longer
const SLOWEST = 8 // times as long
const COARSER = 24
const FINER = 3

/** @typedef {{level: number, index: number, chunk: number, thread: number}} Place */
/** @typedef {{depths: Float64Array[], size: number, used: number, known: number, progress: number, asked: number,
 *   tries: number}} Tile */
/** @typedef {import('./paint.js').Piece} Piece */

/** @param {Place} place */
const key = ({ level, index, chunk, thread }) => `${level}/${index}/${chunk}/${thread}`

/** The level whose columns are at most as long as a pixel. @param {number} from @param {number} to @param {number}
 * width */
export const levelOf = (from, to, width) => Math.max(0, Math.floor(Math.log2(Math.max(1, (to - from) / width))))

/** @param {number} level */
export const tileSpan = level => COLUMNS * 2 ** level

export class Cells {
  /** @param {import('./api.js').Api} api @param {number} trace
   * @param {(answer: import('./types.js').CellsAnswer) => void} arrived @param {(error: unknown) => void} failed */
  constructor (api, trace, arrived, failed) {
    this.api = api
    this.trace = trace
    this.arrived = arrived
    this.failed = failed
    /** @type {Map<string, Tile>} */
    this.tiles = new Map()
    /** @type {Map<string, string>} what has been asked for: tile to slot */
    this.asked = new Map()
    this.size = 0
    this.clock = 0
    this.end = 0
  }

  /** The trace has grown to `end`: what was asked for before and reaches further is stale. @param {number} end */
  grow (end) {
    this.end = end
  }

  /** @param {Place} place */
  find (place) {
    const tile = this.tiles.get(key(place))
    if (tile) tile.used = ++this.clock
    return tile
  }

  /** @param {Place} place */
  fresh (place) {
    const tile = this.tiles.get(key(place))
    if (!tile) return false
    if (tile.progress < 1 && performance.now() - tile.asked > RETRY * Math.min(tile.tries, SLOWEST)) return false
    return tile.known >= this.end || (place.index + 1) * tileSpan(place.level) <= tile.known
  }

  /** Cells of one depth of a thread in a tile's place, from whichever level has some.
   * @param {Place} place @param {number} depth @returns {Piece[]} */
  pieces (place, depth) {
    const span = tileSpan(place.level)
    const from = place.index * span
    const to = from + span
    const own = this.find(place)
    if (own) return [{ from, to, cells: own.depths[depth % CHUNK] ?? NOTHING }]
    for (let up = 1; up <= COARSER; up++) {
      const tile = this.find({ ...place, level: place.level + up, index: Math.floor(place.index / 2 ** up) })
      if (tile) return [{ from, to, cells: tile.depths[depth % CHUNK] ?? NOTHING }]
    }
    return this.finer(place, depth, FINER)
  }

  /** @param {Place} place @param {number} depth @param {number} left @returns {Piece[]} */
  finer (place, depth, left) {
    if (left === 0 || place.level === 0) return []
    const pieces = []
    for (const half of [0, 1]) {
      const child = { ...place, level: place.level - 1, index: place.index * 2 + half }
      const tile = this.find(child)
      const from = child.index * tileSpan(child.level)
      if (tile) pieces.push({ from, to: from + tileSpan(child.level), cells: tile.depths[depth % CHUNK] ?? NOTHING })
      else pieces.push(...this.finer(child, depth, left - 1))
    }
    return pieces
  }

  /** Asks for what these threads and chunks need between two times, and forgets questions that nobody waits for.
   * @param {number} from @param {number} to @param {number} level @param {{thread: number, chunk: number}[]} parts */
  want (from, to, level, parts) {
    const span = tileSpan(level)
    const wanted = new Set()
    /** @type {Map<string, Place[]>} */
    const questions = new Map()
    for (let index = Math.max(0, Math.floor(from / span)); index * span < to; index++) {
      for (const { thread, chunk } of parts) {
        const place = { level, index, chunk, thread }
        wanted.add(key(place))
        if (this.fresh(place) || this.asked.has(key(place))) continue
        const name = `${level}/${index}/${chunk}`
        questions.set(name, [...(questions.get(name) ?? []), place])
      }
    }
    for (const [tile, slot] of [...this.asked]) if (!wanted.has(tile)) this.release(tile, slot)
    for (const places of questions.values()) {
      for (let i = 0; i < places.length; i += MOST_THREADS) this.ask(places.slice(i, i + MOST_THREADS))
    }
  }

  /** Whether one of these is still prepared by the server.
   * @param {number} from @param {number} to @param {number} level
   * @param {{thread: number, chunk: number}[]} parts */
  waiting (from, to, level, parts) {
    const span = tileSpan(level)
    for (let index = Math.max(0, Math.floor(from / span)); index * span < to; index++) {
      for (const part of parts) {
        const tile = this.tiles.get(key({ level, index, ...part }))
        if (tile && tile.progress < 1) return true
      }
    }
    return false
  }

  /** @param {string} tile @param {string} slot */
  release (tile, slot) {
    this.asked.delete(tile)
    if (![...this.asked.values()].includes(slot)) this.api.cancel(slot)
  }

  /** @param {Place[]} places threads of one tile */
  async ask (places) {
    const { level, index, chunk } = places[0]
    const slot = `cells ${++this.clock}`
    for (const place of places) this.asked.set(key(place), slot)
    const span = tileSpan(level)
    const known = this.end
    try {
      const answer = await this.api.get(slot, 'cells', {
        trace: this.trace,
        threads: places.map(place => place.thread).join(','),
        from: index * span,
        to: (index + 1) * span,
        width: COLUMNS,
        depth: `${chunk * CHUNK}-${chunk * CHUNK + CHUNK - 1}`
      })
      this.keep(places, answer, known)
      this.arrived(answer)
    } catch (error) {
      this.failed(error)
    } finally {
      for (const place of places) if (this.asked.get(key(place)) === slot) this.asked.delete(key(place))
    }
  }

  /** @param {Place[]} places @param {import('./types.js').CellsAnswer} answer @param {number} known */
  keep (places, answer, known) {
    const rows = new Map(answer.threads.map(one => [one.thread, one.depths]))
    for (const place of places) {
      const depths = (rows.get(place.thread) ?? []).slice(0, CHUNK).map(cells => Float64Array.from(cells))
      const size = depths.reduce((sum, cells) => sum + cells.length, 16)
      this.size += size - (this.tiles.get(key(place))?.size ?? 0)
      this.tiles.set(key(place), {
        depths,
        size,
        used: ++this.clock,
        known,
        progress: answer.progress ?? 1,
        asked: performance.now(),
        tries: answer.progress < 1 ? (this.tiles.get(key(place))?.tries ?? 0) + 1 : 0
      })
    }
    if (this.size > ROOM) this.shrink()
  }

  /** Forgets the tiles that were not used for longest, until a third of the room is free. */
  shrink () {
    for (const [name, tile] of [...this.tiles].sort((a, b) => a[1].used - b[1].used)) {
      if (this.size <= (ROOM * 2) / 3) break
      this.tiles.delete(name)
      this.size -= tile.size
    }
  }
}

const NOTHING = new Float64Array(0)
