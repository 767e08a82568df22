// SPDX-License-Identifier: Apache-2.0
// Colours of light and dark. A function's colour follows from its module (hue) and its name (shade), so it is the same
// in every view, trace and session.

const HUES = 14
const SHADES = 8
export const LEVELS = 8 // how much of a cell is filled
export const COLOURS = HUES * SHADES

/** OKLCH to 8 bits of red, green, blue: equal lightness looks equally light. @param {number} lightness
 * @param {number} chroma @param {number} degrees @returns {[number, number, number]} */
export function rgb (lightness, chroma, degrees) {
  const a = chroma * Math.cos((degrees * Math.PI) / 180)
  const b = chroma * Math.sin((degrees * Math.PI) / 180)
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s
  ]
  const [red, green, blue] = linear.map(value => {
    const part = Math.min(1, Math.max(0, value))
    return Math.round(255 * (part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055))
  })
  return [red, green, blue]
}

/** @param {string} text */
export function hash (text) {
  let value = 2166136261
  const length = Math.min(text.length, 256)
  for (let i = 0; i < length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619)
  return (value ^ (value >>> 15)) >>> 0
}

/** The number of a function's colour. @param {string} name @param {string} module */
export const colourOf = (name, module) => (hash(module || '?') % HUES) * SHADES + (hash(name) % SHADES)

/** @typedef {{dark: boolean, background: string, row: string, text: string, onCell: string, muted: string,
 *   line: string,
 *   accent: string, soft: string, loss: string, bad: string, window: string, mark: string, hit: string,
 *   pixels: Uint32Array, blank: number, css: string[]}} Palette */

/** @param {[number, number, number]} colour */
const word = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0
/** @param {[number, number, number]} colour */
const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`

/** @param {[number, number, number]} a @param {[number, number, number]} b @param {number} part
 * @returns {[number, number, number]} */
const mix = (a, b, part) => {
  const at = (/** @type {0 | 1 | 2} */ i) => Math.round(a[i] + (b[i] - a[i]) * part)
  return [at(0), at(1), at(2)]
}

/** @param {boolean} dark @returns {[number, number, number][]} */
function cells (dark) {
  const all = []
  for (let hue = 0; hue < HUES; hue++) {
    for (let shade = 0; shade < SHADES; shade++) {
      const degrees = (((hue * 5) % HUES) * 360) / HUES + 20 + (shade & 4 ? 16 : -6)
      const tone = 0.04 * (shade & 3)
      all.push(dark ? rgb(0.38 + tone, 0.075, degrees) : rgb(0.92 - tone, 0.075, degrees))
    }
  }
  return all
}

const LIGHT = {
  background: '#ffffff',
  row: '#f6f7f9',
  text: '#1c2430',
  onCell: '#17202c',
  muted: '#5a6676',
  line: '#d9dee5',
  accent: '#2456c4',
  soft: 'rgb(36 86 196 / 0.13)',
  loss: 'rgb(190 60 40 / 0.30)',
  bad: '#b3261e',
  window: 'rgb(20 130 110 / 0.09)',
  mark: '#8a5a00',
  hit: '#c2185b'
}
const DARK = {
  background: '#14181f',
  row: '#181d25',
  text: '#dfe5ee',
  onCell: '#eef2f8',
  muted: '#98a4b5',
  line: '#2b323d',
  accent: '#8ab4ff',
  soft: 'rgb(138 180 255 / 0.16)',
  loss: 'rgb(255 120 90 / 0.34)',
  bad: '#ff8a80',
  window: 'rgb(80 200 170 / 0.09)',
  mark: '#ffc766',
  hit: '#ff80ab'
}

/** @param {boolean} dark @returns {Palette} */
export function palette (dark) {
  const names = dark ? DARK : LIGHT
  const blank = /** @type {[number, number, number]} */ (
    [1, 3, 5].map(at => parseInt(names.background.slice(at, at + 2), 16))
  )
  const base = cells(dark)
  const pixels = new Uint32Array(COLOURS * LEVELS)
  base.forEach((colour, number) => {
    for (let level = 0; level < LEVELS; level++) {
      pixels[number * LEVELS + level] = word(mix(blank, colour, 0.3 + (0.7 * level) / (LEVELS - 1)))
    }
  })
  return { dark, ...names, pixels, blank: word(blank), css: base.map(css) }
}
