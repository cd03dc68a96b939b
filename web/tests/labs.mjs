// Labs for the mock server: their `hello`, and frames with plausible values of any moment.

/** A fraction in 0..1 from an integer, always the same. */
const noise = (n) => {
  const x = Math.sin(n * 12.9898 + 78.233) * 43758.5453;
  return x - Math.floor(x);
};

const MBIT = 1e6;

function hello(lab, nodes, links, flows, programs, rest = {}) {
  return {
    type: 'hello',
    schema: 'netarium.watch/1',
    lab,
    seed: 1,
    clock: 'wall',
    source: 'live',
    duration_s: 30,
    interval_s: 0.1,
    version: '0.1.0',
    run: `runs/${lab}-ab12cd`,
    read_only: false,
    commands: ['set', 'mark', 'terminal'],
    nodes,
    links,
    flows,
    programs,
    ...rest,
  };
}

const link = (name, a, b, mbit, delay) => ({
  name,
  ends: [a, b],
  ifaces: ['eth0', 'eth0'],
  rate_bps: mbit ? [mbit * MBIT, mbit * MBIT] : [null, null],
  delay_s: [delay, delay],
  loss: [0, 0],
  queue_bytes: mbit ? [mbit * 6000, mbit * 6000] : [null, null],
  up: true,
});

/** Two hosts and two routers. */
export function small(rest) {
  const nodes = [
    { name: 'alice', role: 'host', x: 0, y: 0.5 },
    { name: 'bob', role: 'host', x: 1, y: 0.5 },
    { name: 'r1', role: 'router', x: 0.33, y: 0.5 },
    { name: 'r2', role: 'router', x: 0.67, y: 0.5 },
  ];
  const links = [
    link('left', 0, 2, 100, 0.001),
    link('core', 2, 3, 10, 0.02),
    link('right', 3, 1, 100, 0.001),
    link('backup', 2, 3, 2, 0.08),
  ];
  const flows = [
    {
      name: 'bulk',
      from: 0,
      to: 1,
      kind: 'bulk',
      path: [
        [0, 0],
        [1, 0],
        [2, 0],
      ],
    },
    {
      name: 'voice',
      from: 1,
      to: 0,
      kind: 'constant rate',
      path: [
        [2, 1],
        [1, 1],
        [0, 1],
      ],
    },
  ];
  const programs = [
    { name: 'server', node: 1 },
    { name: 'client', node: 0 },
  ];
  const plot = (title, unit, series, stacked = false) => ({ title, unit, stacked, series });
  const systems = [
    {
      name: 'site',
      kind: 'bundler',
      plots: [
        plot('Queueing delay', 's', ['at the sendbox', 'in the network']),
        plot('Rate', 'bit/s', ['pacing', 'received']),
      ],
    },
    {
      name: 'bulk',
      kind: 'mctcp',
      plots: [plot('Received by path', 'bit/s', ['core', 'backup'], true)],
    },
  ];
  return hello('dumbbell', nodes, links, flows, programs, { systems, ...rest });
}

/** A core of four routers and 46 hosts in a ring around it. */
export function medium(rest) {
  const nodes = [];
  const links = [];
  for (let i = 0; i < 4; i += 1) {
    const angle = ((i + 0.5) / 4) * 2 * Math.PI;
    nodes.push({
      name: `core${i + 1}`,
      role: i % 2 ? 'switch' : 'router',
      x: 0.5 + 0.2 * Math.cos(angle),
      y: 0.5 + 0.2 * Math.sin(angle),
    });
    links.push(link(`core${i + 1}-core${((i + 1) % 4) + 1}`, i, (i + 1) % 4, 1000, 0.005));
  }
  for (let i = 0; i < 46; i += 1) {
    const angle = (i / 46) * 2 * Math.PI;
    nodes.push({
      name: `host-${i + 1}`,
      role: 'host',
      x: 0.5 + 0.5 * Math.cos(angle),
      y: 0.5 + 0.5 * Math.sin(angle),
    });
    links.push(
      link(
        `access-${i + 1}`,
        i + 4,
        Math.floor((i / 46) * 4) % 4,
        [10, 100, 1000, 0][i % 4],
        0.001,
      ),
    );
  }
  const flows = Array.from({ length: 12 }, (_, i) => {
    const [from, to] = [4 + i, 4 + ((i + 23) % 46)];
    return {
      name: `flow-${i + 1}`,
      from,
      to,
      kind: 'bulk',
      path: [
        [from, 0],
        [i % 4, 0],
        [to, 1],
      ],
    };
  });
  const programs = Array.from({ length: 20 }, (_, i) => ({
    name: `iperf-${i + 1}`,
    node: 4 + i * 2,
  }));
  return hello('campus', nodes, links, flows, programs, { duration_s: null, ...rest });
}

/** A grid with shortcuts to near nodes. */
export function large(count = 1000, edges = 5000, rest = {}) {
  const side = Math.ceil(Math.sqrt(count));
  const nodes = Array.from({ length: count }, (_, i) => ({
    name: `n${i}`,
    role: i % 7 ? 'host' : 'router',
    x: ((i % side) + 0.6 * noise(i)) / side,
    y: (Math.floor(i / side) + 0.6 * noise(i + 9e4)) / side,
  }));
  const links = Array.from({ length: edges }, (_, i) => {
    const a = i % count;
    const step = [1, side, side + 1, 2, 2 * side][Math.floor(i / count) % 5];
    return link(`l${i}`, a, (a + step) % count, [10, 100, 1000][i % 3], 0.002);
  });
  const flows = Array.from({ length: 200 }, (_, i) => ({
    name: `f${i}`,
    from: i,
    to: (i + 1) % count,
    kind: 'bulk',
    path: [[i, 0]],
  }));
  const programs = Array.from({ length: 100 }, (_, i) => ({ name: `p${i}`, node: i * 7 }));
  return hello('grid', nodes, links, flows, programs, { duration_s: null, ...rest });
}

/** A frame at `t`; `links` are those of the lab after changes. */
export function frame(lab, links, t, span, first) {
  const busy = (i, d, rate) => {
    const share = Math.max(
      0,
      0.62 + 0.5 * Math.sin(t / 4 + i * 1.7 + d * 2) * (d ? 0.4 : 1) - (d ? 0.45 : 0.1),
    );
    return Math.min(1, share) * (rate ?? 50 * MBIT);
  };
  const sample = (i, d) => {
    const { rate_bps, queue_bytes } = links[i];
    const rate = Math.round(busy(i, d, rate_bps[d]));
    const full = rate_bps[d] ? Math.max(0, rate / rate_bps[d] - 0.8) * 5 : 0;
    const queue = Math.round(full * (queue_bytes[d] ?? 0));
    const drops = full > 0.9 ? Math.round(10 * noise(Math.round(t * 10) + i)) : 0;
    return [rate, queue, drops, rate_bps[d] ? Math.round((queue * 8e6) / rate_bps[d]) / 1e6 : 0];
  };
  const tick = Math.round(t / span);
  const states = ['running', 'ready', 'running', 'exited', 'failed', 'waiting'];
  const result = {
    type: 'frame',
    t,
    span,
    links: links.flatMap(({ up }, i) => (up ? [[i, ...sample(i, 0), ...sample(i, 1)]] : [])),
    flows: lab.flows.map(({ path }, i) => {
      const [hop, direction] = path[1] ?? path[0];
      const rate = links[hop].up
        ? (busy(hop, direction, links[hop].rate_bps[direction]) * 0.93) / (1 + (i % 3))
        : 0;
      const rtt = rate ? 2 * links[hop].delay_s[0] + 0.004 + 0.01 * noise(tick + i) : null;
      return [
        i,
        Math.round(rate),
        rtt && Math.round(rtt * 1e6) / 1e6,
        noise(tick + i) > 0.97 ? 2 : 0,
      ];
    }),
    machine: { late_p50_s: 1.4e-5, late_p99_s: 2.1e-4, late_max_s: 3e-3, trusted: true },
  };
  if (lab.systems) {
    const wave = (i) => 1 + Math.sin(t / 3 + i);
    result.series = [
      [0, 0.02 * wave(0)],
      [1, 0.004 * wave(2)],
      [2, 6e6 * wave(1)],
      [3, 5.5e6 * wave(1)],
      [4, 3e6 * wave(0)],
      [5, 1e6 * wave(3)],
    ];
    if (first) result.states = [[0, 'delay']];
  }
  if (first) {
    result.programs = lab.programs.map((_, i) => [
      i,
      states[i % 6],
      states[i % 6] === 'exited' ? 0 : states[i % 6] === 'failed' ? 1 : null,
    ]);
    result.events = [{ at: t, text: 'run started' }];
  }
  if (tick % 50 === 0) {
    result.log = [
      {
        at: t,
        level: tick % 100 ? 'info' : 'warning',
        source: 'alice/client',
        text: `connection ${tick / 50} took ${(20 + 9 * noise(tick)).toFixed(1)} ms`,
      },
    ];
  }
  return result;
}
