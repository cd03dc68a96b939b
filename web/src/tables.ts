// Rows of the tables of links, flows and programs at a moment.

import type { Selection } from './app.svelte.ts';
import * as format from './format.ts';
import { DELAY, DROPS, GOODPUT, LOSSES, QUEUE, RATE, RTT, type Run } from './run.ts';

export type Kind = 'links' | 'flows' | 'programs';

export interface Column {
  title: string;
  format?: (value: number) => string;
}

/** Text cells come first, then numbers in the order of the columns. */
export interface Row {
  key: string;
  select: Selection;
  cells: (string | number)[];
}

const text = (title: string): Column => ({ title });

export const COLUMNS: Record<Kind, Column[]> = {
  links: [
    text('Link'),
    text('Direction'),
    text('State'),
    { title: 'Rate', format: format.rate },
    { title: 'Utilisation', format: format.percent },
    { title: 'Queue', format: format.bytes },
    { title: 'Queueing delay', format: format.duration },
    { title: 'Drops', format: format.perSecond },
  ],
  flows: [
    text('Flow'),
    text('From'),
    text('To'),
    text('Kind'),
    { title: 'Goodput', format: format.rate },
    { title: 'RTT', format: format.duration },
    { title: 'Losses', format: format.perSecond },
  ],
  programs: [text('Program'), text('Node'), text('State'), text('Exit code')],
};

/** Whether a link, flow or program belongs to the selection. */
function related(run: Run, selection: Selection) {
  const { links, flows } = run.hello;
  const kind = selection?.kind;
  const index = selection?.index ?? -1;
  const ends = (link: number) => links[link].ends;
  const over = (flow: number, link: number) => flows[flow].path.some((hop) => hop[0] === link);
  return {
    link: (i: number) =>
      kind === 'node' ? ends(i).includes(index) : kind === 'flow' ? over(index, i) : true,
    flow: (i: number) => {
      if (kind === 'link') return over(i, index);
      if (kind !== 'node') return true;
      const { from, to, path } = flows[i];
      return from === index || to === index || path.some(([link]) => ends(link)?.includes(index));
    },
    node: (i: number) => {
      if (kind === 'node') return i === index;
      if (kind === 'link') return ends(index).includes(i);
      return kind === 'flow' ? [flows[index].from, flows[index].to].includes(i) : true;
    },
  };
}

export function rows(run: Run, kind: Kind, frame: number, selection: Selection): Row[] {
  const { links, flows, nodes, programs } = run.hello;
  const at = frame >= 0 ? run.frames.time[frame] : 0;
  const value = (column: number) => (frame < 0 ? NaN : run.frames.value(frame, column));
  const wanted = related(run, selection);
  const result: Row[] = [];
  if (kind === 'links') {
    const config = run.config.at(at);
    links.forEach(({ name }, i) => {
      if (!wanted.link(i)) return;
      run.directions[i].forEach((direction, d) => {
        const column = run.linkColumn(i, d, 0);
        const [rate, queue] = [value(column + RATE), value(column + QUEUE)];
        const [drops, delay] = [value(column + DROPS), value(column + DELAY)];
        const limit = config[i].rate_bps[d];
        const state = config[i].up ? 'up' : 'down';
        const share = limit ? rate / limit : NaN;
        result.push({
          key: `${i} ${d}`,
          select: { kind: 'link', index: i },
          cells: [name, direction, state, rate, share, queue, delay, drops],
        });
      });
    });
  } else if (kind === 'flows') {
    flows.forEach((flow, i) => {
      if (!wanted.flow(i)) return;
      const values = [GOODPUT, RTT, LOSSES].map((what) => value(run.flowColumn(i, what)));
      const [from, to] = [flow.from, flow.to].map((node) => nodes[node]?.name ?? '?');
      result.push({
        key: String(i),
        select: { kind: 'flow', index: i },
        cells: [flow.name, from, to, flow.kind, ...values],
      });
    });
  } else {
    const states = run.programs.at(at);
    programs.forEach(({ name, node }, i) => {
      if (!wanted.node(node)) return;
      const { state, code } = states[i];
      result.push({
        key: String(i),
        select: { kind: 'node', index: node },
        cells: [name, nodes[node]?.name ?? '?', state, code === null ? '' : String(code)],
      });
    });
  }
  return result;
}

const NAMES = new Intl.Collator('en', { numeric: true });

/** The rows with all words of the filter, sorted by a column; unknown values last. */
export function arrange(
  all: Row[],
  filter: string,
  sort: { column: number; down: boolean },
): Row[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const matches =
    words.length === 0
      ? all
      : all.filter(({ cells }) => {
          const line = cells
            .filter((cell) => typeof cell === 'string')
            .join(' ')
            .toLowerCase();
          return words.every((word) => line.includes(word));
        });
  const { column, down } = sort;
  if (column < 0) return matches;
  const sign = down ? -1 : 1;
  return matches.sort(({ cells: { [column]: a } }, { cells: { [column]: b } }) => {
    if (typeof a === 'string' || typeof b === 'string')
      return sign * NAMES.compare(String(a), String(b));
    if (Number.isNaN(a) || Number.isNaN(b))
      return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
    return sign * (a - b);
  });
}
