import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Fixed names: the server compiles the files in, and serves them with `Cache-Control: no-store`.
export default defineConfig({
  base: './',
  plugins: [svelte({ compilerOptions: { modernAst: true } })],
  build: {
    target: 'es2022',
    // The policy of the server forbids inline script and style.
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    sourcemap: false,
    rolldownOptions: {
      output: {
        codeSplitting: false,
        entryFileNames: 'page.js',
        assetFileNames: 'page[extname]',
      },
    },
  },
});
