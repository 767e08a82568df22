// SPDX-License-Identifier: Apache-2.0
// The search: functions by name, their hits on the map, and steps from call to call.
import { cancelled } from './api.js'
import { button, el, fill } from './dom.js'
import { count, plural } from './format.js'
import { differs } from './store.js'
import { rangeOf } from './tracks.js'

const LIMIT = 50
const WAIT = 120 // milliseconds after the last letter

export class Search {
  /** @param {import('./types.js').Context} context */
  constructor (context) {
    this.context = context
    this.input = el('input', {
      type: 'search',
      id: 'search',
      placeholder: 'Functions  /',
      autocomplete: 'off',
      spellcheck: 'false',
      role: 'combobox',
      'aria-expanded': 'false',
      'aria-controls': 'found',
      'aria-autocomplete': 'list',
      'aria-label': 'Search functions'
    })
    this.list = el('ul', { id: 'found', role: 'listbox', 'aria-label': 'Functions', hidden: true })
    this.steps = el('div', { class: 'steps' })
    this.root = el('div', { class: 'search' }, this.input, this.list, this.steps)
    /** @type {import('./types.js').Found[]} */
    this.found = []
    this.at = -1
    this.asked = '' // the text whose functions are listed
    this.timer = /** @type {any} */ (0)
    /** @type {import('./store.js').State | null} */
    this.shown = null
    this.input.addEventListener('input', () => {
      clearTimeout(this.timer)
      this.timer = setTimeout(() => this.ask(), WAIT)
    })
    this.input.addEventListener('keydown', event => this.typed(event))
    this.input.addEventListener('blur', () => setTimeout(() => this.close(), 150))
    this.input.addEventListener('focus', () => {
      if (this.input.value) this.ask()
    })
  }

  /** @param {HTMLElement} place */
  mount (place) {
    place.append(this.root)
  }

  resize() {}

  unmount () {
    clearTimeout(this.timer)
    this.root.remove()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    const before = this.shown
    this.shown = state
    if (differs(state, before, 'fn', 'trace', 'name')) this.paintSteps(state.fn)
  }

  /** @param {number} fn */
  paintSteps (fn) {
    if (fn < 0) {
      fill(this.steps)
      return
    }
    const name = this.context.names.get(fn)
    fill(
      this.steps,
      button('‹', () => this.step(-1), { 'aria-label': 'Previous call (Shift N)' }),
      button('›', () => this.step(1), { 'aria-label': 'Next call (N)' }),
      el('span', { class: 'chosen', title: name?.[0] ?? '' }, name?.[1] ?? `function ${fn}`),
      button('×', () => this.choose(-1), { 'aria-label': 'End the search', class: 'quiet' })
    )
  }

  focus () {
    this.input.focus()
    this.input.select()
  }

  close () {
    this.list.hidden = true
    this.input.setAttribute('aria-expanded', 'false')
    this.input.removeAttribute('aria-activedescendant')
  }

  async ask () {
    const text = this.input.value.trim()
    if (!text) {
      this.close()
      return
    }
    try {
      const { store, api } = this.context
      const answer = await api.get('search', 'search', { trace: store.state.trace, text, limit: LIMIT })
      this.found = answer.functions
      this.asked = text
      this.at = this.found.length ? 0 : -1
      this.paint(answer.total ?? this.found.length)
    } catch (error) {
      if (!cancelled(error)) this.context.say(String(/** @type {Error} */ (error).message))
    }
  }

  /** @param {number} total */
  paint (total) {
    fill(
      this.list,
      ...this.found.map((one, i) => {
        this.context.names.set(one.function, this.context.names.get(one.function) ?? [one.name, one.name, one.module])
        const item = el(
          'li',
          { role: 'option', id: `found${i}`, 'aria-selected': String(i === this.at) },
          el('span', { class: 'name' }, one.name),
          el('span', { class: 'muted' }, one.module),
          el('span', { class: 'number' }, count(one.calls))
        )
        item.addEventListener('pointerdown', event => {
          event.preventDefault()
          this.choose(one.function)
        })
        return item
      }),
      !this.found.length &&
        el('li', { role: 'option', 'aria-disabled': 'true', 'aria-selected': 'false' }, 'No function has this name.')
    )
    this.list.hidden = false
    this.input.setAttribute('aria-expanded', 'true')
    this.mark()
    this.context.say(plural(total, 'function'))
  }

  mark () {
    ;[...this.list.children].forEach((item, i) => item.setAttribute('aria-selected', String(i === this.at)))
    if (this.at < 0) return
    this.input.setAttribute('aria-activedescendant', `found${this.at}`)
    this.list.children[this.at]?.scrollIntoView({ block: 'nearest' })
  }

  /** @param {KeyboardEvent} event */
  typed (event) {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      if (this.found.length)
        this.at = (this.at + (event.key === 'ArrowDown' ? 1 : -1) + this.found.length) % this.found.length
      this.mark()
    } else if (event.key === 'Enter') this.enter()
    else if (event.key === 'Escape') {
      if (this.list.hidden) this.input.blur()
      this.close()
    } else return
    event.preventDefault()
    event.stopPropagation()
  }

  /** Chooses from the list of what is written now, not of what was written before. */
  async enter () {
    clearTimeout(this.timer)
    if (this.asked !== this.input.value.trim() || this.list.hidden) await this.ask()
    if (!this.list.hidden && this.at >= 0) this.choose(this.found[this.at].function)
  }

  /** @param {number} fn */
  choose (fn) {
    this.close()
    this.input.blur()
    this.context.store.set({ fn }, { step: true })
    if (fn >= 0 && this.context.store.state.view === 'timeline') this.step(1)
  }

  /** Goes to the next call of the function, or the one before. @param {number} way */
  async step (way) {
    const { store, api, info, say } = this.context
    const { state } = store
    if (state.fn < 0) return
    const call = state.call >= 0 ? await this.context.call(state.call).catch(() => null) : null
    const here = call?.function === state.fn ? call : null
    const time = here ? here.start : rangeOf(state, info()).from - (way > 0 ? 1 : 0)
    try {
      const side = way > 0 ? { after: time } : { before: time }
      const words = { trace: state.trace, function: state.fn, call: here?.id, ...side }
      const hit = await api.get('hit', 'hits', words)
      const id = Number(hit.call?.id ?? hit.call ?? -1)
      if (id >= 0) store.set({ call: id })
      else say(way > 0 ? 'There is no later call.' : 'There is no earlier call.')
    } catch (error) {
      if (!cancelled(error)) say(String(/** @type {Error} */ (error).message))
    }
  }
}
