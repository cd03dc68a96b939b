// Geometry of the topology picture, and its links and nodes as few strokes, one for each class and
// width.

import type { Frames } from './frames.ts';
import type { LinkConfig } from './protocol.ts';
import { DELAY, DROPS, QUEUE, RATE, type ProgramState, type Run } from './run.ts';

/** Above this many nodes, a link is one line on a canvas, and labels show for few visible nodes only. */
export const MAX_DETAILED_NODES = 300;
const MAX_LABELLED_NODES = 120;
const MAX_LABELLED_LINKS = 16;
/** Lower bounds of the classes u1 to u4 of utilisation, as in the report. */
const UTILISATION_BOUNDS = [0.2, 0.5, 0.8, 0.95];
export const UTILISATION_LABELS = ['< 20 %', '< 50 %', '< 80 %', '< 95 %', '≥ 95 %'];
const WIDTHS = [1.6, 2.6, 4, 6];
const THIN_WIDTHS = [0.8, 1, 1.5, 2.2];
/** Distance between the middles of parallel links, in px. */
const PARALLEL = 16;
const LABEL_HEIGHT = 15;
const CHARACTER = 6.7;

export interface View {
  width: number;
  height: number;
  zoom: number;
  /** Point of the picture, in 0..1, at the middle of the view. */
  x: number;
  y: number;
}

export interface Geometry {
  view: View;
  detailed: boolean;
  radius: number;
  x: Float64Array;
  y: Float64Array;
  /** Ends of each link: x1, y1, x2, y2. */
  lines: Float64Array;
  labels: { node: number; x: number; y: number; anchor: string }[];
  linkLabels: { link: number; x: number; y: number }[];
}

/** Size in px of the unit square at zoom 1; the margin is room for labels. */
export function extent({ width, height }: { width: number; height: number }): [number, number] {
  return [Math.max(1, width - 2 * Math.min(56, width / 8)), Math.max(1, height - 60)];
}

export function place(run: Run, view: View): Geometry {
  const { nodes, links } = run.hello;
  const detailed = nodes.length <= MAX_DETAILED_NODES;
  const radius = Math.max(nodes.length > 100 ? 3 : 5, Math.min(9, 90 / Math.sqrt(nodes.length)));
  const [width, height] = extent(view);
  const x = Float64Array.from(nodes, (n) => view.width / 2 + (n.x - view.x) * width * view.zoom);
  const y = Float64Array.from(nodes, (n) => view.height / 2 + (n.y - view.y) * height * view.zoom);
  const lines = new Float64Array(links.length * 4);
  const between = new Map<number, number[]>();
  links.forEach(({ ends: [a, b] }, i) => {
    const key = Math.min(a, b) * nodes.length + Math.max(a, b);
    const parallel = between.get(key);
    if (parallel) parallel.push(i);
    else between.set(key, [i]);
  });
  for (const parallel of between.values()) {
    parallel.forEach((link, place) => {
      const [a, b] = links[link].ends;
      const [low, high] = a < b ? [a, b] : [b, a];
      const length = Math.hypot(x[high] - x[low], y[high] - y[low]) || 1;
      const shift = (place - (parallel.length - 1) / 2) * (detailed ? PARALLEL : 3);
      const dx = (-(y[high] - y[low]) / length) * shift;
      const dy = ((x[high] - x[low]) / length) * shift;
      lines.set([x[a] + dx, y[a] + dy, x[b] + dx, y[b] + dy], link * 4);
    });
  }
  return label(run, { view, detailed, radius, x, y, lines, labels: [], linkLabels: [] });
}

/** x1, y1, x2, y2 of a link. */
export function ends(lines: Float64Array, link: number): [number, number, number, number] {
  const i = link * 4;
  return [lines[i], lines[i + 1], lines[i + 2], lines[i + 3]];
}

type Box = [left: number, top: number, right: number, bottom: number];

/** Adds labels of nodes, then of links, where they cover no node, no other label and few links. */
function label(run: Run, geometry: Geometry): Geometry {
  const { x, y, radius, view } = geometry;
  const { nodes, links } = run.hello;
  const visible = nodes
    .map((_, i) => i)
    .filter((i) => x[i] >= 0 && x[i] <= view.width && y[i] >= 0 && y[i] <= view.height);
  if (visible.length > MAX_LABELLED_NODES) return geometry;
  const whole: Box = [0, 0, view.width, view.height];
  const near = links.map((_, i) => i).filter((i) => crossings(geometry.lines, [i], whole) > 0);
  const taken: Box[] = visible.map((i) => around(x[i], y[i], radius + 1));
  // Routers first: their names help most to find one's way.
  visible.sort((a, b) => run.linksAt[b].length - run.linksAt[a].length);
  for (const node of visible) {
    const width = nodes[node].name.length * CHARACTER + 4;
    const [cx, cy] = [x[node], y[node]];
    const [gap, down] = [radius + 4, radius + 3 + LABEL_HEIGHT];
    const places: [number, number, string][] = [
      [cx, cy + down - 4, 'middle'],
      [cx, cy - radius - 6, 'middle'],
      [cx + gap, cy + 4, 'start'],
      [cx - gap, cy + 4, 'end'],
      [cx + gap, cy + down - 6, 'start'],
      [cx - gap, cy + down - 6, 'end'],
      [cx + gap, cy - radius - 2, 'start'],
      [cx - gap, cy - radius - 2, 'end'],
    ];
    let best: { cost: number; box: Box; at: [number, number, string] } | null = null;
    for (const at of places) {
      const from =
        at[2] === 'middle' ? at[0] - width / 2 : at[2] === 'start' ? at[0] : at[0] - width;
      const box: Box = [from, at[1] - LABEL_HEIGHT + 4, from + width, at[1] + 4];
      if (box[0] < 2 || box[2] > view.width - 2 || box[1] < 0 || box[3] > view.height) continue;
      const own = around(cx, cy, radius + 1);
      if (taken.some((other) => overlap(box, other) && !equal(other, own))) continue;
      const cost = crossings(geometry.lines, near, box);
      if (best === null || cost < best.cost) best = { cost, box, at };
      if (cost === 0) break;
    }
    // In a dense picture, a label over links is worse than none.
    if (best === null || (visible.length > 20 && best.cost > 2)) continue;
    taken.push(best.box);
    const [labelX, labelY, anchor] = best.at;
    geometry.labels.push({ node, x: labelX, y: labelY, anchor });
  }
  if (links.length > MAX_LABELLED_LINKS) return geometry;
  links.forEach(({ name }, link) => {
    const [x1, y1, x2, y2] = ends(geometry.lines, link);
    const half = (name.length * CHARACTER) / 2;
    const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
    for (const y of [my - 9, my + 17, my - 20, my + 28]) {
      const box: Box = [mx - half, y - LABEL_HEIGHT + 4, mx + half, y + 4];
      if (taken.some((other) => overlap(box, other)) || crossings(geometry.lines, near, box) > 0) continue;
      taken.push(box);
      geometry.linkLabels.push({ link, x: mx, y });
      break;
    }
  });
  return geometry;
}

const around = (x: number, y: number, r: number): Box => [x - r, y - r, x + r, y + r];
const equal = (a: Box, b: Box) => a.every((value, i) => value === b[i]);
const overlap = (a: Box, b: Box) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

/** Number of the links that cross a box: their bounding box meets it, with corners on both sides. */
function crossings(lines: Float64Array, links: number[], [left, top, right, bottom]: Box): number {
  let count = 0;
  for (const link of links) {
    const i = link * 4;
    const [x, y, dx, dy] = [lines[i], lines[i + 1], lines[i + 2] - lines[i], lines[i + 3] - lines[i + 1]];
    if (Math.max(x, x + dx) < left || Math.min(x, x + dx) > right) continue;
    if (Math.max(y, y + dy) < top || Math.min(y, y + dy) > bottom) continue;
    // Distances of the middle and of a corner from the line, times its length.
    const middle = dx * ((top + bottom) / 2 - y) - dy * ((left + right) / 2 - x);
    const reach = Math.abs(dx) * ((bottom - top) / 2) + Math.abs(dy) * ((right - left) / 2);
    if (Math.abs(middle) <= reach) count += 1;
  }
  return count;
}

export type Hit = { kind: 'node' | 'link'; index: number } | null;

/** The node or else the link near a point. */
export function hit({ x, y, lines, radius }: Geometry, px: number, py: number): Hit {
  let nearest = Math.max(12, radius + 4);
  let found: Hit = null;
  for (let i = 0; i < x.length; i += 1) {
    const distance = Math.hypot(x[i] - px, y[i] - py);
    if (distance < nearest) [nearest, found] = [distance, { kind: 'node', index: i }];
  }
  if (found) return found;
  nearest = 9;
  for (let i = 0; i < lines.length; i += 4) {
    const [dx, dy] = [lines[i + 2] - lines[i], lines[i + 3] - lines[i + 1]];
    const along = ((px - lines[i]) * dx + (py - lines[i + 1]) * dy) / (dx * dx + dy * dy || 1);
    const share = Math.max(0, Math.min(1, along));
    const distance = Math.hypot(lines[i] + share * dx - px, lines[i + 1] + share * dy - py);
    if (distance < nearest) [nearest, found] = [distance, { kind: 'link', index: i / 4 }];
  }
  return found;
}

/** The node nearest in a direction of an arrow key, or `from` if there is none. */
export function neighbour({ x, y }: Geometry, from: number, dx: number, dy: number): number {
  let [best, cost] = [from, Infinity];
  for (let i = 0; i < x.length; i += 1) {
    const [ahead, aside] = dx
      ? [(x[i] - x[from]) * dx, Math.abs(y[i] - y[from])]
      : [(y[i] - y[from]) * dy, Math.abs(x[i] - x[from])];
    if (i === from || ahead < 1) continue;
    if (ahead + 2 * aside < cost) [best, cost] = [i, ahead + 2 * aside];
  }
  return best;
}

/** Class of a rate: none, u0 to u4, or ux without a limit of the rate. */
export function utilisationClass(rate: number, limit: number | null): string {
  if (!(rate > 0)) return 'none';
  if (limit === null) return 'ux';
  const share = rate / limit;
  let level = 0;
  while (share >= UTILISATION_BOUNDS[level]) level += 1;
  return `u${level}`;
}

export interface Stroke {
  key: string;
  class: string;
  width: number;
  /** x1, y1, x2, y2 of each line. */
  lines: number[];
}

const KINDS = ['none', 'down', 'ux', 'u0', 'u1', 'u2', 'u3', 'u4', 'track', 'queue', 'drops'];
const [DOWN, TRACK, QUEUED, DROPPED] = ['down', 'track', 'queue', 'drops'].map((kind) =>
  KINDS.indexOf(kind),
);

/** Strokes of all links at a frame: always the same list, without lines where none is. */
export function linkStrokes(
  run: Run,
  geometry: Geometry,
  frames: Frames,
  frame: number,
  config: readonly LinkConfig[],
): Stroke[] {
  const { detailed, lines } = geometry;
  const row = frame >= 0 ? frames.row(frame) : null;
  const strokes: number[][] = KINDS.flatMap(() => WIDTHS.map(() => []));
  const add = (kind: number, width: number, ...line: number[]) =>
    strokes[kind * WIDTHS.length + width].push(...line);
  const utilisation = (rate: number, limit: number | null) =>
    KINDS.indexOf(utilisationClass(rate, limit));
  const widthOf = widths(config);
  for (let link = 0; link < config.length; link += 1) {
    const { rate_bps, queue_bytes, up } = config[link];
    const [x1, y1, x2, y2] = ends(lines, link);
    if (!up) {
      add(DOWN, 0, x1, y1, x2, y2);
      continue;
    }
    const first = run.linkColumn(link, 0, 0);
    const second = run.linkColumn(link, 1, 0);
    const sent = row ? [row[first + RATE], row[second + RATE]] : [0, 0];
    if (!detailed) {
      const [a, b] = [sent[0] / (rate_bps[0] ?? Infinity), sent[1] / (rate_bps[1] ?? Infinity)];
      const busier = a < b || sent[0] === 0 ? 1 : 0;
      const kind = utilisation(sent[busier], rate_bps[busier]);
      add(kind, widthOf(rate_bps[busier]), x1, y1, x2, y2);
      if (
        !row ||
        row[first + QUEUE] + row[second + QUEUE] + row[first + DROPS] + row[second + DROPS] <= 0
      )
        continue;
    }
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    // To the right of the direction of travel; y points down.
    const [rightX, rightY] = [-(y2 - y1) / length, (x2 - x1) / length];
    for (let direction = 0; direction < 2; direction += 1) {
      const side = direction ? -1 : 1;
      const width = widthOf(rate_bps[direction]);
      const shift = side * (WIDTHS[width] / 2 + 0.7);
      if (detailed) {
        const [sx, sy] = [rightX * shift, rightY * shift];
        const kind = utilisation(sent[direction], rate_bps[direction]);
        add(kind, width, x1 + sx, y1 + sy, x2 + sx, y2 + sy);
      }
      if (!row) continue;
      const column = direction ? second : first;
      const queue = row[column + QUEUE];
      const drops = row[column + DROPS];
      if (queue <= 0 && drops <= 0) continue;
      const beside = detailed ? side * (WIDTHS[width] + 4.5) : side * 2.5;
      const start = geometry.radius + 3;
      const [ox, oy] = direction ? [x2, y2] : [x1, y1];
      const [ux, uy] = [((x2 - x1) / length) * side, ((y2 - y1) / length) * side];
      const [bx, by] = [ox + ux * start + rightX * beside, oy + uy * start + rightY * beside];
      const room = Math.max(2, Math.min(detailed ? 44 : 14, length * 0.35 - start));
      // An unlimited queue has no fill level: its delay counts, 100 ms as full.
      const limit = queue_bytes[direction];
      const fill = Math.min(1, limit ? queue / limit : row[column + DELAY] / 0.1);
      if (detailed && queue > 0) add(TRACK, 0, bx, by, bx + ux * room, by + uy * room);
      if (fill * room >= 1) {
        add(QUEUED, 0, bx, by, bx + ux * room * fill, by + uy * room * fill);
      }
      if (drops > 0) {
        const [cx, cy, r] = [bx + ux * (room + 5), by + uy * (room + 5), detailed ? 3.5 : 2.5];
        add(DROPPED, 0, cx - r, cy - r, cx + r, cy + r, cx - r, cy + r, cx + r, cy - r);
      }
    }
  }
  const widthsInPx = detailed ? WIDTHS : THIN_WIDTHS;
  const fixed: Record<string, number> = detailed
    ? { down: 1.5, track: 4, queue: 4, drops: 1.8 }
    : { down: 1, track: 2, queue: 2.5, drops: 1.2 };
  return KINDS.flatMap((kind, place) =>
    (kind in fixed ? [fixed[kind]] : widthsInPx).map((width, index) => {
      const lines = strokes[place * WIDTHS.length + index];
      return { key: `${kind} ${index}`, class: kind, width, lines };
    }),
  );
}

/** Lines of a stroke as an SVG path. */
export function pathOf(lines: number[]): string {
  let d = '';
  for (let i = 0; i < lines.length; i += 4) {
    d += line(lines[i], lines[i + 1], lines[i + 2], lines[i + 3]);
  }
  return d;
}

const tenths = (value: number) => Math.round(value * 10) / 10;
const line = (x1: number, y1: number, x2: number, y2: number) =>
  `M${tenths(x1)} ${tenths(y1)}L${tenths(x2)} ${tenths(y2)}`;

/** Width class of a rate, on a logarithmic scale over the rates of the lab. */
function widths(config: readonly LinkConfig[]): (rate: number | null) => number {
  const classes = new Map<number | null, number>([[null, 2]]);
  for (const { rate_bps } of config) rate_bps.forEach((rate) => rate && classes.set(rate, 1));
  const rates = [...classes.keys()].filter((rate) => rate !== null);
  const low = Math.min(...rates);
  const range = Math.log(Math.max(...rates) / low);
  if (range > 0.01) {
    for (const rate of rates) classes.set(rate, Math.round((Math.log(rate / low) / range) * 3));
  }
  return (rate) => classes.get(rate) ?? 0;
}

/** The state of a node's programs that matters most. */
const SEVERITY = ['failed', 'running', 'ready', 'waiting', 'exited'];

export function nodeStates(run: Run, states: readonly ProgramState[]): (string | undefined)[] {
  const result: (string | undefined)[] = run.hello.nodes.map(() => undefined);
  run.hello.programs.forEach(({ node }, program) => {
    const [a, b] = [states[program].state, result[node]];
    if (b === undefined || SEVERITY.indexOf(a) < SEVERITY.indexOf(b)) result[node] = a;
  });
  return result;
}

/** Nodes as paths: shapes by role, and a mark by the state of programs. */
export function nodeShapes(
  run: Run,
  geometry: Geometry,
  states: readonly ProgramState[],
): { key: string; d: string }[] {
  const { x, y, radius: r } = geometry;
  const paths: Record<string, string> = { host: '', router: '', switch: '' };
  for (const state of SEVERITY) paths[state] = '';
  const perNode = nodeStates(run, states);
  run.hello.nodes.forEach(({ role }, i) => {
    const kind = role === 'router' || role === 'switch' ? role : 'host';
    paths[kind] += shape(kind, x[i], y[i], r);
    const state = perNode[i];
    if (state === undefined) return;
    const s = r * 0.5;
    if (state === 'failed') {
      paths.failed += line(x[i] - s, y[i] - s, x[i] + s, y[i] + s);
      paths.failed += line(x[i] - s, y[i] + s, x[i] + s, y[i] - s);
    } else if (state in paths) paths[state] += shape('host', x[i], y[i], s);
  });
  return Object.entries(paths).map(([key, d]) => ({ key, d }));
}

export function shape(role: string, x: number, y: number, r: number): string {
  const at = (dx: number, dy: number) => `${(x + dx).toFixed(1)} ${(y + dy).toFixed(1)}`;
  if (role === 'router')
    return `M${at(0, -r * 1.2)}L${at(r * 1.2, 0)}L${at(0, r * 1.2)}L${at(-r * 1.2, 0)}Z`;
  if (role === 'switch') return `M${at(-r, -r)}L${at(r, -r)}L${at(r, r)}L${at(-r, r)}Z`;
  const arc = (dx: number) => `a${r} ${r} 0 1 0 ${dx} 0`;
  return `M${at(-r, 0)}${arc(2 * r)}${arc(-2 * r)}Z`;
}

/** Path of a flow with an arrow head on each link. */
export function flowPath(
  { lines }: Geometry,
  path: [number, number][],
): { d: string; heads: string } {
  let [d, heads] = ['', ''];
  for (const [link, direction] of path) {
    const [a, b, c, e] = ends(lines, link);
    if (a === undefined) continue;
    const [x1, y1, x2, y2] = direction ? [c, e, a, b] : [a, b, c, e];
    d += line(x1, y1, x2, y2);
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [ux, uy] = [((x2 - x1) / length) * 6, ((y2 - y1) / length) * 6];
    const [mx, my] = [(x1 + x2) / 2 + ux, (y1 + y2) / 2 + uy];
    heads += `M${mx.toFixed(1)} ${my.toFixed(1)}l${(-2 * ux - uy).toFixed(1)} ${(-2 * uy + ux).toFixed(1)}`;
    heads += `l${(2 * uy).toFixed(1)} ${(-2 * ux).toFixed(1)}Z`;
  }
  return { d, heads };
}
