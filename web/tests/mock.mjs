// A server of the protocol `netarium.watch/1` with generated values, for tests and for work on the
// page: `node tests/mock.mjs small|medium|large|finished|virtual [PORT]`.

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { WebSocketServer } from 'ws';
import { frame, large, medium, small } from './labs.mjs';

const DIST = new URL('../dist/', import.meta.url);
const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript', css: 'text/css' };
const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
};

const FACTORS = {
  bit: 1,
  kbit: 1e3,
  Mbit: 1e6,
  Gbit: 1e9,
  B: 1,
  kB: 1e3,
  MB: 1e6,
  s: 1,
  ms: 1e-3,
  '%': 0.01,
};
const PLACES = { rate: 'rate_bps', delay: 'delay_s', loss: 'loss', queue: 'queue_bytes' };

/** Starts the server; `received` has the messages of pages, `drop()` closes their connections. */
export async function serve(lab, { port = 0, interval = 100, frames = 300 } = {}) {
  const links = structuredClone(lab.links);
  const received = [];
  let changes = [];
  let events = [];
  let [tick, open] = [0, true];
  const span = interval / 1000;
  const clock = { type: 'clock', now: 0, is_paused: false, permille: 1000 };

  const server = createServer(async (request, response) => {
    const name = request.url === '/' ? 'index.html' : request.url.slice(1);
    const type = /^[a-z]+\.(html|js|css)$/.exec(name)?.[1];
    const body = type && (await readFile(new URL(name, DIST)).catch(() => null));
    response.writeHead(body ? 200 : 404, {
      ...HEADERS,
      'Content-Type': TYPES[type] ?? 'text/plain',
    });
    response.end(body || 'not found');
  });
  const sockets = new WebSocketServer({ noServer: true });
  const terminals = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    const to = request.url === '/ws' ? sockets : terminals;
    to.handleUpgrade(request, socket, head, (each) => to.emit('connection', each));
  });
  const send = (socket, message) => socket.send(JSON.stringify(message));

  function set({ id, fields }) {
    const at = `\n[[at]]\ntime = "${tick * span} s"\nlink =`;
    const [wanted, texts] = [[], []];
    for (const [field, text] of fields) {
      const [, name, direction, key] = /^link\.(.+?)(?:\.(up|down))?\.([a-z]+)$/.exec(field) ?? [];
      const index = links.findIndex((link) => link.name === name);
      const [, number, unit] = /^([\d.]+) ?([A-Za-z%]+?)(?:\/s)?$/.exec(text) ?? [];
      const value = Number(number) * FACTORS[unit];
      if (index < 0 || (key !== 'state' && !(value >= 0 && key in PLACES))) {
        const help = 'expected for example `5 Mbit/s`, `20 ms`, `1 %` or `64 kB`';
        return {
          type: 'answer',
          id,
          ok: false,
          errors: [{ message: `invalid value \`${text}\` of ${field}`, help }],
        };
      }
      wanted.push({ index, direction, key, value, text });
      const action = key === 'state' ? `${text} = true` : `set = { ${key} = "${text}" }`;
      texts.push(`${at} "${name}"\n${action}\n`);
    }
    for (const { index, direction, key, value, text } of wanted) {
      const link = links[index];
      if (key === 'state') link.up = text === 'up';
      else
        link[PLACES[key]] = [0, 1].map((d) =>
          direction === ['down', 'up'][d] ? link[PLACES[key]][d] : value,
        );
      const { rate_bps, delay_s, loss, queue_bytes, up } = link;
      changes.push({ link: index, rate_bps, delay_s, loss, queue_bytes, up });
      events.push({ at: tick * span, text: `${link.name}: ${key} ${text}` });
    }
    return {
      type: 'answer',
      id,
      ok: true,
      at: tick * span,
      events: events.map(({ text }) => text),
      warnings: [],
      at_events: texts.join(''),
    };
  }

  /** Changes the pace of a virtual clock; a step is made at once, as one frame a tick. */
  function change({ do: what, ns, permille }) {
    if (what === 'speed') clock.permille = permille;
    else clock.is_paused = what !== 'resume';
    if (what === 'step') for (let left = ns / 1e6; left > 0; left -= interval) advance();
    for (const socket of sockets.clients) send(socket, clock);
  }

  sockets.on('connection', (socket) => {
    if (!open) return socket.close(1001, 'server stops');
    send(socket, { ...lab, links });
    if (lab.clock === 'virtual') send(socket, clock);
    if (lab.source === 'finished') {
      for (let i = 1; i <= frames; i += 1) {
        const each = frame(lab, links, i * span, span, i === 1);
        if (i === 100) each.events = [{ at: 10, text: 'core: loss 5 %' }];
        send(socket, each);
      }
      const report = `${lab.run}/report.html`;
      send(socket, {
        type: 'end',
        t: frames * span,
        outcome: 'failed',
        reasons: ['flow.bulk.goodput.mean is 4.1 Mbit/s, expected >= 9 Mbit/s'],
        exit_code: 1,
        report,
      });
    }
    socket.fresh = true;
    socket.on('message', (data) => {
      const message = JSON.parse(data);
      received.push(message);
      if (message.type === 'set') send(socket, set(message));
      if (message.type === 'mark') {
        events.push({ at: tick * span, text: `mark: ${message.text}` });
        const [id, at] = [message.id, tick * span];
        const at_events = `\n# ${at} s: mark "${message.text}"\n`;
        send(socket, { type: 'answer', id, ok: true, at, events: [], at_events });
      }
      if (message.type === 'clock') change(message);
    });
  });

  /** A terminal that repeats its input in a colour; Ctrl-D ends it. */
  terminals.on('connection', (socket) => {
    socket.on('message', (data, isBinary) => {
      const text = String(data);
      if (!isBinary) {
        const message = JSON.parse(text);
        received.push(message);
        if (message.type === 'open') socket.send(Buffer.from(`${message.host}> `));
      } else if (text === '\x04') socket.close(1000, 'the shell ended with exit status 0');
      else socket.send(Buffer.from(`\x1b[38;2;90;200;120m${text.replace('\r', '\r\n')}\x1b[0m`));
    });
  });

  function advance() {
    tick += 1;
    clock.now = tick * span;
    if (lab.source === 'finished' || sockets.clients.size === 0) return;
    const each = frame(lab, links, Math.round(tick * span * 1e6) / 1e6, span, false);
    const first = frame(lab, links, each.t, span, true);
    const text = JSON.stringify({ ...each, changes, events });
    for (const socket of sockets.clients) {
      socket.send(socket.fresh ? JSON.stringify({ ...first, events }) : text);
      socket.fresh = false;
    }
    [changes, events] = [[], []];
  }
  const timer = setInterval(() => {
    if (!clock.is_paused) advance();
  }, interval);

  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    received,
    /** Closes connections; new ones are refused until `restore()`. */
    drop() {
      open = false;
      for (const socket of sockets.clients) socket.terminate();
    },
    restore: () => (open = true),
    close() {
      clearInterval(timer);
      for (const socket of [...sockets.clients, ...terminals.clients]) socket.terminate();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

export const LABS = {
  small,
  medium,
  large: () => large(),
  finished: () => small({ source: 'finished' }),
  virtual: () => small({ clock: 'virtual', commands: ['clock', 'mark'] }),
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , name = 'small', port = '0'] = process.argv;
  console.log((await serve(LABS[name](), { port: Number(port) })).url);
}
