import { readFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Their code is part of the files, so their licences are as well.
const licences = {
  'page.js': { svelte: 'LICENSE.md', uplot: 'LICENSE', clsx: 'license', 'esm-env': 'LICENSE' },
  'terminal.js': { '@xterm/xterm': 'LICENSE', '@xterm/addon-fit': 'LICENSE' },
};

/** Of parts of @xterm/xterm, beside its own licence, which is the same. */
const MICROSOFT = 'Parts of @xterm/xterm: Copyright (c) Microsoft Corporation';

function notices(chunk: keyof typeof licences): string {
  const texts = Object.entries(licences[chunk]).map(([name, file]) => {
    const text = readFileSync(new URL(`node_modules/${name}/${file}`, import.meta.url), 'utf8');
    return `${name}:\n${text.trim()}`;
  });
  if (chunk === 'terminal.js') texts.push(MICROSOFT);
  return `/*! Includes:\n\n${texts.join('\n\n')}\n*/`;
}

// Fixed names: the server compiles the files in, and serves them with `Cache-Control: no-store`.
export default defineConfig({
  base: './',
  plugins: [svelte({ configFile: false })],
  worker: { format: 'es', rolldownOptions: { output: { entryFileNames: 'links.js' } } },
  build: {
    target: 'es2022',
    // The policy of the server forbids inline script and style.
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    sourcemap: false,
    rolldownOptions: {
      checks: { pluginTimings: false },
      output: {
        entryFileNames: 'page.js',
        // The only chunk that the page loads later.
        chunkFileNames: '[name].js',
        assetFileNames: 'page[extname]',
        postBanner: ({ isEntry }) => notices(isEntry ? 'page.js' : 'terminal.js'),
      },
    },
  },
});
