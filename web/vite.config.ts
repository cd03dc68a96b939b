import { readFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Their code is part of the page, so their licences are as well.
const licences = { svelte: 'LICENSE.md', uplot: 'LICENSE', clsx: 'license', 'esm-env': 'LICENSE' };
const notices = Object.entries(licences).map(([name, file]) => {
  const text = readFileSync(new URL(`node_modules/${name}/${file}`, import.meta.url), 'utf8');
  return `${name}:\n${text.trim()}`;
});

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
        codeSplitting: false,
        entryFileNames: 'page.js',
        assetFileNames: 'page[extname]',
        postBanner: `/*! Includes:\n\n${notices.join('\n\n')}\n*/`,
      },
    },
  },
});
