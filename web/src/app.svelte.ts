// State of the page: the run, the moment shown, the selection, and the connection to the server.

import { untrack } from 'svelte';
import { changesFile } from './labfile.ts';
import {
  parse,
  type Answer,
  type ClockChange,
  type ClockState,
  type Hello,
  type Message,
} from './protocol.ts';
import { Run } from './run.ts';

export type Selection = { kind: 'link' | 'node' | 'flow'; index: number } | null;
export type Theme = 'auto' | 'light' | 'dark';
type Connection = 'connecting' | 'open' | 'lost' | 'closed';

const MIN_RETRY_S = 0.5;
const MAX_RETRY_S = 10;
/** Tables change at most this often while live: numbers stay readable. */
const TABLE_INTERVAL_MS = 500;
/** Interval of pictures of a display with 60 Hz. */
const PICTURE_MS = 17;
const MAX_PAUSE_MS = 1000;
const MAX_REPLIES = 30;

export interface Reply {
  id: number;
  what: string;
  answer: Answer | null;
  /** The connection was lost before the answer. */
  lost: boolean;
}

/** A terminal on a host. */
export interface TerminalTab {
  id: number;
  host: string;
  label: string;
  /** Why the connection ended; empty while it is open. */
  ended: string;
}

class App {
  run = $state.raw<Run | null>(null);
  /** Changes with new frames, at most once per drawn picture. */
  version = $state(0);
  /** As `version`, but for tables and text. */
  slow = $state(0);
  /** Of a run on the virtual clock that has not ended. */
  clock = $state.raw<ClockState | null>(null);
  /** The moment shown; null follows the newest. */
  time = $state<number | null>(null);
  playing = $state(false);
  speed = $state(1);
  selection = $state.raw<Selection>(null);
  /** Whether the tables show only rows related to the selection. */
  filtering = $state(true);
  /** Length of the plots in s, Infinity for all. */
  window = $state(60);
  /** A part of the plots that was selected with the pointer. */
  zoomed = $state.raw<[number, number] | null>(null);
  connection = $state<Connection>('connecting');
  problem = $state('');
  retryAt = $state(0);
  replies = $state.raw<Reply[]>([]);
  /** The changes of this session as `[[at]]` events. */
  applied = $state.raw<string[]>([]);
  terminals = $state.raw<TerminalTab[]>([]);
  /** Identifier of the terminal that is shown. */
  terminal = $state(0);
  theme = $state<Theme>(storedTheme());

  #socket: WebSocket | null = null;
  #retry = MIN_RETRY_S;
  #timer = 0;
  #id = 0;
  #scheduled = false;
  #tablesTimer = 0;
  #nextDraw = 0;

  /** Index of the frame shown; -1 before the first. */
  get frame(): number {
    void this.version;
    const { run, time } = this;
    if (!run) return -1;
    return time === null ? run.frames.length - 1 : run.frames.at(time);
  }

  /** As `frame`, for tables and text: changes with `slow` only. */
  get slowFrame(): number {
    void this.slow;
    return untrack(() => this.frame);
  }

  get moment(): number {
    void this.version;
    return this.time ?? this.run?.last ?? 0;
  }

  get writable(): boolean {
    const hello = this.run?.hello;
    return !!hello && !hello.read_only && hello.source === 'live';
  }

  connect(): void {
    clearTimeout(this.#timer);
    this.connection = this.run ? 'lost' : 'connecting';
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    const socket = new WebSocket(`${scheme}://${location.host}/ws`);
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      try {
        const message = parse(String(data));
        if (message) this.#receive(message);
      } catch (error) {
        this.problem = `A message of the server was not understood: ${String(error)}`;
        console.warn(this.problem);
      }
    };
    socket.onclose = ({ code, reason }) => {
      if (socket === this.#socket) this.#closed(code, reason);
    };
  }

  #closed(code: number, reason: string): void {
    this.replies = this.replies.map((r) => (r.answer ? r : { ...r, lost: true }));
    this.problem = reason || (code === 1006 || code === 1000 ? '' : `code ${code}`);
    if (this.run?.end) {
      this.connection = 'closed';
      return;
    }
    this.connection = 'lost';
    this.retryAt = Date.now() + this.#retry * 1000;
    this.#timer = window.setTimeout(() => this.connect(), this.#retry * 1000);
    this.#retry = Math.min(MAX_RETRY_S, this.#retry * 2);
  }

  #receive(message: Message): void {
    switch (message.type) {
      case 'hello':
        this.#greet(message);
        break;
      case 'frame':
        this.run?.add(message);
        break;
      case 'end':
        if (this.run) this.run.end = message;
        if (this.time === null && this.run?.hello.source === 'finished') this.window = Infinity;
        break;
      case 'answer':
        this.#answer(message);
        break;
      case 'clock':
        this.clock = message;
        break;
    }
    this.#draw();
  }

  #greet(hello: Hello): void {
    this.connection = 'open';
    this.problem = '';
    this.#retry = MIN_RETRY_S;
    if (this.run?.isSame(hello)) {
      this.run.resume(hello);
      return;
    }
    this.run = new Run(hello);
    this.slow += 1;
    this.selection = null;
    this.time = null;
    this.playing = false;
    this.zoomed = null;
    this.window = hello.source === 'finished' ? Infinity : 60;
    this.replies = [];
    this.applied = [];
    this.terminals = [];
    this.clock = null;
    document.title = `${hello.lab} – Netarium`;
  }

  /** Draws new data at the next picture, but for at most half of the time. */
  #draw(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setTimeout(
      () => requestAnimationFrame((begin) => this.#refresh(begin)),
      this.#nextDraw - performance.now(),
    );
  }

  #refresh(begin: number): void {
    this.#scheduled = false;
    this.version += 1;
    requestAnimationFrame((end) => {
      this.#nextDraw = end + Math.min(MAX_PAUSE_MS, end - begin - PICTURE_MS);
    });
    this.#tablesTimer ||= window.setTimeout(() => {
      this.#tablesTimer = 0;
      this.slow += 1;
    }, TABLE_INTERVAL_MS);
  }

  /** Shows a moment; one at or after the newest of a live run follows it. */
  seek(time: number): void {
    const { run } = this;
    if (!run) return;
    const live = run.hello.source === 'live' && !run.end;
    this.time = live && time >= run.last ? null : Math.max(run.first, Math.min(run.last, time));
    this.slow += 1;
  }

  follow(): void {
    this.time = null;
    this.playing = false;
    this.slow += 1;
  }

  play(): void {
    const { run } = this;
    if (!run) return;
    this.playing = !this.playing;
    if (!this.playing) return;
    if (this.time === null || this.time >= run.last) this.time = run.first;
    let before = performance.now();
    const step = (now: number) => {
      if (!this.playing || this.time === null || this.run !== run) return;
      const to = this.time + ((now - before) / 1000) * this.speed;
      before = now;
      if (to >= run.last) this.playing = false;
      this.time = Math.min(to, run.last);
      if (to >= run.last && !run.end) this.time = null;
      this.#draw();
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  select(selection: Selection): void {
    this.selection = selection;
    this.filtering = true;
    this.slow += 1;
  }

  set(what: string, fields: [string, string][]): void {
    this.#send({ type: 'set', fields }, what);
  }

  mark(text: string): void {
    this.#send({ type: 'mark', text }, `mark “${text}”`);
  }

  /** Changes the pace of the run; the new state is its answer. */
  changeClock(change: ClockChange): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify({ type: 'clock', ...change, id: (this.#id += 1) }));
  }

  #send(message: object, what: string): void {
    const id = (this.#id += 1);
    const open = this.#socket?.readyState === WebSocket.OPEN;
    this.replies = [{ id, what, answer: null, lost: !open }, ...this.replies].slice(0, MAX_REPLIES);
    if (open) this.#socket?.send(JSON.stringify({ ...message, id }));
  }

  #answer(answer: Answer): void {
    this.replies = this.replies.map((r) => (r.id === answer.id ? { ...r, answer } : r));
    if (!answer.ok && !this.replies.some(({ id }) => id === answer.id)) {
      this.replies = [{ id: answer.id, what: 'the clock', answer, lost: false }, ...this.replies];
    }
    if (answer.ok && answer.at_events) this.applied = [...this.applied, answer.at_events];
  }

  /** Whether a terminal can be opened on a node. */
  canOpenTerminal(node: number): boolean {
    const { hello, end } = this.run!;
    return hello.commands.includes('terminal') && !end && hello.nodes[node].role === 'host';
  }

  openTerminal(node: number): void {
    if (!this.canOpenTerminal(node)) return;
    const host = this.run!.hello.nodes[node].name;
    const labels = this.terminals.map(({ label }) => label);
    let [label, number] = [host, 1];
    while (labels.includes(label)) label = `${host} (${(number += 1)})`;
    this.terminal = this.#id += 1;
    this.terminals = [...this.terminals, { id: this.terminal, host, label, ended: '' }];
  }

  endTerminal(id: number, ended: string): void {
    this.terminals = this.terminals.map((each) => (each.id === id ? { ...each, ended } : each));
  }

  /** Closes a terminal and shows the one beside it. */
  closeTerminal(id: number): void {
    const place = this.terminals.findIndex((each) => each.id === id);
    this.terminals = this.terminals.filter((each) => each.id !== id);
    this.terminal = this.terminals[Math.max(0, place - 1)]?.id ?? 0;
  }

  /** Downloads the changes of this session as text for a lab file. */
  save(): void {
    const lab = this.run?.hello.lab ?? 'lab';
    const text = changesFile(lab, this.applied);
    const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
    const link = document.createElement('a');
    link.href = url;
    link.download = `${lab.replace(/[^\w.-]+/g, '-')}-changes.toml`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    try {
      localStorage.setItem('theme', theme);
    } catch {
      // Storage is off: the choice holds until the page closes.
    }
  }
}

function storedTheme(): Theme {
  try {
    const stored = localStorage.getItem('theme');
    return stored === 'light' || stored === 'dark' ? stored : 'auto';
  } catch {
    return 'auto';
  }
}

export const app = new App();
