// The built page in Debian's Chromium, from the mock server with the content security policy of the
// real one. `--screenshots` writes pictures, `--performance` only measures.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { LABS, serve } from './mock.mjs';
import { accessible, fits, open, row, run, until } from './page.mjs';

const PICTURES_S = 10;
const SCREENSHOTS = new URL('./screenshots/', import.meta.url);

async function watchesLiveLab() {
  const lab = LABS.small();
  const server = await serve(lab);
  const { page, errors } = await open(server.url, { expected: /WebSocket connection to/ });
  const title = await page.title();
  assert.equal(title, 'dumbbell – Netarium');

  // The picture follows `hello`, and values follow frames.
  const names = await page.locator('.nodes text:not(.link)').allTextContents();
  assert.deepEqual(names.map((name) => name.trim()).sort(), ['alice', 'bob', 'r1', 'r2']);
  await until(page, () =>
    [...document.querySelectorAll('.links path')].some(
      (path) => /^u\d/.test(path.getAttribute('class')) && path.getAttribute('d'),
    ),
  );
  await until(page, () => /Mbit\/s/.test(document.querySelector('#table tbody').textContent));
  await until(page, () =>
    /Machine on time: lateness p99 210 µs/.test(document.querySelector('header').textContent),
  );
  const before = await page.locator('.moment').textContent();
  await until(page, (old) => document.querySelector('.moment').textContent !== old, before);
  assert.match(before, /following/);

  // A click between two nodes selects their link; its plots and its form appear.
  const middle = await page.evaluate(() => {
    const [a, b] = ['alice', 'r1'].map((name) =>
      [...document.querySelectorAll('.nodes text')]
        .find((text) => text.textContent.trim() === name)
        .getBoundingClientRect(),
    );
    const circle = document.querySelector('.picture').getBoundingClientRect();
    return { x: (a.x + a.width / 2 + b.x + b.width / 2) / 2, y: circle.y + circle.height / 2 };
  });
  await page.mouse.click(middle.x, middle.y);
  await page.getByRole('heading', { name: 'Time series of link left' }).waitFor();
  assert.equal(await page.locator('[aria-labelledby=plots-title] .plot canvas').count(), 4);
  await until(page, () => /[1-9].*bit\/s/.test(document.querySelector('.series b').textContent));

  // Systems have their own panel, chosen with the keyboard.
  const systems = page.locator('.systems');
  await systems.getByText('state: delay').waitFor();
  await until(page, () => /[1-9].* ms/.test(document.querySelector('.systems .series').textContent));
  const choice = systems.getByLabel('System');
  await choice.focus();
  await choice.selectOption({ label: 'MCTCP: bulk' });
  await page.getByRole('heading', { name: 'MCTCP: bulk' }).waitFor();
  await until(page, () =>
    /core.*Mbit\/s.*backup.*bit\/s/.test(document.querySelector('.systems .series').textContent),
  );
  assert.equal(await systems.locator('canvas').count(), 1);

  // With the keyboard: a node by arrows, then its links.
  await page.locator('.picture').focus();
  for (const key of ['ArrowRight', 'l', 'l']) await page.keyboard.press(key);
  await page.getByRole('heading', { name: 'Time series of link core' }).waitFor();

  // A change is sent, answered and drawn; a wrong one is explained.
  await page.getByLabel('Rate limit').fill('5 Mbit/s');
  await page.getByLabel('Delay', { exact: true }).fill('100 ms');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.locator('.replies .good').filter({ hasText: 'Applied at' }).waitFor();
  assert.deepEqual(server.received.at(-1), {
    type: 'set',
    fields: [
      ['link.core.rate', '5 Mbit/s'],
      ['link.core.delay', '100 ms'],
    ],
    id: 1,
  });
  await until(page, () => /of 5 Mbit\/s/.test(document.querySelector('.details').textContent));
  await page.getByLabel('Loss').fill('many');
  await page.keyboard.press('Enter');
  await page.locator('.replies .bad').filter({ hasText: 'Help: expected for example' }).waitFor();
  await page.getByRole('button', { name: 'Take down' }).click();
  await page.getByRole('button', { name: 'Bring up' }).waitFor();
  await until(page, () => document.querySelector('.links path.down').getAttribute('d'));
  await page.getByRole('textbox', { name: 'Mark' }).fill('link failed');
  await page.keyboard.press('Enter');
  await page.locator('.log').getByText('mark: link failed').waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: /^Save 3 changes/ }).click(),
  ]);
  const saved = await readFile(await download.path(), 'utf8');
  assert.match(
    saved,
    /^# Changes .* "[^"]+".*\n\n\[\[at\]\]\ntime = "[\d.]+ s"\nlink = "core"\nset = \{ rate = "5 Mbit\/s" \}/,
  );
  assert.match(saved, /down = true\n\n# [\d.]+ s: mark "link failed"/);

  // The past stays while the run goes on: the rate limit from before the change returns.
  const slider = page.getByRole('slider', { name: 'Moment shown' });
  await slider.focus();
  await page.keyboard.press('Home');
  await until(page, () => / of /.test(document.querySelector('.moment').textContent));
  await until(page, () => /of 10 Mbit\/s/.test(document.querySelector('.details').textContent));
  const past = await page.locator('.moment').textContent();
  await page.waitForTimeout(500);
  assert.equal(
    (await page.locator('.moment').textContent()).split(' of ')[0],
    past.split(' of ')[0],
  );
  await page.getByLabel('Speed').selectOption('10');
  await page.getByRole('button', { name: 'Play' }).click();
  await until(page, () => /following/.test(document.querySelector('.moment').textContent));

  // Drag in a plot zooms, double click resets.
  const over = await page.locator('.u-over').first().boundingBox();
  await page.mouse.move(over.x + 30, over.y + 30);
  await page.mouse.down();
  await page.mouse.move(over.x + 150, over.y + 30, { steps: 4 });
  await page.mouse.up();
  await page.getByRole('button', { name: 'Reset zoom' }).waitFor();
  await page.mouse.dblclick(over.x + 60, over.y + 30);
  await page.getByRole('button', { name: 'Reset zoom' }).waitFor({ state: 'detached' });

  // Selections filter tables.
  await page.getByRole('tab', { name: /^Flows/ }).click();
  await row(page, 'voice').waitFor();
  await row(page, 'voice').click();
  await page.getByRole('heading', { name: 'Time series of flow voice' }).waitFor();
  assert.match(await page.locator('.links .flow').getAttribute('d'), /^M/);

  // The connection is lost and returns by itself; frames from before are still there.
  server.drop();
  await page.getByText('Connection lost').waitFor();
  server.restore();
  await page.getByText('Connection lost').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Follow' }).click();
  const moment = await page.locator('.moment').textContent();
  await until(page, (old) => document.querySelector('.moment').textContent !== old, moment);
  assert.equal(await page.locator('.log').getByText('mark: link failed').count(), 1);
  await slider.focus();
  await page.keyboard.press('Home');
  await until(
    page,
    (first) => document.querySelector('.moment').textContent.startsWith(first),
    past.split(' of ')[0],
  );
  assert.deepEqual(errors, []);
  await page.close();
  await server.close();
}

/** Terminals by keys and by buttons: tabs, sizes, copying, and the end of a connection. */
async function opensTerminals() {
  const server = await serve(LABS.small());
  const { page, errors } = await open(server.url, { width: 1200 });
  const context = page.context();
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.url });
  const text = () => page.locator('.host-terminal:not([hidden]) .xterm-accessibility-tree');
  const requests = (type) => server.received.filter((message) => message.type === type);
  const tab = (name) => page.getByRole('tab', { name, exact: true });
  const loaded = () => performance.getEntriesByType('resource').map(({ name }) => name);
  assert.ok(!(await page.evaluate(loaded)).some((name) => name.endsWith('terminal.js')));

  await page.locator('.picture').focus();
  for (const key of ['ArrowRight', 't']) await page.keyboard.press(key);
  await text().getByText('alice>').waitFor();
  assert.ok((await page.evaluate(loaded)).some((name) => name.endsWith('terminal.js')));
  await page.keyboard.type('first');
  await text().getByText('alice> first').waitFor();
  const colour = () =>
    [...document.querySelectorAll('.xterm-rows span')].map((span) => getComputedStyle(span).color);
  assert.ok((await page.evaluate(colour)).includes('rgb(90, 200, 120)'));
  await accessible(page);

  // The keys that leave, then the button of the selected node.
  await page.keyboard.press('Control+Shift+Enter');
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), 'alice');
  await page.getByRole('button', { name: 'Open a terminal' }).click();
  await tab('alice (2)').waitFor();
  await text().getByText(/^alice>/).waitFor();
  await page.keyboard.type('second');
  await text().getByText('alice> second').waitFor();
  await page.keyboard.press('Control+Shift+Enter');
  await page.keyboard.press('ArrowLeft');
  await text().getByText('alice> first').waitFor();
  await page.keyboard.press('Enter');

  // Copying and pasting.
  await page.locator('.host-terminal:not([hidden]) .xterm-screen').dblclick({ position: { x: 75, y: 8 } });
  await page.keyboard.press('Control+Shift+C');
  await until(page, async () => (await navigator.clipboard.readText()) === 'first');
  await page.keyboard.press('Control+Shift+V');
  await text().getByText('alice> firstfirst').waitFor();

  const before = requests('resize').length;
  await page.setViewportSize({ width: 390, height: 844 });
  while (requests('resize').length === before) await page.waitForTimeout(20);
  const { columns, rows } = requests('resize').at(-1);
  assert.ok(columns > 20 && columns < 60 && rows > 5, `${columns} x ${rows}`);
  await fits(page, 'a terminal at 390 px');
  await accessible(page);

  await page.keyboard.press('Control+d');
  await tab('alice (ended)').waitFor();
  await page.getByText('the shell ended with exit status 0').waitFor();
  await page.getByRole('button', { name: 'Close alice', exact: true }).click();
  await text().getByText('alice> second').waitFor();
  await page.getByRole('button', { name: 'Close alice (2)' }).click();
  await page.getByRole('region', { name: 'Terminals' }).waitFor({ state: 'detached' });
  assert.deepEqual(errors, []);
  await page.close();
  await server.close();
}

async function playsFinishedRun() {
  const server = await serve(LABS.finished());
  const { page, errors } = await open(server.url);
  await until(page, () => /30\.0 s of 30\.0 s/.test(document.querySelector('.moment').textContent));
  assert.match(await page.locator('header').textContent(), /Failed.*Finished run/s);
  await page.getByText('flow.bulk.goodput.mean is 4.1 Mbit/s').waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Control' }).count(), 0);
  await page.locator('.log').getByRole('button', { name: 'Show 10.0 s' }).last().click();
  await until(page, () => document.querySelector('.moment').textContent.startsWith('10.0 s of'));
  await page.getByLabel('Speed').selectOption('10');
  await page.getByRole('button', { name: 'Play' }).click();
  await until(page, () => /30\.0 s of 30\.0 s/.test(document.querySelector('.moment').textContent));
  assert.deepEqual(errors, []);
  await page.close();
  await server.close();
}

/** The pace of a virtual clock, by keys and by buttons. */
async function controlsVirtualClock() {
  const server = await serve(LABS.virtual());
  const { page, errors } = await open(server.url, { width: 390, height: 844, theme: 'dark' });
  const clock = page.getByRole('region', { name: 'Virtual clock' });
  const last = () => server.received.at(-1);
  await until(page, () => /bit\/s/.test(document.querySelector('#table tbody').textContent));
  await page.keyboard.press(' ');
  await clock.getByText(/^Virtual time [\d.]+ s, paused$/).waitFor();
  await page.locator('header').getByText('Paused', { exact: true }).waitFor();
  assert.equal(last().do, 'pause');
  const now = async () => Number(/[\d.]+/.exec(await clock.locator('output').textContent())[0]);
  const before = await now();
  await page.keyboard.press('.');
  await until(page, (old) => !document.querySelector('.clock output').textContent.includes(old),
    before.toFixed(3));
  assert.deepEqual([last().do, last().ns, (await now()).toFixed(3)], [
    'step', 100_000_000, (before + 0.1).toFixed(3),
  ]);
  await clock.getByLabel('Step by').selectOption('1 s');
  await clock.getByRole('button', { name: 'Step' }).click();
  await clock.getByText(`Virtual time ${(before + 1.1).toFixed(3)} s, paused`).waitFor();
  await clock.getByLabel('Run speed').selectOption('max');
  await clock.getByRole('button', { name: 'Continue run' }).click();
  await clock.getByRole('button', { name: 'Pause run' }).waitFor();
  assert.deepEqual(server.received.slice(-2).map(({ do: what }) => what), ['speed', 'resume']);
  assert.equal(server.received.at(-2).permille, null);
  // Keys of fields are not commands.
  const count = server.received.length;
  await page.getByRole('textbox', { name: 'Mark' }).fill('a');
  await page.keyboard.type(' .');
  assert.equal(server.received.length, count);
  await page.getByText('Links cannot be changed').waitFor();
  await fits(page, 'a virtual run at 390 px');
  await accessible(page);
  assert.deepEqual(errors, []);
  await page.close();
  await server.close();
}

/** Each width and theme, with a link selected: no accessibility violation, nothing beyond the width. */
async function fitsWidthsAndThemes() {
  for (const name of ['small', 'medium', 'finished']) {
    const server = await serve(LABS[name]());
    for (const [width, height] of [
      [390, 844],
      [1400, 900],
      [2560, 1300],
    ]) {
      for (const theme of ['light', 'dark']) {
        // All combinations with the small lab; for others, a theme for each of two widths.
        const pictures = process.argv.includes('--screenshots');
        const one = (width === 390 && theme === 'dark') || (width === 1400 && theme === 'light');
        if (!pictures && name !== 'small' && !one) continue;
        const { page, errors } = await open(server.url, { width, height, theme });
        await until(page, () => /bit\/s/.test(document.querySelector('#table tbody').textContent));
        await page.locator('#table tbody button').nth(2).click();
        await page.getByRole('heading', { name: /Time series of link/ }).waitFor();
        await page.mouse.move(1, 1);
        await accessible(page);
        await fits(page, `${name} at ${width} px`);
        if (pictures) {
          await mkdir(SCREENSHOTS, { recursive: true });
          const path = new URL(`${name}-${width}-${theme}.png`, SCREENSHOTS).pathname;
          await page.screenshot({ path, fullPage: true });
        }
        assert.deepEqual(errors, []);
        await page.close();
      }
    }
    await server.close();
  }
  const server = await serve(LABS.small());
  const { page } = await open(server.url);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByLabel('Theme').selectOption('dark');
  assert.notEqual(await background(), light);
  await page.close();
  await server.close();
}

/** Prints pictures per second with 1,000 nodes and 5,000 links at 10 Hz; asserts no speed. */
async function measuresLargeLab() {
  const server = await serve(LABS.large());
  const { page, errors } = await open(server.url);
  await until(page, () => /bit\/s/.test(document.querySelector('#table tbody').textContent));
  const { times, moments } = await page.evaluate(
    (seconds) =>
      new Promise((resolve) => {
        const [times, moments] = [[], new Set()];
        const begin = performance.now();
        const step = (now) => {
          times.push(now);
          moments.add(document.querySelector('.moment').textContent);
          if (now - begin < seconds * 1000) requestAnimationFrame(step);
          else resolve({ times, moments: moments.size });
        };
        requestAnimationFrame(step);
      }),
    PICTURES_S,
  );
  const gaps = times
    .slice(1)
    .map((time, i) => time - times[i])
    .sort((a, b) => a - b);
  const at = (share) => gaps[Math.floor(share * (gaps.length - 1))].toFixed(0);
  const rate = gaps.length / ((times.at(-1) - times[0]) / 1000);
  console.log(
    `1,000 nodes, 5,000 links: ${rate.toFixed(1)} pictures/s over ${PICTURES_S} s, ${moments} moments; interval p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`,
  );
  if (process.argv.includes('--screenshots'))
    await page.screenshot({ path: new URL('large.png', SCREENSHOTS).pathname });
  assert.deepEqual(errors, []);
  await page.close();
  await server.close();
}

if (process.argv.includes('--performance')) await run(measuresLargeLab);
else
  await run(
    watchesLiveLab,
    opensTerminals,
    playsFinishedRun,
    controlsVirtualClock,
    fitsWidthsAndThemes,
    measuresLargeLab,
  );
