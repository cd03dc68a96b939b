// Loads `.ts` files in Node 20: `node --import ./tests/typescript.mjs`.

import { readFile } from 'node:fs/promises';
import { register } from 'node:module';

export async function load(url, context, next) {
  if (!url.endsWith('.ts')) return next(url, context);
  const { default: typescript } = await import('typescript');
  const { outputText } = typescript.transpileModule(await readFile(new URL(url), 'utf8'), {
    compilerOptions: { module: 'ESNext', target: 'ES2022', verbatimModuleSyntax: true },
  });
  return { format: 'module', source: outputText, shortCircuit: true };
}

// The hooks run in a thread of their own, which loads this file again.
if (process.execArgv.includes('--import') && !globalThis.hooked) {
  globalThis.hooked = true;
  const { isMainThread } = await import('node:worker_threads');
  if (isMainThread) register(import.meta.url);
}
