// Messages of the protocol `netarium.watch/1`. Numbers are in SI units: s, bit/s, bytes, fractions.

export type Pair<T> = [T, T];

export interface LinkConfig {
  rate_bps: Pair<number | null>;
  delay_s: Pair<number>;
  loss: Pair<number>;
  queue_bytes: Pair<number | null>;
  up: boolean;
}

export interface LinkInfo extends LinkConfig {
  name: string;
  /** Positions of the nodes; direction 0 goes from the first to the second. */
  ends: Pair<number>;
  ifaces?: Pair<string>;
}

export interface NodeInfo {
  name: string;
  role: string;
  /** In 0..1, y downwards. */
  x: number;
  y: number;
}

export interface FlowInfo {
  name: string;
  from: number;
  to: number;
  kind: string;
  /** Pairs of link and direction; empty if unknown. */
  path: Pair<number>[];
}

export interface PlotInfo {
  title: string;
  unit: 'bit/s' | 's' | 'B' | '1' | 'count';
  /** The sum of the series has a meaning. */
  stacked: boolean;
  series: string[];
}

/** Bundler, a multipath flow, rate control or collapsed paths. */
export interface SystemInfo {
  name: string;
  kind: string;
  plots: PlotInfo[];
}

export interface Hello {
  type: 'hello';
  schema: string;
  lab: string;
  seed: number;
  clock: 'wall' | 'virtual';
  source: 'live' | 'finished';
  duration_s: number | null;
  interval_s: number;
  version: string;
  run: string | null;
  read_only: boolean;
  commands: string[];
  nodes: NodeInfo[];
  links: LinkInfo[];
  flows: FlowInfo[];
  programs: { name: string; node: number }[];
  /** Their series are numbered in the order of systems, plots and series. */
  systems?: SystemInfo[];
}

export interface Machine {
  late_p50_s: number;
  late_p99_s: number;
  late_max_s: number;
  trusted: boolean;
}

export interface Frame {
  type: 'frame';
  /** End of the interval, in lab time. */
  t: number;
  span: number;
  /** Link, then for each direction: bit/s, queue in bytes, dropped packets, queueing delay in s. */
  links?: number[][];
  /** Flow, goodput in bit/s, RTT in s or null, lost or retransmitted packets. */
  flows?: [number, number, number | null, number][];
  /** Program, state, exit code. */
  programs?: [number, string, number | null][];
  changes?: (LinkConfig & { link: number })[];
  events?: { at: number; text: string }[];
  log?: { at: number; level: string; source: string; text: string }[];
  /** Number and value of series of systems. */
  series?: [number, number][];
  /** System, state. */
  states?: [number, string][];
  machine?: Machine;
  dropped?: number;
}

export interface End {
  type: 'end';
  t: number;
  outcome: string;
  reasons: string[];
  exit_code: number;
  report: string | null;
}

export interface Answer {
  type: 'answer';
  id: number;
  ok: boolean;
  at?: number;
  events?: string[];
  warnings?: string[];
  errors?: { message: string; help?: string | null }[];
  /** The change as `[[at]]` events of a lab file. */
  at_events?: string;
}

/** The pace of a run on the virtual clock. */
export interface ClockState {
  type: 'clock';
  /** Lab time. */
  now: number;
  is_paused: boolean;
  /** Virtual time in thousandths of real time; null if as fast as possible. */
  permille: number | null;
}

export type ClockChange =
  | { do: 'pause' | 'resume' }
  | { do: 'step'; ns: number }
  | { do: 'speed'; permille: number | null };

/** Messages on the connection of a terminal; its input and output are binary messages. */
export type TerminalRequest =
  | { type: 'open'; host: string; columns: number; rows: number }
  | { type: 'resize'; columns: number; rows: number }
  /** The page has processed this much output. */
  | { type: 'ack'; bytes: number };

export type Message = Hello | Frame | End | Answer | ClockState;

const SCHEMA = 'netarium.watch/1';

/** The message of a text, null for an unknown type. Throws for what is not a message. */
export function parse(text: string): Message | null {
  const message = JSON.parse(text) as Message | null;
  switch (message?.type) {
    case 'hello':
      if (message.schema !== SCHEMA) {
        throw new Error(`the server speaks ${message.schema}, this page ${SCHEMA}`);
      }
      return message;
    case 'frame':
      if (!Number.isFinite(message.t) || !(message.span > 0)) {
        throw new Error('a frame without time or interval');
      }
      return message;
    case 'end':
    case 'answer':
    case 'clock':
      return message;
    default:
      return null;
  }
}
