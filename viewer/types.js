// SPDX-License-Identifier: Apache-2.0
// The words that the modules share: answers of the server (docs/VIEW.md), and the four functions of a view.
// Times are whole nanoseconds since the beginning of the trace. -1 is "none" for ids and times.

/**
 * @typedef {{thread: number, process: number, tid: number, name: string, start: number, end: number, calls: number,
 *   events: number, depth: number, lost: number}} Thread
 * @typedef {{process: number, pid: number, command: string, start: number, end: number, exit?: string}} Process
 * @typedef {{time: number, thread: number, label: string, reason?: string}} Mark
 * @typedef {{time: number, thread: number, signal: string, text?: string, crash?: boolean}} Signal
 * @typedef {{thread: number, start: number, end: number, events: number, reason: string}} Loss
 * @typedef {{start: number, end: number, reason?: string}} Window
 * @typedef {{trace: number, path: string, name: string, program?: string, live: boolean}} TraceName
 * @typedef {{start: number, end: number, wall?: string, command: string, host?: string, arch?: string, events: number,
 *   calls: number, lost: number, live: boolean, generation?: number, processes: Process[], threads: Thread[],
 *   marks: Mark[], windows: Window[], signals: Signal[], losses: Loss[], damage: string[], blocks: boolean,
 *   query: boolean, cut?: boolean, counted?: boolean, control?: boolean}} Info
 * @typedef {{progress: number, width: number, from: number, to: number, calls: number[], lost: number[]}} MapAnswer
 * @typedef {[name: string, short: string, module: string]} Name
 * @typedef {{progress: number, from: number, to: number, threads: {thread: number, depths: number[][]}[],
 *   functions: Record<string, Name>}} CellsAnswer
 * @typedef {{id: number, name: string, start: number, duration?: number, depth?: number}} Caller
 * @typedef {{id: number, thread: number, function: number, name: string, module: string, file?: string, line?: number,
 *   start: number, duration: number, self: number, depth: number, parent?: number, ended?: string, open?: boolean,
 *   arguments?: {name: string, value: string}[], result?: string, error?: string, stack?: string[],
 *   callers?: Caller[], same?: {calls: number, median: number, p99: number, longest: number},
 *   detail?: boolean}} Call
 * @typedef {{function: number, name: string, module: string, calls: number}} Found
 */

/**
 * What a view may use.
 * @typedef {object} Context
 * @property {import('./store.js').Store} store
 * @property {import('./api.js').Api} api
 * @property {() => Info} info what is known of the trace; grows while it is written
 * @property {() => TraceName[]} traces
 * @property {() => import('./colours.js').Palette} palette colours of light or dark
 * @property {Map<number, Name>} names of functions that answers have told
 * @property {(id: number) => Promise<Call>} call what is known of a call
 * @property {(text: string) => void} say tells those who do not see the picture
 */

/**
 * The four functions of a view. `show` is called for every change of the state, and must be cheap when nothing changes
 * for this view; `resize` when its place has another size, or colours change.
 * @typedef {object} View
 * @property {(place: HTMLElement) => void} mount
 * @property {(state: import('./store.js').State) => void} show
 * @property {() => void} resize
 * @property {() => void} unmount
 * @property {(event: KeyboardEvent) => boolean} [key] true: the view has used the key
 */

export {}
