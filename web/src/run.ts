// Everything that the page knows of one run: what the server sent, in bounded memory.

import { Frames, MAX, MEAN, SUM } from './frames.ts';
import { History } from './history.ts';
import type { End, Frame, Hello, LinkConfig, Machine } from './protocol.ts';

/** Columns of one direction of a link, in the order of the protocol. */
export const RATE = 0;
export const QUEUE = 1;
export const DROPS = 2;
export const DELAY = 3;
const PER_DIRECTION = 4;
const PER_LINK = 2 * PER_DIRECTION;

export const GOODPUT = 0;
export const RTT = 1;
export const LOSSES = 2;
const PER_FLOW = 3;

const MAX_SAMPLE_BYTES = 96 * 2 ** 20;
const MAX_FRAMES = 4096;
const MIN_FRAMES = 256;
/** Events and lines of the log that are kept, each. */
const MAX_ENTRIES = 5000;

export interface ProgramState {
  state: string;
  code: number | null;
}

export interface Entry {
  at: number;
  /** `event`, or the level of a log line. */
  kind: string;
  source: string;
  text: string;
}

export class Run {
  readonly frames: Frames;
  readonly config: History<LinkConfig>;
  readonly programs: History<ProgramState>;
  /** State of each system; empty if it has none. */
  readonly states: History<string>;
  /** Links of each node. */
  readonly linksAt: number[][];
  /** Both directions of each link, as text. */
  readonly directions: [string, string][];
  readonly events: Entry[] = [];
  readonly log: Entry[] = [];
  /** Entries that were deleted because there were too many. */
  forgotten = 0;
  /** Frames that the server did not send because this page was slow. */
  dropped = 0;
  machine: Machine | null = null;
  end: End | null = null;
  #seen = new Set<string>();
  /** Configurations of a later `hello`, to be applied with the next frame. */
  #pending: LinkConfig[] | null = null;

  constructor(
    readonly hello: Hello,
    maxFrames = MAX_FRAMES,
  ) {
    const { links, flows, nodes } = hello;
    const systems = hello.systems ?? [];
    const series = systems.flatMap(({ plots }) => plots.flatMap((p) => p.series.map(() => p.unit)));
    const link = [MEAN, MAX, SUM, MAX];
    const merges = new Uint8Array(this.seriesColumn(series.length));
    for (let i = 0; i < links.length * PER_LINK; i += 1) merges[i] = link[i % PER_DIRECTION];
    flows.forEach((_, flow) => (merges[this.flowColumn(flow, LOSSES)] = SUM));
    series.forEach((unit, i) => (merges[this.seriesColumn(i)] = unit === 'B' ? MAX : MEAN));
    const fit = Math.floor(MAX_SAMPLE_BYTES / 4 / Math.max(1, merges.length));
    this.frames = new Frames(merges, Math.min(maxFrames, Math.max(MIN_FRAMES, fit)));
    this.config = new History(links.map(configOf));
    const waiting = { state: 'waiting', code: null };
    this.programs = new History(hello.programs.map(() => waiting));
    this.states = new History(systems.map(() => ''));
    this.linksAt = nodes.map(() => []);
    links.forEach((l, i) => new Set(l.ends).forEach((node) => this.linksAt[node]?.push(i)));
    this.directions = links.map(({ ends }) => {
      const [a, b] = ends.map((node) => nodes[node]?.name ?? '?');
      return [`${a} → ${b}`, `${b} → ${a}`];
    });
  }

  linkColumn(link: number, direction: number, what: number): number {
    return link * PER_LINK + direction * PER_DIRECTION + what;
  }

  flowColumn(flow: number, what: number): number {
    return this.hello.links.length * PER_LINK + flow * PER_FLOW + what;
  }

  /** The column of a series of systems. */
  seriesColumn(series: number): number {
    return this.flowColumn(this.hello.flows.length, 0) + series;
  }

  get first(): number {
    const { frames } = this;
    return frames.length ? Math.max(0, frames.time[0] - frames.span[0]) : 0;
  }

  get last(): number {
    return this.frames.length ? this.frames.time[this.frames.length - 1] : 0;
  }

  /** Whether a `hello` after a reconnection belongs to this run. */
  isSame(hello: Hello): boolean {
    const own = this.hello;
    const names = (list: { name: string }[]) => list.map((each) => each.name).join('\n');
    return (
      hello.lab === own.lab &&
      hello.run === own.run &&
      hello.seed === own.seed &&
      names(hello.links) === names(own.links) &&
      names(hello.nodes) === names(own.nodes) &&
      names(hello.flows) === names(own.flows) &&
      names(hello.programs) === names(own.programs) &&
      JSON.stringify(hello.systems) === JSON.stringify(own.systems)
    );
  }

  /** After a reconnection: takes changes of links that happened meanwhile. */
  resume(hello: Hello): void {
    this.#pending = hello.source === 'live' ? hello.links.map(configOf) : null;
  }

  /** Adds a frame; one that is already known, as after a reconnection, only adds its entries. */
  add(frame: Frame): void {
    const known = this.frames.length > 0 && frame.t <= this.last + 1e-9;
    for (const event of frame.events ?? []) {
      this.#enter(this.events, { ...event, kind: 'event', source: '' });
    }
    for (const { at, level, source, text } of frame.log ?? []) {
      this.#enter(this.log, { at, kind: level, source, text });
    }
    if (known) return;
    const { links, flows } = this.hello;
    const row = this.frames.add(frame.t, frame.span);
    for (let flow = 0; flow < flows.length; flow += 1) row[this.flowColumn(flow, RTT)] = NaN;
    row.fill(NaN, this.seriesColumn(0));
    for (const [series, value] of frame.series ?? []) {
      const column = this.seriesColumn(series);
      if (series >= 0 && column < row.length) row[column] = value;
    }
    for (const values of frame.links ?? []) {
      if (!(values[0] in links)) continue;
      const from = values[0] * PER_LINK;
      for (let i = 0; i < PER_LINK; i += 1) row[from + i] = values[i + 1] ?? 0;
    }
    for (const [flow, goodput, rtt, losses] of frame.flows ?? []) {
      if (flow in flows) row.set([goodput, rtt ?? NaN, losses], this.flowColumn(flow, 0));
    }
    this.#pending?.forEach((config, link) => {
      if (JSON.stringify(config) !== JSON.stringify(this.config.last()[link])) {
        this.config.add(frame.t - frame.span, link, config);
      }
    });
    this.#pending = null;
    for (const change of frame.changes ?? []) {
      this.config.add(frame.t, change.link, configOf(change));
    }
    for (const [program, state, code] of frame.programs ?? []) {
      this.programs.add(frame.t, program, { state, code });
    }
    for (const [system, state] of frame.states ?? []) this.states.add(frame.t, system, state);
    this.machine = frame.machine ?? this.machine;
    this.dropped += frame.dropped ?? 0;
  }

  /** Keeps the order of time, without duplicates. */
  #enter(list: Entry[], entry: Entry): void {
    const key = `${entry.at} ${entry.kind} ${entry.source} ${entry.text}`;
    // After a reconnection the server repeats recent entries; identical lines of one time are one.
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    let place = list.length;
    while (place > 0 && list[place - 1].at > entry.at) place -= 1;
    list.splice(place, 0, entry);
    if (list.length > MAX_ENTRIES) {
      this.forgotten += list.splice(0, MAX_ENTRIES / 10).length;
    }
    if (this.#seen.size > 4 * MAX_ENTRIES) {
      this.#seen = new Set([...this.#seen].slice(2 * MAX_ENTRIES));
    }
  }
}

function configOf({ rate_bps, delay_s, loss, queue_bytes, up }: LinkConfig): LinkConfig {
  return { rate_bps, delay_s, loss, queue_bytes, up };
}
