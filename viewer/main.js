// SPDX-License-Identifier: Apache-2.0
// The page: opens the trace, puts views in their places, and hands keys to them.
import { Api, cancelled } from './api.js'
import { palette } from './colours.js'
import { Details } from './details.js'
import { button, el, fill } from './dom.js'
import { base, isCrash, plural, spoken, traceLabel } from './format.js'
import { Help } from './help.js'
import { Live } from './live.js'
import { Search } from './search.js'
import { Store, VIEWS } from './store.js'
import { Timeline } from './timeline.js'
import { Flame } from './flame.js'
import { Functions } from './functions.js'
import { Latency } from './latency.js'
import { Compare } from './compare.js'
import { Crash } from './crash.js'
import { Blocks } from './blocks.js'
import { Sql } from './sql.js'

const TITLES = /** @type {Record<string, string>} */ ({
  timeline: 'Timeline',
  flame: 'Flame graph',
  functions: 'Functions',
  latency: 'Latency',
  compare: 'Compare',
  crash: 'Crash',
  blocks: 'Blocks',
  sql: 'SQL'
})
const MAKERS = /** @type {Record<string, new (context: Context) => import('./types.js').View>} */ ({
  timeline: Timeline,
  flame: Flame,
  functions: Functions,
  latency: Latency,
  compare: Compare,
  crash: Crash,
  blocks: Blocks,
  sql: Sql
})
const THEME = 'contrail-theme'
const CALLS = 300 // calls that are kept
const COUNT_AGAIN = 2000 // milliseconds

/** What of a trace the header shows, as far as it changes. @param {import('./types.js').Info} info */
const heading = ({ lost, damage, signals }) => `${lost}/${damage.length}/${signals.some(isCrash)}`

/** @typedef {import('./types.js').Context} Context */

class Page {
  constructor () {
    this.api = new Api()
    this.store = new Store({
      hash: location.hash,
      replace: hash => history.replaceState(null, '', hash ? `#${hash}` : '#'),
      push: hash => history.pushState(null, '', hash ? `#${hash}` : '#')
    })
    /** @type {import('./types.js').Info} */
    this.info = {
      start: 0,
      end: 0,
      command: '',
      events: 0,
      calls: 0,
      lost: 0,
      live: false,
      processes: [],
      threads: [],
      marks: [],
      windows: [],
      signals: [],
      losses: [],
      damage: [],
      blocks: false,
      query: false
    }
    /** @type {import('./types.js').TraceName[]} */
    this.traces = []
    /** @type {Map<number, Promise<import('./types.js').Call>>} */
    this.calls = new Map()
    this.dark = matchMedia('(prefers-color-scheme: dark)')
    /** @type {Context} */
    this.context = {
      store: this.store,
      api: this.api,
      info: () => this.info,
      traces: () => this.traces,
      palette: () => this.colours,
      names: new Map(),
      call: id => this.call(id),
      say: text => this.say(text)
    }
    this.colours = palette(false)
    this.view = /** @type {import('./types.js').View | null} */ (null)
    this.shown = ''
    this.counting = /** @type {any} */ (0)
    this.help = new Help()
    this.spoken = el('div', { class: 'spoken', role: 'status', 'aria-live': 'polite' })
    this.title = el('div', { class: 'trace' })
    this.tabs = el('nav', { 'aria-label': 'Views' })
    this.place = el('main', { id: 'view', tabindex: -1 })
    this.body = el('div', { class: 'body' }, this.place)
    this.search = new Search(this.context)
    this.details = new Details(this.context)
    this.live = new Live(
      this.context,
      () => this.refresh(),
      () => this.again()
    )
    this.theme = button('', () => this.switchTheme(), { class: 'quiet theme', title: 'Light or dark (t)' })
    this.arrange()
  }

  /** The places on the page. */
  arrange () {
    const header = el('header', {}, el('h1', {}, 'contrail'), this.title, this.tabs)
    const tools = el('div', { class: 'tools' })
    this.search.mount(tools)
    tools.append(
      this.theme,
      button('?', () => this.help.toggle(), { class: 'quiet', 'aria-label': 'Help', title: 'Help (?)' })
    )
    header.append(tools)
    document.body.append(
      el(
        'a',
        {
          class: 'skip',
          href: '#view',
          click: (/** @type {Event} */ event) => {
            event.preventDefault()
            this.place.focus()
          }
        },
        'To the view'
      ),
      header,
      this.live.place,
      this.body,
      this.spoken,
      this.help.root
    )
    this.details.mount(this.body)
  }

  async start () {
    this.setTheme(localStorage.getItem(THEME) ?? '')
    this.dark.addEventListener('change', () => this.setTheme(localStorage.getItem(THEME) ?? ''))
    window.addEventListener('hashchange', () => this.store.read(location.hash))
    window.addEventListener('popstate', () => this.store.read(location.hash))
    window.addEventListener('keydown', event => this.key(event))
    try {
      await this.open(this.api.get('', 'traces'))
    } catch (error) {
      this.failed(error)
      return
    }
    this.store.watch((state, before) => {
      if (state.trace !== before.trace) this.open().catch(error => this.failed(error))
      else this.show()
    })
    this.say(spoken(this.info))
  }

  /** Opens the trace that the state names. @param {Promise<{traces: import('./types.js').TraceName[]}> | null} [names]
   * of all traces, when they are not known yet */
  async open (names = null) {
    const { trace } = this.store.state
    const [info, named] = await Promise.all([this.api.get('info', 'info', { trace }), names])
    this.info = info
    if (named) this.traces = named.traces
    this.calls.clear()
    this.context.names.clear()
    this.shown = ''
    await this.resolve()
    this.paintTitle()
    this.live.open()
    this.show()
    this.countLater()
  }

  /** Finds the function of the address by its name: numbers of functions are those of one server. */
  async resolve () {
    const { fn, name, trace } = this.store.state
    if (fn < 0 || !name) return
    const { functions } = await this.api.get('', 'search', { trace, text: name, limit: 200 })
    const found = functions.find((/** @type {import('./types.js').Found} */ one) => one.name === name)
    if (found) this.context.names.set(found.function, [found.name, found.name, found.module])
    this.store.set({ fn: found ? found.function : -1 })
  }

  /** The address gets the name of the function. */
  nameFunction () {
    const { fn, name } = this.store.state
    const known = fn < 0 ? '' : this.context.names.get(fn)?.[0]
    if (known !== undefined && known.length <= 1000 && known !== name) this.store.set({ name: known })
  }

  /** The view is made anew: tables and flames do not change by themselves while a recording goes on. */
  again () {
    this.shown = ''
    this.refresh()
  }

  /** The trace has grown. */
  async refresh () {
    try {
      const before = heading(this.info)
      this.info = await this.api.get('info', 'info', { trace: this.store.state.trace })
      this.calls.clear()
      if (this.info.live && this.store.state.follow) this.followEnd()
      if (heading(this.info) !== before) {
        this.paintTitle()
        this.paintTabs()
      }
      this.show()
      this.countLater()
    } catch (error) {
      if (!cancelled(error)) this.say(String(/** @type {Error} */ (error).message))
    }
  }

  /** Large threads are counted while the page is in use already: asks again until they are. */
  countLater () {
    clearTimeout(this.counting)
    if (this.info.counted === false && !this.info.live) this.counting = setTimeout(() => this.refresh(), COUNT_AGAIN)
  }

  followEnd () {
    const { from, to } = this.store.state
    if (from < 0) return
    const end = Math.max(this.info.end, to - from)
    this.store.set({ from: end - (to - from), to: end })
  }

  paintTitle () {
    const name = traceLabel(
      this.traces.find(one => one.trace === this.store.state.trace),
      this.traces
    )
    document.title = `${name || base(this.info.command)} – Contrail`
    const choose = el(
      'select',
      {
        'aria-label': 'Trace',
        title: this.traces.find(one => one.trace === this.store.state.trace)?.path ?? '',
        change: () =>
          this.store.set(
            { trace: Number(choose.value), call: -1, fn: -1, a: -1, b: -1, from: -1, to: -1 },
            { step: true }
          )
      },
      ...this.traces.map(one =>
        el('option', { value: one.trace, selected: one.trace === this.store.state.trace }, traceLabel(one, this.traces))
      )
    )
    fill(
      this.title,
      this.traces.length > 1 ? choose : el('strong', { title: this.traces[0]?.path ?? '' }, name),
      this.info.lost > 0 &&
        el(
          'span',
          { class: 'badge bad', title: 'Events that are missing, each with its reason' },
          `${plural(this.info.lost, 'event')} lost`
        ),
      this.info.damage.length > 0 && el('span', { class: 'badge bad', title: this.info.damage.join('\n') }, 'damaged')
    )
  }

  show () {
    const { state } = this.store
    if (this.shown !== state.view) {
      this.view?.unmount()
      fill(this.place)
      this.view = new MAKERS[state.view](this.context)
      this.view.mount(this.place)
      this.shown = state.view
      this.paintTabs()
      this.view.resize()
    }
    this.nameFunction()
    this.view?.show(state)
    this.search.show(state)
    this.details.show(state)
    this.live.show(state)
  }

  paintTabs () {
    const { state } = this.store
    const crashed = this.info.signals.some(isCrash)
    fill(
      this.tabs,
      ...VIEWS.map((view, i) =>
        button(TITLES[view], () => this.store.set({ view }, { step: true }), {
          'aria-current': state.view === view ? 'page' : undefined,
          title: `${TITLES[view]} (${i + 1})`,
          class: view === 'crash' && crashed ? 'crashed' : ''
        })
      )
    )
  }

  /** What is known of a call, asked for once. @param {number} id */
  call (id) {
    const known = this.calls.get(id)
    if (known) return known
    const asked = this.api.get('', 'call', { trace: this.store.state.trace, id })
    this.calls.set(id, asked)
    asked.then(
      call => {
        if (call.open || !call.same) this.calls.delete(id)
      },
      () => this.calls.delete(id)
    )
    if (this.calls.size > CALLS) this.calls.delete(/** @type {number} */ (this.calls.keys().next().value))
    return asked
  }

  /** @param {string} text */
  say (text) {
    this.spoken.textContent = text
  }

  /** @param {unknown} error */
  failed (error) {
    if (cancelled(error)) return
    const { message, status } = /** @type {{message: string, status?: number}} */ (error)
    fill(
      this.place,
      el(
        'div',
        { class: 'failed', role: 'alert' },
        el('h2', {}, 'The trace cannot be shown'),
        el('p', {}, message),
        status === 401 || status === 403
          ? el('p', {}, 'Open the address that contrail view prints: it holds the token.')
          : null
      )
    )
  }

  // ---- light and dark ----

  /** @param {string} choice light, dark, or '' for what the system says */
  setTheme (choice) {
    const dark = choice ? choice === 'dark' : this.dark.matches
    document.documentElement.dataset.theme = dark ? 'dark' : 'light'
    this.theme.textContent = dark ? '☾' : '☀'
    this.theme.setAttribute('aria-label', dark ? 'Dark; switch to light' : 'Light; switch to dark')
    this.colours = palette(dark)
    this.view?.resize()
  }

  switchTheme () {
    const next = this.colours.dark ? 'light' : 'dark'
    localStorage.setItem(THEME, next)
    this.setTheme(next)
  }

  // ---- keys ----

  /** @param {KeyboardEvent} event */
  key (event) {
    const target = /** @type {HTMLElement} */ (event.target)
    if (target.closest('input, textarea, select, dialog[open]')) {
      if (event.key === 'Escape' && target.closest('textarea, input')) target.blur()
      return
    }
    if (this.view?.key?.(event) || this.common(event)) event.preventDefault()
  }

  /** @param {KeyboardEvent} event */
  common (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false
    const { key } = event
    if (key === '/') this.search.focus()
    else if (key === '?') this.help.toggle()
    else if (key === 'n' || key === 'N') this.search.step(key === 'n' ? 1 : -1)
    else if (key === 't') this.switchTheme()
    else if (key === 'r') this.again()
    else if (key === 'Escape') this.store.set({ call: -1, a: -1, b: -1 })
    else if (key >= '1' && key <= String(VIEWS.length))
      this.store.set({ view: VIEWS[Number(key) - 1] }, { step: true })
    else return false
    return true
  }
}

new Page().start()
