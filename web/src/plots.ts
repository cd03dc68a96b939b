// Which time series the page draws for a selection.

import type { Selection } from './app.svelte.ts';
import * as format from './format.ts';
import type { PlotInfo, SystemInfo } from './protocol.ts';
import { DELAY, DROPS, GOODPUT, LOSSES, QUEUE, RATE, RTT, type Run } from './run.ts';

export const MAX_SERIES = 8;
/** Least time that plots show at the start of a live run, in s. */
const MIN_RANGE = 10;
/** Dashes in px of series 0 to 7: they differ without colour vision. */
export const DASHES = [
  [],
  [7, 3],
  [2, 3],
  [10, 3, 2, 3],
  [4, 2],
  [12, 4],
  [1.5, 5],
  [6, 2, 1.5, 2, 1.5, 2],
];
export const WIDTHS = [1.6, 1.6, 2.2, 1.6, 1.6, 2.2, 2.4, 1.6];

export interface Series {
  label: string;
  column: number;
  select?: Selection;
}

export interface PlotSpec {
  title: string;
  note?: string;
  series: Series[];
  format: (value: number) => string;
  /** Least upper end of the axis. */
  least: number;
  /** Drawn as areas, each on top of those before. */
  stacked?: boolean;
}

/** The series with the highest values in the newest frame. */
function top(run: Run, all: Series[]): Series[] {
  const { frames } = run;
  if (all.length <= MAX_SERIES || frames.length === 0) return all.slice(0, MAX_SERIES);
  const row = frames.row(frames.length - 1);
  const sorted = all.toSorted((a, b) => row[b.column] - row[a.column]).slice(0, MAX_SERIES);
  return sorted.sort((a, b) => a.column - b.column);
}

function noted(title: string, shown: Series[], all: Series[], of: string): PlotSpec {
  const note = shown.length < all.length ? `${shown.length} of ${all.length} ${of}` : '';
  return { title, note, series: shown, format: format.rate, least: 1000 };
}

function sent(run: Run, links: { link: number; direction: number }[], title: string): PlotSpec {
  const all = links.map(({ link, direction }) => ({
    label: run.directions[link][direction],
    column: run.linkColumn(link, direction, RATE),
    select: { kind: 'link' as const, index: link },
  }));
  return noted(title, top(run, all), all, 'directions of links, the busiest');
}

export function plotsFor(run: Run, selection: Selection): PlotSpec[] {
  const { links, flows } = run.hello;
  if (selection?.kind === 'link') {
    const both = (what: number) =>
      run.directions[selection.index].map((label, direction) => ({
        label,
        column: run.linkColumn(selection.index, direction, what),
      }));
    return [
      { title: 'Rate', series: both(RATE), format: format.rate, least: 1000 },
      { title: 'Queue', series: both(QUEUE), format: format.bytes, least: 1000 },
      { title: 'Queueing delay', series: both(DELAY), format: format.duration, least: 1e-3 },
      { title: 'Drops', note: 'packets', series: both(DROPS), format: format.perSecond, least: 1 },
    ];
  }
  if (selection?.kind === 'flow') {
    const { index } = selection;
    const one = (what: number) => [
      { label: flows[index].name, column: run.flowColumn(index, what) },
    ];
    return [
      { title: 'Goodput', series: one(GOODPUT), format: format.rate, least: 1000 },
      { title: 'RTT', series: one(RTT), format: format.duration, least: 1e-3 },
      { title: 'Losses', note: 'packets', series: one(LOSSES), format: format.perSecond, least: 1 },
    ];
  }
  if (selection?.kind === 'node') {
    const { index } = selection;
    const own = run.linksAt[index].map((link) => ({
      link,
      direction: links[link].ends[0] === index ? 0 : 1,
    }));
    const back = own.map(({ link, direction }) => ({ link, direction: 1 - direction }));
    return [sent(run, own, 'Sent'), sent(run, back, 'Received')];
  }
  if (flows.length > 0) {
    const all = flows.map(({ name }, index) => ({
      label: name,
      column: run.flowColumn(index, GOODPUT),
      select: { kind: 'flow' as const, index },
    }));
    return [noted('Goodput of flows', top(run, all), all, 'flows, the fastest')];
  }
  const all = links.flatMap((_, link) => [0, 1].map((direction) => ({ link, direction })));
  return [sent(run, all, 'Rate of links')];
}

const UNITS: Record<PlotInfo['unit'], Pick<PlotSpec, 'format' | 'least'>> = {
  'bit/s': { format: format.rate, least: 1000 },
  s: { format: format.duration, least: 1e-3 },
  B: { format: format.bytes, least: 1000 },
  '1': { format: format.percent, least: 0.01 },
  count: { format: format.count, least: 1 },
};

/** The plots of a system, of those that the lab runs. */
export function systemPlots(run: Run, system: number): PlotSpec[] {
  const systems = run.hello.systems ?? [];
  const count = ({ plots }: SystemInfo) => plots.reduce((sum, { series }) => sum + series.length, 0);
  let next = systems.slice(0, system).reduce((sum, each) => sum + count(each), 0);
  return (systems[system]?.plots ?? []).map(({ title, unit, stacked, series }) => ({
    title,
    stacked,
    series: series.map((label) => ({ label, column: run.seriesColumn(next++) })),
    ...(UNITS[unit] ?? UNITS.count),
  }));
}

/** Values on top of those of the series before; times without any value stay without. */
export function stack(data: number[][]): number[][] {
  const [times, ...series] = data;
  const sums: number[] = times.map(() => 0);
  const isKnown = times.map((_, i) => series.some((values) => !Number.isNaN(values[i])));
  return [
    times,
    ...series.map((values) =>
      values.map((value, i) => {
        sums[i] += Number.isNaN(value) ? 0 : value;
        return isKnown[i] ? sums[i] : NaN;
      }),
    ),
  ];
}

/** Unknown values as null, which the ranges of axes leave out. */
export const nulls = (data: number[][]): (number | null)[][] =>
  data.map((values) => values.map((value) => (Number.isNaN(value) ? null : value)));

/** The times that plots show: zoomed, or the chosen window at the moment shown. */
export function timeRange(
  run: Run,
  view: { zoomed: [number, number] | null; window: number; time: number | null },
): [number, number] {
  if (view.zoomed) return view.zoomed;
  const { first, last } = run;
  if (view.window === Infinity) return [first, Math.max(last, first + 1)];
  const end = view.time === null ? last : Math.min(last, view.time + view.window / 2);
  const to = Math.max(end, first + Math.min(view.window, MIN_RANGE));
  return [Math.max(first, to - view.window), to];
}

export const keyOf = (specs: PlotSpec[]): string =>
  specs.map(({ title, series }) => `${title} ${series.map((s) => s.column)}`).join(';');
