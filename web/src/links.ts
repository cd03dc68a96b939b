// The worker that draws the links of a large lab. It receives a canvas, then pictures, and answers
// each picture.

import type { Picture } from './canvas.ts';

let canvas: OffscreenCanvas;

function draw({ width, height, ratio, strokes }: Picture): void {
  const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== columns || canvas.height !== rows) {
    [canvas.width, canvas.height] = [columns, rows];
  }
  const context = canvas.getContext('2d');
  if (!context) return;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  for (const { colour, width, dash, lines } of strokes) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    for (let i = 0; i < lines.length; i += 4) {
      context.moveTo(lines[i], lines[i + 1]);
      context.lineTo(lines[i + 2], lines[i + 3]);
    }
    context.stroke();
  }
}

self.onmessage = ({ data }: MessageEvent<OffscreenCanvas | Picture>) => {
  if (data instanceof OffscreenCanvas) {
    canvas = data;
    return;
  }
  draw(data);
  self.postMessage(null);
};
