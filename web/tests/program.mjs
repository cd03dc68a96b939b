// The page in Chromium, from the program itself: a lab that is changed while it runs, its replay, and
// a run on the virtual clock. The program is $NETARIUM_BINARY. Skips where labs are not possible, an
// error in CI.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { accessible, fits, open, row, run, until } from './page.mjs';

const BINARY = process.env['NETARIUM_BINARY'];
/** The delay that a test adds, in both directions. */
const ADDED_MS = 100;
const LAB = `
[lab]
name = "pair"
duration = "60 s"
[node.alice]
[node.bob]
[node.r1]
kind = "router"
[[link]]
name = "left"
ends = ["alice", "r1"]
rate = "10 Mbit/s"
delay = "1 ms"
[[link]]
name = "right"
ends = ["r1", "bob"]
delay = "1 ms"
[[flow]]
name = "ping"
from = "alice"
to = "bob"
request = "64 B"
response = "1 kB"
interval = "20 ms"
`;

/** With a program, which is not possible on the virtual clock. */
const LIVE_LAB = `${LAB.replace('60 s', '1 h')}
[[program]]
name = "server"
node = "bob"
run = "while :; do sleep 1; done"
service = true
`;

const folder = mkdtempSync(join(tmpdir(), 'nt'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, 'pair.toml'), LAB);
writeFileSync(join(folder, 'live.toml'), LIVE_LAB);
const inherited = Object.entries(process.env).filter(([name]) => !/^(NETARIUM_|DISPLAY)/.test(name));
const options = {
  cwd: folder,
  env: { ...Object.fromEntries(inherited), XDG_RUNTIME_DIR: folder, LC_ALL: 'C', SHELL: '/bin/sh' },
  stdio: ['ignore', 'pipe', 'inherit'],
};
const netarium = (...args) => JSON.parse(execFileSync(BINARY, [...args, '--json'], options));

/** Why labs cannot run here; empty if they can. */
function whyNoLabs() {
  if (!BINARY) return 'NETARIUM_BINARY is not set';
  const doctor = spawnSync(BINARY, ['doctor', '--quick', '--json'], options);
  if (doctor.error) return String(doctor.error);
  const { findings } = JSON.parse(doctor.stdout);
  const bad = findings.filter(({ level }) => level === 'bad');
  return bad.map(({ text }) => text).join('; ');
}

/** Starts a command that prints a URL; `objects` has what it printed so far. */
async function start(...args) {
  const child = spawn(BINARY, [...args, '--json'], options);
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const objects = [];
  for await (const line of createInterface({ input: child.stdout })) {
    objects.push(JSON.parse(line));
    const { url } = objects.at(-1);
    // Ends with the test, also with one that fails.
    process.on('exit', () => child.kill('SIGKILL'));
    if (url) return { url, objects, ended, interrupt: () => child.kill('SIGINT') };
  }
  throw new Error(`${args.join(' ')} printed no URL`);
}

/** The RTT of requests in the table of flows, in ms; null without a value in this range. */
const shownRtt = ([least, below]) => {
  const rows = [...document.querySelectorAll('#table tbody tr')];
  const cells = rows.find((each) => each.textContent.includes('ping'))?.querySelectorAll('td');
  const match = /^([\d.]+) (µs|ms|s)$/.exec(cells?.[5]?.textContent.trim()) ?? [];
  const value = match[1] * { µs: 1e-3, ms: 1, s: 1e3 }[match[2]];
  return value >= least && value < below ? value : null;
};
/** Waits for an RTT of at least `least` ms. */
const rttOf = async (page, least) => (await until(page, shownRtt, [least, 1e9])).jsonValue();

/** Moves the slider to an end of the run, then back until the RTT is in a range. */
async function slideTo(page, end, back, range) {
  await page.getByRole('slider', { name: 'Moment shown' }).focus();
  await page.keyboard.press(end);
  for (let moves = 0; moves < 500; moves += 1) {
    const found = await page.evaluate(shownRtt, range);
    if (found !== null) return found;
    await page.keyboard.press(back);
  }
  throw new Error(`no moment has an RTT in ${range} ms`);
}

async function changesRealLabAndReplaysIt() {
  const view = await start('up', 'live.toml', '--watch');
  const { folder: results } = view.objects.find((object) => object.folder);
  const { page, errors } = await open(view.url, { width: 1200 });
  assert.equal((await fetch(view.url)).status, 403, 'the token is valid twice');
  try {
    await changes(page);
    await stopsAndStartsProgram(page);
    await savesChanges(page);
    await usesTerminal(page);
    await refusesTerminals();
  } finally {
    netarium('down', 'pair');
  }
  const record = JSON.parse(readFileSync(join(results, 'run.json'), 'utf8'));
  const outcomes = { passed: 'Passed', failed: 'Failed', untrusted: 'Not trusted' };
  const outcome = outcomes[record.outcome];
  await page.locator('header').getByText(outcome, { exact: true }).first().waitFor();
  await page.getByText('The run ended: changes are not possible.').waitFor();
  assert.deepEqual(errors, []);
  await page.close();
  view.interrupt();
  await view.ended;
  assert.ok(record.events.some(({ text }) => text === 'mark: slower'));
  await replays(results, outcome);
}

/** Changes the delay of a link in the page of a running lab, and sets a mark. */
async function changes(page) {
  const names = await page.locator('.nodes text:not(.link)').allTextContents();
  assert.deepEqual(names.map((name) => name.trim()).sort(), ['alice', 'bob', 'r1']);
  await page.getByRole('tab', { name: /^Flows/ }).click();
  const before = await rttOf(page, 1e-3);
  await page.getByRole('tab', { name: /^Links/ }).click();
  await row(page, 'right').click();
  await page.getByRole('heading', { name: 'Time series of link right' }).waitFor();
  await until(page, () => /[1-9].*bit\/s/.test(document.querySelector('.series b').textContent));
  await accessible(page);
  await page.getByLabel('Delay', { exact: true }).fill(`${ADDED_MS} ms`);
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.locator('.replies .good').filter({ hasText: 'Applied at' }).waitFor();
  await page.getByRole('tab', { name: /^Flows/ }).click();
  // The shown RTT is smoothed: it comes close to the added delay of both directions.
  const after = await rttOf(page, ADDED_MS);
  console.log(`RTT of requests: ${before} ms, after the change ${after} ms`);
  await page.getByRole('textbox', { name: 'Mark' }).fill('slower');
  await page.keyboard.press('Enter');
  await page.locator('.log').getByText('mark: slower').waitFor();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await fits(page, 'a running lab');
  await accessible(page);
}

/** Stops a program with the keyboard, and starts it with the pointer. */
async function stopsAndStartsProgram(page) {
  await page.getByRole('tab', { name: /^Programs/ }).click();
  await row(page, 'server').click();
  await page.getByRole('button', { name: 'Stop program server' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Stop program server?' });
  await dialog.waitFor();
  await accessible(page);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await page.keyboard.press('Enter');
  await dialog.waitFor();
  await page.keyboard.press('Enter');
  const reply = (text) => page.locator('.replies .good').filter({ hasText: text }).waitFor();
  await reply('program server is stopped');
  await page.getByRole('button', { name: 'Start program server' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Start' }).click();
  await reply('program server starts');
  await page.locator('.log').getByText('program server starts').first().waitFor();
}

/** The saved changes are events that a lab file accepts. */
async function savesChanges(page) {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: /^Save 4 changes/ }).click(),
  ]);
  const saved = readFileSync(await download.path(), 'utf8');
  const delay = `link = "right"\nset = { delay = "${ADDED_MS} ms" }\n`;
  const parts = [delay, 'mark "slower"\n', 'program = "server"\nstop = true\n', 'start = true\n'];
  for (const part of parts) assert.ok(saved.includes(part), `${part} in ${saved}`);
  writeFileSync(join(folder, 'saved.toml'), LIVE_LAB + saved);
  execFileSync(BINARY, ['check', 'saved.toml'], options);
}

/** A shell on a host: its network, its size, and its end with the terminal. */
async function usesTerminal(page) {
  await page.setViewportSize({ width: 1200, height: 900 });
  await page.locator('.picture').focus();
  const selected = () => page.locator('.details [role=status]').textContent();
  for (let moves = 0; (await selected()) !== 'node alice'; moves += 1) {
    assert.ok(moves < 9, 'arrow keys do not reach alice');
    await page.keyboard.press(moves === 0 ? 'ArrowRight' : 'ArrowLeft');
  }
  await page.getByRole('button', { name: 'Open a terminal' }).click();
  const output = page.locator('.xterm-accessibility-tree');
  const shows = (text) => output.getByText(text).first().waitFor();
  const enter = async (command) => {
    await page.keyboard.type(command);
    await page.keyboard.press('Enter');
  };
  await shows('shell on alice');
  await enter('echo "on $(hostname), process $$."');
  await shows(/^on alice, process \d+\.$/);
  await enter('ping -c 1 bob');
  await shows('1 packets transmitted, 1 received, 0% packet loss');
  await enter('stty size');
  await shows(/^\d+ 1\d\d$/);
  await page.setViewportSize({ width: 700, height: 844 });
  await enter('clear; stty size');
  await shows(/^\d+ [6-9]\d$/);
  await accessible(page);
  const running = processes().filter(({ words }) => words.startsWith(`${BINARY} shell `));
  assert.equal(running.length, 1);
  const shells = processes().filter(({ parent }) => parent === running[0].pid);
  assert.equal(shells.length, 1);
  await page.getByRole('button', { name: 'Close alice' }).click();
  const left = () => processes().some(({ pid }) => [running[0].pid, shells[0].pid].includes(pid));
  while (left()) await page.waitForTimeout(50);
}

/** Processes of this machine, each with its parent and command line. */
function processes() {
  const list = execFileSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8' });
  return list.trim().split('\n').map((line) => {
    const [pid, parent, ...words] = line.trim().split(/ +/);
    return { pid, parent, words: words.join(' ') };
  });
}

/** A read-only page of the same lab has no terminals. */
async function refusesTerminals() {
  const view = await start('watch', 'pair', '--read-only', '--no-open');
  const { page, errors } = await open(view.url);
  await page.locator('.picture').focus();
  for (const key of ['ArrowRight', 't']) await page.keyboard.press(key);
  await page.getByText(/^node /).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Open a terminal' }).count(), 0);
  assert.equal(await page.getByRole('region', { name: 'Terminals' }).count(), 0);
  const connect = () =>
    new Promise((resolve) => {
      const socket = new WebSocket(`ws://${location.host}/terminal`);
      socket.onclose = ({ code, reason }) => resolve(`${code} ${reason}`);
    });
  assert.equal(await page.evaluate(connect), '1008 the live view is read-only');
  assert.deepEqual(errors, []);
  await page.close();
  view.interrupt();
  await view.ended;
}

async function replays(results, outcome) {
  const view = await start('watch', results, '--no-open');
  const { page, errors } = await open(view.url, { width: 390, height: 844 });
  await page.locator('header').getByText(outcome, { exact: true }).first().waitFor();
  await page.getByRole('tab', { name: /^Flows/ }).click();
  const last = await slideTo(page, 'End', 'ArrowLeft', [ADDED_MS, 1e9]);
  // Before the change, the RTT was lower.
  await slideTo(page, 'Home', 'ArrowRight', [1e-3, last]);
  assert.match(await page.locator('.moment').textContent(), / of /);
  await page.locator('.log').getByText('mark: slower').waitFor();
  await fits(page, 'a finished run');
  await accessible(page);
  assert.deepEqual(errors, []);
  await page.close();
  view.interrupt();
  await view.ended;
}

/** A run on the virtual clock: the page sets its pace, and changes a link. */
async function stepsVirtualRun() {
  const view = await start('sim', 'pair.toml', '--watch');
  const { page, errors } = await open(view.url, { width: 1200 });
  const clock = page.getByRole('region', { name: 'Virtual clock' });
  await clock.getByRole('button', { name: 'Pause run' }).click();
  await clock.getByRole('button', { name: 'Continue run' }).waitFor();
  const paused = () => document.querySelector('.clock output').textContent.includes(', paused');
  await until(page, paused);
  const now = async () => Number(/[\d.]+/.exec(await clock.locator('output').textContent())[0]);
  const before = await now();
  await page.locator('h1').click();
  await page.keyboard.press('.');
  const after = (before + 0.1).toFixed(9).replace(/0{1,6}$/, '');
  await clock.getByText(`Virtual time ${after} s, paused`).waitFor();
  await row(page, 'right').click();
  await page.getByLabel('Delay', { exact: true }).fill(`${ADDED_MS} ms`);
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.locator('.replies .good').filter({ hasText: 'Applied at' }).waitFor();
  await accessible(page);
  await clock.getByLabel('Run speed').selectOption('max');
  await page.locator('h1').click();
  await page.keyboard.press(' ');
  await page.locator('header').getByText('Passed', { exact: true }).first().waitFor();
  await page.getByRole('tab', { name: /^Flows/ }).click();
  await slideTo(page, 'End', 'ArrowLeft', [2 * ADDED_MS, 1e9]);
  assert.deepEqual(errors, []);
  await page.close();
  assert.equal(await view.ended, 0);
}

const why = whyNoLabs();
if (why && process.env['CI'] === 'true') throw new Error(`CI must not skip: ${why}`);
if (why) console.log(`SKIPPED the page of a real lab: ${why}`);
if (BINARY) await run(...(why ? [] : [changesRealLabAndReplaysIt]), stepsVirtualRun);
else await run();
