// What tests in Chromium share: the browser, pages whose errors are collected, axe-core.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((path) =>
  existsSync(path),
);
/** Ends a test that fails; far above what a loaded machine takes. */
export const WAIT_MS = 120_000;
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

if (!CHROMIUM) throw new Error('no /usr/bin/chromium: apt-get install chromium');
export const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ['--no-sandbox'],
  timeout: WAIT_MS,
});

/** Opens a page and collects its errors; those that `expected` matches are no errors. */
export async function open(url, { width = 1400, height = 900, theme = 'light', expected = /^$/ } = {}) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme });
  page.setDefaultTimeout(WAIT_MS);
  page.setDefaultNavigationTimeout(WAIT_MS);
  const errors = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !expected.test(message.text()))
      errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.goto(url);
  await page.getByRole('heading', { name: 'Topology' }).waitFor();
  return { page, errors };
}

/** Waits until a function, in the page, returns a true value. */
export const until = (page, condition, argument) =>
  page.waitForFunction(condition, argument, { timeout: WAIT_MS });
export const row = (page, name) => page.locator('#table tbody tr').filter({ hasText: name }).first();
/** axe runs in a world of its own: the policy of the page forbids scripts in it. */
export async function accessible(page) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send('Page.getFrameTree');
  const { executionContextId: contextId } = await session.send('Page.createIsolatedWorld', {
    frameId: frameTree.frame.id,
  });
  const run = (expression) =>
    session.send('Runtime.evaluate', {
      contextId,
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
  await run(axe);
  // Rows of the table are alike: four are enough.
  const { result, exceptionDetails } = await run(`
    axe.run({ exclude: ['#table tbody tr:nth-child(n+5)'] }, { resultTypes: ['violations'] })
      .then(({ violations }) => violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary)))`);
  assert.equal(exceptionDetails, undefined);
  assert.deepEqual(result.value, []);
  await session.detach();
}

/** Asserts that nothing is wider than the page. */
export async function fits(page, what) {
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(overflow <= 0, `${what} is ${overflow} px too wide`);
}

/** Runs tests one after the other, prints the time of each, and closes the browser. */
export async function run(...tests) {
  try {
    for (const test of tests) {
      const begin = Date.now();
      await test();
      console.log(`passed: ${test.name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
    }
  } finally {
    await browser.close();
  }
}
