// SPDX-License-Identifier: Apache-2.0
// Elements are made here and nowhere else. Text goes in as text: no name of a traced program is ever read as markup.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | undefined | ((event: any) => void)>} Attributes */

/** Longer texts are cut for the screen; the whole text is what the server has. */
const LONGEST = 2000

/** @param {string} text */
export const bounded = text => (text.length > LONGEST ? text.slice(0, LONGEST) + '…' : text)

/** @param {Element} element @param {Attributes} attributes */
function decorate (element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue
    if (typeof value === 'function') element.addEventListener(name, value)
    else element.setAttribute(name, value === true ? '' : bounded(String(value)))
  }
}

/** @param {Element} element @param {Child[]} children */
function adopt (element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue
    element.append(child instanceof Node ? child : bounded(String(child)))
  }
}

/**
 * An element: attributes by name, listeners where the value is a function.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {Attributes} [attributes] @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el (tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  decorate(element, attributes)
  adopt(element, children)
  return element
}

/** @param {string} tag @param {Attributes} [attributes] @param {...Child} children */
export function svg (tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  decorate(element, attributes)
  adopt(element, children)
  return element
}

/** @param {Element} place @param {...Child} children */
export function fill (place, ...children) {
  place.replaceChildren()
  adopt(place, children)
}

/** A button that is no submit button. @param {string} text @param {() => void} action @param {Attributes} [more] */
export const button = (text, action, more = {}) => el('button', { type: 'button', click: action, ...more }, text)

/** A canvas as sharp as the screen. Returns its context, whose unit is the CSS pixel, and its size.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
export function sized (canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, 2)
  const w = Math.max(1, Math.round(width * scale))
  const h = Math.max(1, Math.round(height * scale))
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w
    canvas.height = h
    canvas.style.width = `${width}px`
    canvas.style.height = `${height}px`
  }
  // Pixels are made here and put there: a canvas of the graphics processor would wait for that at its first picture.
  const how = { alpha: false, willReadFrequently: true }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', how))
  context.setTransform(scale, 0, 0, scale, 0, 0)
  return { context, scale, w, h }
}

/** A list of names and values. @param {[string, Child][]} rows @param {Attributes} [more] */
export function facts (rows, more = {}) {
  const list = el('dl', { class: 'facts', ...more })
  for (const [name, value] of rows) {
    if (value !== undefined && value !== null && value !== '') list.append(el('dt', {}, name), el('dd', {}, value))
  }
  return list
}
