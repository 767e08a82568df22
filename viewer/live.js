// SPDX-License-Identifier: Apache-2.0
// A recording that is going on: its status, and what contrail ctl does as buttons.
import { cancelled } from './api.js'
import { button, el, fill } from './dom.js'
import { count, duration, plural, short } from './format.js'

const EVERY = 500 // milliseconds between two looks at the trace, at least
const STATUS_EVERY = 2000

/**
 * @typedef {{end: number, events: number, lost: number, rate: number, threads: number, live?: boolean}} Told
 * @typedef {{state?: string, paused?: boolean, latency_p99_ns?: number, lane_fill?: number,
 *   detail?: {mode: string, state: string, marks: number, windows: number},
 *   policy?: {recording: boolean, triggers: unknown[], excluded: unknown[]}}} Status what contrail ctl status says
 */

/** One word for what goes on. @param {Status} status */
export function stateOf (status) {
  if (status.paused) return 'paused'
  if (status.policy && !status.policy.recording) return 'not recording'
  return status.state === 'running' || !status.state ? 'recording' : status.state
}

/** What else is worth knowing, in a line. @param {Status} status */
export function remarks (status) {
  const { detail, policy } = status
  return [
    detail && detail.mode !== 'off' ? `detail ${detail.state}, ${plural(detail.marks, 'mark')}` : '',
    policy?.triggers.length ? `triggers: ${policy.triggers.map(wording).join(', ')}` : '',
    policy?.excluded.length ? `excluded: ${policy.excluded.map(wording).join(', ')}` : ''
  ]
    .filter(Boolean)
    .join('; ')
}

/** @param {unknown} value */
const wording = value => (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 80)

export class Live {
  /** @param {import('./types.js').Context} context @param {() => Promise<void>} refresh looks what has grown
   * @param {() => void} again makes the view anew */
  constructor (context, refresh, again) {
    this.context = context
    this.refresh = refresh
    this.state = el('span', { class: 'status' })
    this.facts = el('span', { class: 'muted numbers' })
    this.remarks = el('span', { class: 'muted' })
    this.line = el('span', { role: 'status' })
    this.follow = button('Follow', () => this.turn(), { title: 'Keep the end in sight' })
    this.again = button('Refresh', again, { title: 'Count again (r)' })
    this.pause = button('Pause', () => this.send(this.paused ? 'resume' : 'pause'), { title: 'Stop all processes' })
    this.record = button('Stop recording', () => this.send(this.recording ? 'record off' : 'record on'))
    this.operand = el('input', { type: 'text', 'aria-label': 'Function or trigger', maxlength: 200 })
    this.operand.placeholder = 'function or trigger'
    this.controls = this.buttons()
    this.place = el('div', { class: 'live', hidden: true, role: 'region', 'aria-label': 'Recording' })
    // What changes all the time comes last, so that no button moves away from the pointer.
    this.place.append(this.state, this.follow, this.again, this.controls, this.facts, this.remarks, this.line)
    this.paused = false
    this.recording = true
    /** @type {EventSource | null} */
    this.source = null
    this.timer = this.poll = /** @type {any} */ (0)
    this.end = 0
    this.looked = -EVERY // when the trace was last looked at
  }

  buttons () {
    const withOperand = (/** @type {string} */ command) => () => {
      const text = this.operand.value.trim()
      if (text) this.send(`${command} ${text}`)
      else this.operand.focus()
    }
    return el(
      'span',
      { class: 'controls' },
      button('Mark', () => this.send('mark'), { title: 'Write the detail around this moment' }),
      this.record,
      this.pause,
      this.operand,
      button('Exclude', withOperand('exclude add'), { title: 'No longer record functions like this' }),
      button('Include', withOperand('exclude remove'), { title: 'Record them again' }),
      button('Add trigger', withOperand('trigger add'), { title: 'Mark moments from now on' }),
      button('Remove trigger', withOperand('trigger remove'))
    )
  }

  turn () {
    const { store } = this.context
    store.set({ follow: store.state.follow ? 0 : 1 })
    if (store.state.follow) this.refresh()
  }

  /** @param {import('./store.js').State} state */
  show (state) {
    this.follow.setAttribute('aria-pressed', String(Boolean(state.follow)))
    this.follow.hidden = this.place.dataset.state === 'ended' || state.view !== 'timeline'
    this.again.hidden = state.view === 'timeline' || state.view === 'sql'
  }

  /** Follows the trace, when it is still written. */
  open () {
    this.close()
    const { info, store } = this.context
    const { live, control, end, events, lost, threads } = info()
    this.place.hidden = !live
    if (!live) return
    this.state.textContent = 'recording'
    this.place.dataset.state = 'recording'
    this.controls.hidden = control === false
    this.paint({ end, events, lost, rate: 0, threads: threads.length })
    this.source = new EventSource(`/api/live?trace=${store.state.trace}`)
    this.source.addEventListener('status', event => this.told(/** @type {MessageEvent} */ (event).data))
    this.source.addEventListener('ended', () => this.ended())
    this.source.addEventListener('error', () => {
      if (this.source) this.state.textContent = 'connection lost'
    })
    if (control !== false) this.askStatus()
  }

  close () {
    this.source?.close()
    this.source = null
    clearTimeout(this.timer)
    clearTimeout(this.poll)
    this.timer = 0
  }

  /** @param {string} text */
  told (text) {
    try {
      const told = /** @type {Told} */ (JSON.parse(text))
      this.paint(told)
      if (told.end !== this.end) this.soon()
      this.end = told.end
    } catch {
      // A message that is cut; the next one comes within a second.
    }
  }

  /** Looks at what has grown, not more often than it can be shown. */
  soon () {
    if (this.timer) return
    const wait = EVERY - (performance.now() - this.looked)
    this.timer = setTimeout(
      async () => {
        this.looked = performance.now()
        await this.refresh()
        this.timer = 0
      },
      Math.max(0, wait)
    )
  }

  /** @param {Told} told */
  paint (told) {
    this.facts.textContent =
      `${duration(told.end)}, ${count(told.events)} events, ${short(told.rate ?? 0)}/s, ` +
      `${plural(told.threads, 'thread')}, ${told.lost > 0 ? `${count(told.lost)} lost` : 'nothing lost'}`
  }

  async askStatus () {
    clearTimeout(this.poll)
    try {
      const { api, store } = this.context
      const answer = await api.post('status', 'ctl', { trace: store.state.trace, command: 'status' })
      if (answer.ok) this.paintStatus(JSON.parse(answer.answer))
    } catch {
      // The recording may end at any time; the stream of events says so.
    }
    if (this.source) this.poll = setTimeout(() => this.askStatus(), STATUS_EVERY)
  }

  /** @param {Status} status */
  paintStatus (status) {
    this.paused = Boolean(status.paused)
    this.recording = status.policy?.recording !== false
    this.state.textContent = stateOf(status)
    this.place.dataset.state = stateOf(status)
    this.pause.textContent = this.paused ? 'Resume' : 'Pause'
    this.record.textContent = this.recording ? 'Stop recording' : 'Record'
    this.remarks.textContent = remarks(status)
  }

  async ended () {
    this.close()
    await this.refresh()
    this.state.textContent = 'ended'
    this.place.dataset.state = 'ended'
    this.controls.hidden = this.follow.hidden = true
    this.context.say('The recording has ended.')
  }

  /** @param {string} command */
  async send (command) {
    try {
      const { api, store } = this.context
      const answer = await api.post('ctl', 'ctl', { trace: store.state.trace, command })
      fill(this.line, `${command}: ${answer.answer || (answer.ok ? 'done' : 'refused')}`)
      this.line.classList.toggle('bad', !answer.ok)
      await this.askStatus()
      this.soon()
    } catch (error) {
      if (!cancelled(error)) fill(this.line, String(/** @type {Error} */ (error).message))
    }
  }
}
