// Tests of the parts without a browser.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import * as format from '../src/format.ts';
import { precise, speed, steps } from '../src/clock.ts';
import { Frames, MAX, MEAN, SUM } from '../src/frames.ts';
import { History } from '../src/history.ts';
import { changesFile } from '../src/labfile.ts';
import { nulls, plotsFor, stack, systemPlots } from '../src/plots.ts';
import { parse } from '../src/protocol.ts';
import { DELAY, DROPS, GOODPUT, LOSSES, QUEUE, RATE, RTT, Run } from '../src/run.ts';
import { arrange, rows } from '../src/tables.ts';
import {
  hit,
  linkStrokes,
  neighbour,
  nodeStates,
  pathOf,
  place,
  utilisationClass,
} from '../src/topology.ts';
import { frame, large, medium, small } from './labs.mjs';

const empty = (t, rest = {}) => ({ type: 'frame', t, span: 0.1, ...rest });
const near = (a, b) =>
  assert.ok(Math.abs(a - b) < 1e-6 * Math.max(1, Math.abs(b)), `${a} is not ${b}`);

test('puts values of frames into columns', () => {
  const run = new Run(small());
  run.add(
    empty(0.1, {
      links: [[1, 9e6, 48000, 3, 0.02, 1e5, 10, 0, 0.001]],
      flows: [
        [0, 8e6, 0.067, 2],
        [1, 5, null, 0],
      ],
    }),
  );
  const row = run.frames.row(0);
  const link = [0, 1].flatMap((d) =>
    [RATE, QUEUE, DROPS, DELAY].map((what) => row[run.linkColumn(1, d, what)]),
  );
  [9e6, 48000, 3, 0.02, 1e5, 10, 0, 0.001].forEach((value, i) => near(link[i], value));
  near(row[run.flowColumn(0, RTT)], 0.067);
  assert.equal(row[run.flowColumn(0, GOODPUT)], 8e6);
  near(run.frames.value(0, run.flowColumn(0, LOSSES)), 20);
  assert.ok(Number.isNaN(row[run.flowColumn(1, RTT)]));
  assert.equal(row[run.linkColumn(0, 0, RATE)], 0, 'a link without a row is idle');
});

test('ignores rows of unknown links, flows and programs', () => {
  const run = new Run(small());
  run.add(
    empty(0.1, {
      links: [
        [99, 1],
        [-1, 1],
        ['x', 1],
      ],
      flows: [[99, 1, 1, 1]],
      programs: [[99, 'running', null]],
      changes: [{ link: 99 }],
    }),
  );
  assert.equal(Math.max(...run.frames.row(0).filter((v) => !Number.isNaN(v))), 0);
  assert.deepEqual(
    run.programs.last().map(({ state }) => state),
    ['waiting', 'waiting'],
  );
});

test('shows the frame whose interval holds a moment', () => {
  const frames = new Frames(new Uint8Array(1), 8);
  for (const t of [0.1, 0.2, 0.3]) frames.add(t, 0.1);
  assert.deepEqual(
    [-1, 0, 0.05, 0.1, 0.15, 0.3, 9].map((t) => frames.at(t)),
    [-1, -1, 0, 0, 1, 2, 2],
  );
});

test('thins the oldest frames when full and keeps sums, maxima and means', () => {
  const frames = new Frames(Uint8Array.of(MEAN, MAX, SUM), 64);
  for (let i = 1; i <= 10_000; i += 1) frames.add(i, 1).set([i % 2, i, 1]);
  assert.ok(frames.length <= 64);
  const spans = [...frames.span.subarray(0, frames.length)];
  assert.equal(
    spans.reduce((a, b) => a + b),
    10_000,
    'no moment is lost',
  );
  assert.ok(
    spans.slice(-16).every((span) => span === 1),
    'the newest keep their interval',
  );
  let total = 0;
  for (let i = 0; i < frames.length; i += 1) {
    const [mean, max, sum] = frames.row(i);
    assert.equal(max, frames.time[i]);
    assert.equal(sum, spans[i]);
    total += mean * spans[i];
    if (i > 0) assert.equal(frames.time[i] - spans[i], frames.time[i - 1]);
  }
  assert.ok(Math.abs(total - 5000) < 1);
});

test('keeps its memory over an hour of ten frames per second', () => {
  const run = new Run(small());
  const links = [[0, 1e6, 1000, 1, 0.001, 1e6, 1000, 1, 0.001]];
  const at = [0, 1].map((hour) => {
    for (let i = 1; i <= 36_000; i += 1) run.add(empty((hour * 36_000 + i) / 10, { links }));
    return run.frames.bytes;
  });
  assert.equal(at[0], at[1]);
  assert.ok(at[0] < 2e6, `${at[0]} bytes`);
  assert.ok(Math.max(...run.frames.span.subarray(0, run.frames.length)) < 8);
});

test('bounds the memory of large networks', () => {
  const run = new Run(large());
  assert.ok(run.frames.capacity >= 256);
  assert.ok(run.frames.capacity * run.frames.width * 4 <= 100 * 2 ** 20);
});

test('marks gaps and unknown values in series', () => {
  const frames = new Frames(Uint8Array.of(MEAN, SUM), 8);
  frames.add(1, 0.5).set([5, 2]);
  frames.add(1.5, 0.5).set([NaN, 0]);
  frames.add(4, 0.5).set([7, 1]);
  const [times, mean, sum] = frames.series([0, 1], 0, 10);
  assert.deepEqual(times, [1, 1.5, 2.5, 4]);
  assert.deepEqual(mean, [5, NaN, NaN, 7]);
  assert.deepEqual(sum, [4, 0, NaN, 2], 'counts are per second');
});

test('returns the configuration and program states of any moment', () => {
  const run = new Run(small());
  const { rate_bps, ...rest } = run.hello.links[1];
  run.add(empty(1, { programs: [[0, 'running', null]] }));
  run.add(empty(2, { changes: [{ ...rest, link: 1, rate_bps: [5e6, 1e7], up: false }] }));
  run.add(empty(3, { programs: [[0, 'failed', 1]] }));
  assert.deepEqual(run.config.at(3)[1].rate_bps, [5e6, 1e7]);
  assert.deepEqual(run.config.at(1)[1].rate_bps, rate_bps);
  assert.equal(run.config.at(2)[1].up, false);
  assert.deepEqual(
    [0, 1, 2.5, 3].map((t) => run.programs.at(t)[0].state),
    ['waiting', 'running', 'running', 'failed'],
  );
});

test('bounds the number of changes and keeps their result', () => {
  const history = new History([0]);
  for (let i = 1; i <= 50_000; i += 1) history.add(i, 0, i);
  assert.equal(history.at(50_000)[0], 50_000);
  assert.equal(history.at(49_000)[0], 49_000);
  assert.ok(history.at(0)[0] > 0, 'the oldest changes are one value');
});

test('keeps data after a reconnection and adds what changed meanwhile', () => {
  const run = new Run(small());
  run.add(empty(1, { events: [{ at: 0.9, text: 'a' }] }));
  const again = small();
  again.links[1].rate_bps = [2e6, 2e6];
  assert.ok(run.isSame(again));
  run.resume(again);
  run.add(
    empty(1, {
      events: [
        { at: 0.9, text: 'a' },
        { at: 0.95, text: 'b' },
      ],
    }),
  );
  assert.equal(run.frames.length, 1, 'a frame that is already there');
  run.add(empty(5));
  assert.deepEqual(
    run.events.map(({ text }) => text),
    ['a', 'b'],
  );
  assert.deepEqual(run.config.last()[1].rate_bps, [2e6, 2e6]);
  assert.deepEqual(run.config.at(1)[1].rate_bps, [1e7, 1e7]);
  assert.ok(!run.isSame(small({ run: 'runs/other' })));
});

test('sorts events by time and bounds their number', () => {
  const run = new Run(small());
  run.add(
    empty(1, {
      events: [
        { at: 0.9, text: 'late' },
        { at: 0.2, text: 'early' },
      ],
    }),
  );
  assert.deepEqual(
    run.events.map(({ text }) => text),
    ['early', 'late'],
  );
  for (let i = 0; i < 12_000; i += 1) {
    run.add(
      empty(2 + i / 10, { log: [{ at: 2 + i / 10, level: 'info', source: 'x', text: `${i}` }] }),
    );
  }
  assert.ok(run.log.length <= 5000);
  assert.equal(run.forgotten + run.log.length, 12_000);
  assert.equal(run.log.at(-1).text, '11999');
});

test('names speeds, steps and virtual times', () => {
  assert.deepEqual([1, 1000, 100_000, 0].map(speed), ['0.001x', '1x', '100x', 'max']);
  assert.deepEqual(steps(0.1), [0.001, 0.01, 0.1, 1, 10]);
  assert.deepEqual(steps(0.025), [0.001, 0.01, 0.025, 0.1, 1, 10]);
  assert.deepEqual([0, 1.5, 1.050000001].map(precise), ['0.000 s', '1.500 s', '1.050000001 s']);
});

test('writes changes as the terminal does', () => {
  const event = '\n[[at]]\ntime = "4 s"\nlink = "core"\nset = { delay = "100 ms" }\n';
  const mark = '\n# 5 s: mark "healed"\n';
  const expected = readFileSync(new URL('changes.toml', import.meta.url), 'utf8');
  assert.equal(changesFile('two "words"', [event, mark]), expected);
});

test('formats values with units', () => {
  const cases = [
    [format.rate(9.4e6), '9.4 Mbit/s'],
    [format.rate(0), '0 bit/s'],
    [format.rate(null), 'unlimited'],
    [format.rate(999_900), '1 Mbit/s'],
    [format.bytes(60_000), '60 kB'],
    [format.bytes(1536), '1.54 kB'],
    [format.duration(2.1e-4), '210 µs'],
    [format.duration(0.02), '20 ms'],
    [format.duration(NaN), '–'],
    [format.percent(1), '100 %'],
    [format.percent(0.0005), '0.05 %'],
    [format.percent(0), '0 %'],
    [format.moment(12.34), '12.3 s'],
    [format.moment(125), '2:05.0'],
    [format.moment(3725), '1:02:05'],
    [format.seconds(100), '100'],
    [format.seconds(0.1 + 0.2), '0.3'],
    [format.plural(1, 'link'), '1 link'],
    [format.plural(5000, 'link'), '5,000 links'],
    [format.tick(10), '10 s'],
    [format.tick(90), '1:30'],
  ];
  for (const [got, expected] of cases) assert.equal(got, expected);
});

test('rejects messages that are none, and ignores unknown types', () => {
  assert.equal(parse('{"type":"later"}'), null);
  assert.equal(parse('null'), null);
  assert.throws(() => parse('{'));
  assert.throws(() => parse('{"type":"frame","t":null,"span":0.1}'), /without time/);
  assert.throws(() => parse('{"type":"hello","schema":"netarium.watch/2"}'), /netarium.watch\/2/);
});

test('classifies utilisation as the report does', () => {
  const classes = [0, 0.1, 0.2, 0.5, 0.8, 0.95, 1].map((share) =>
    utilisationClass(share * 1e7, 1e7),
  );
  assert.deepEqual(classes, ['none', 'u0', 'u1', 'u2', 'u3', 'u4', 'u4']);
  assert.equal(utilisationClass(5, null), 'ux');
});

const view = { width: 760, height: 414, zoom: 1, x: 0.5, y: 0.5 };

test('draws labels of 50 nodes without overlap', () => {
  const run = new Run(medium());
  const { labels, radius, x, y } = place(run, view);
  assert.ok(labels.length >= 40, `${labels.length} labels`);
  const boxes = labels.map(({ node, x, y, anchor }) => {
    const width = run.hello.nodes[node].name.length * 6.5;
    const left = anchor === 'middle' ? x - width / 2 : anchor === 'start' ? x : x - width;
    return [left, y - 10, left + width, y + 3];
  });
  const apart = (a, b) => a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
  boxes.forEach((box, i) => {
    boxes.slice(i + 1).forEach((other) => assert.ok(apart(box, other), `${labels[i].node}`));
    x.forEach((cx, n) =>
      assert.ok(apart(box, [cx - radius, y[n] - radius, cx + radius, y[n] + radius])),
    );
  });
});

test('draws 5,000 links as few strokes', () => {
  const lab = large();
  const run = new Run(lab);
  run.add(frame(lab, lab.links, 0.1, 0.1, true));
  const geometry = place(run, view);
  assert.equal(geometry.labels.length, 0);
  const strokes = linkStrokes(run, geometry, run.frames, 0, run.config.at(0.1));
  assert.ok(strokes.length < 40, `${strokes.length} strokes`);
  const lines = strokes.filter((s) => /^(u\d|ux|none)$/.test(s.class)).flatMap((s) => s.lines);
  assert.equal(lines.length, 4 * 5000);
});

test('draws down links dashed and queues at the sender', () => {
  const run = new Run(small());
  const down = { ...run.hello.links[0], link: 0, up: false };
  run.add(empty(0.1, { links: [[1, 0, 0, 0, 0, 1e7, 30000, 4, 0.02]], changes: [down] }));
  const geometry = place(run, view);
  const strokes = linkStrokes(run, geometry, run.frames, 0, run.config.at(0.1));
  const path = (name) =>
    pathOf(strokes.filter((s) => s.class === name).flatMap((s) => s.lines));
  assert.match(path('down'), /^M/);
  assert.match(path('u4'), /^M/);
  assert.match(path('drops'), /^M/);
  // Direction 1 leaves r2, at the right; half of the queue is full.
  const [, x1, , x2] = /^M([\d.]+) ([\d.]+)L([\d.]+)/.exec(path('queue')).map(Number);
  assert.ok(x1 > geometry.x[3] - 20 && x1 < geometry.x[3] && x2 < x1);
  near(x1 - x2, 22);
});

test('finds the link and node at a point, and neighbours by direction', () => {
  const run = new Run(small());
  const geometry = place(run, view);
  const { x, y } = geometry;
  assert.deepEqual(hit(geometry, x[2] + 3, y[2]), { kind: 'node', index: 2 });
  assert.deepEqual(hit(geometry, (x[0] + x[2]) / 2, y[0] + 2), { kind: 'link', index: 0 });
  assert.equal(hit(geometry, 1, 1), null);
  assert.equal(neighbour(geometry, 0, 1, 0), 2);
  assert.equal(neighbour(geometry, 0, -1, 0), 0);
});

test('shows the most important program state of a node', () => {
  const run = new Run(small());
  run.hello.programs[1].node = 1;
  run.add(
    empty(0.1, {
      programs: [
        [0, 'failed', 1],
        [1, 'running', null],
      ],
    }),
  );
  assert.deepEqual(nodeStates(run, run.programs.last()), [
    undefined,
    'failed',
    undefined,
    undefined,
  ]);
});

test('sorts, filters and relates rows of tables', () => {
  const run = new Run(small());
  run.add(
    empty(0.1, {
      links: [[1, 5e6, 0, 0, 0, 1e6, 0, 0, 0]],
      flows: [
        [0, 7, null, 0],
        [1, 5, 0.1, 0],
      ],
    }),
  );
  const links = rows(run, 'links', 0, null);
  assert.equal(links.length, 8);
  assert.deepEqual(arrange(links, '', { column: 3, down: true })[0].cells.slice(0, 2), [
    'core',
    'r1 → r2',
  ]);
  assert.equal(arrange(links, 'R2 right', { column: 0, down: false }).length, 2);
  const flows = arrange(rows(run, 'flows', 0, null), '', { column: 5, down: true });
  assert.deepEqual(
    flows.map(({ cells }) => cells[0]),
    ['voice', 'bulk'],
    'unknown values are last',
  );
  assert.equal(rows(run, 'flows', 0, { kind: 'link', index: 3 }).length, 0);
  assert.equal(rows(run, 'links', 0, { kind: 'node', index: 0 }).length, 2);
  assert.equal(rows(run, 'programs', 0, { kind: 'node', index: 0 }).length, 1);
});

test('draws at most eight series', () => {
  const lab = medium();
  const run = new Run(lab);
  run.add(frame(lab, lab.links, 0.1, 0.1, true));
  const [plot] = plotsFor(run, null);
  assert.equal(plot.series.length, 8);
  assert.match(plot.note, /8 of 12/);
  assert.equal(plotsFor(run, { kind: 'link', index: 0 }).length, 4);
});

test('series and states of systems', () => {
  const run = new Run(small());
  run.add(empty(0.1, { series: [[1, 0.004], [5, 1e6], [99, 1], [-1, 1]], states: [[0, 'delay']] }));
  run.add(empty(0.2, { states: [[0, 'learning']] }));
  const [delay, rate] = systemPlots(run, 0);
  assert.deepEqual(
    delay.series.map(({ label }) => label),
    ['at the sendbox', 'in the network'],
  );
  assert.equal(delay.format(0.004), '4 ms');
  const values = ({ series }, frame) => series.map(({ column }) => run.frames.value(frame, column));
  assert.ok(Number.isNaN(values(delay, 0)[0]), 'without a value');
  near(values(delay, 0)[1], 0.004);
  assert.ok(values(delay, 1).every(Number.isNaN));
  assert.ok(values(rate, 0).every(Number.isNaN));
  const [paths] = systemPlots(run, 1);
  assert.ok(paths.stacked);
  assert.equal(values(paths, 0)[1], 1e6);
  assert.deepEqual([...run.states.at(0.15)], ['delay', '']);
  assert.equal(run.states.last()[0], 'learning');
  assert.deepEqual(systemPlots(run, 9), []);
  assert.deepEqual(systemPlots(new Run(medium()), 0), []);
});

test('stacks values', () => {
  const data = [
    [1, 2, 3],
    [1, NaN, NaN],
    [10, 20, NaN],
  ];
  assert.deepEqual(stack(data).slice(1), [
    [1, 0, NaN],
    [11, 20, NaN],
  ]);
  assert.deepEqual(nulls(data)[1], [1, null, null]);
});
