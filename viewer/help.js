// SPDX-License-Identifier: Apache-2.0
// What keys and hands do.
import { button, el } from './dom.js'

const KEYS = /** @type {[string, string][]} */ ([
  ['w s', 'zoom in and out, at the pointer'],
  ['a d', 'move to the left and right'],
  ['f', 'show the selected call or range; else everything'],
  ['m', 'select the range of the selected call, or of what is in sight; again: none'],
  ['/', 'search functions'],
  ['n  N', 'next and previous call of the function that was searched for'],
  ['arrows', 'from call to call, when the timeline has the focus'],
  ['1 … 8', 'timeline, flame graph, functions, latency, compare, crash, blocks, SQL'],
  ['t', 'light or dark'],
  ['r', 'count again, while a recording goes on'],
  ['Esc', 'close, or select nothing'],
  ['?', 'this help']
])
const HANDS = /** @type {[string, string][]} */ ([
  ['drag', 'move'],
  ['Shift drag, drag on the ruler', 'select a range of time'],
  ['Ctrl wheel, pinch', 'zoom at the pointer; the wheel alone when all rows are in sight'],
  ['Shift wheel', 'move to the left and right'],
  ['click, double click', 'select a call; show it as wide as the window'],
  ['drag on the map', 'show this part of the trace']
])

export class Help {
  constructor () {
    const rows = (/** @type {[string, string][]} */ list) =>
      el(
        'dl',
        { class: 'keys' },
        ...list.flatMap(([keys, text]) => [
          el('dt', {}, ...keys.split(', ').map(key => el('kbd', {}, key))),
          el('dd', {}, text)
        ])
      )
    this.root = el(
      'dialog',
      { class: 'help', 'aria-labelledby': 'help' },
      el(
        'div',
        { class: 'title' },
        el('h2', { id: 'help' }, 'Keys and hands'),
        button('×', () => this.root.close(), { 'aria-label': 'Close', class: 'quiet' })
      ),
      rows(KEYS),
      rows(HANDS),
      el('p', { class: 'muted' }, 'The address of the page holds what you see: send it to show it.')
    )
  }

  toggle () {
    if (this.root.open) this.root.close()
    else this.root.showModal()
  }
}
