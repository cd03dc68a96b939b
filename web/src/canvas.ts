// The canvas with the links of a large lab: with thousands of links, SVG paths take several times
// longer. A worker draws it, so that the page stays responsive.

import type { Stroke } from './topology.ts';

/** A picture. The size is in CSS pixels; `ratio` is that of device pixels to them. */
export interface Picture {
  width: number;
  height: number;
  ratio: number;
  strokes: { colour: string; width: number; dash: number[]; lines: Float32Array<ArrayBuffer> }[];
}

/** Colours that do not have the name of their class. */
const COLOURS: Record<string, string> = { down: 'soft', track: 'rule', queue: 'ink', drops: 'bad' };

export class LinkCanvas {
  #canvas: HTMLCanvasElement;
  #worker = new Worker(new URL('./links.ts', import.meta.url), { type: 'module' });
  #isDrawing = false;
  /** The picture to draw after this one. */
  #next: Picture | null = null;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    const offscreen = canvas.transferControlToOffscreen();
    this.#worker.postMessage(offscreen, [offscreen]);
    this.#worker.onmessage = () => {
      this.#isDrawing = false;
      if (this.#next) this.#send(this.#next);
    };
  }

  /** Draws strokes in place of the ones before. */
  draw(strokes: Stroke[], width: number, height: number): void {
    const style = getComputedStyle(this.#canvas);
    const used = strokes.filter(({ lines }) => lines.length > 0);
    const picture = {
      width,
      height,
      ratio: devicePixelRatio,
      strokes: used.map(({ class: kind, width, lines }) => ({
        colour: style.getPropertyValue(`--${COLOURS[kind] ?? kind}`),
        width,
        dash: kind === 'down' ? [5, 4] : [],
        lines: new Float32Array(lines),
      })),
    };
    if (this.#isDrawing) this.#next = picture;
    else this.#send(picture);
  }

  #send(picture: Picture): void {
    this.#isDrawing = true;
    this.#next = null;
    this.#worker.postMessage(
      picture,
      picture.strokes.map(({ lines }) => lines.buffer),
    );
  }

  close(): void {
    this.#worker.terminate();
  }
}
