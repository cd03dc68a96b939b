// A terminal on a host of the lab: xterm.js and its WebSocket. This file and xterm.js are a separate
// chunk, which the page loads when the first terminal opens.

import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import css from '@xterm/xterm/css/xterm.css?inline';
import type { TerminalRequest } from './protocol.ts';

const BACKGROUND = '#101319';
const FOREGROUND = '#e7eaf0';
/** Processed output for an acknowledgement. */
const ACK_BYTES = 64 << 10;
/** The server limits the length of a message. */
const MAX_INPUT_MESSAGE = 32 << 10;

const createElement = Document.prototype.createElement.bind(document);

/** The policy of the page permits style sheets that scripts make, but no style elements. */
function adopt(text: string): CSSStyleSheet {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  return sheet;
}

/** In place of a style element: its text becomes an adopted style sheet. */
function styleElement(): HTMLElement {
  const sheet = adopt('');
  const element = createElement('template');
  Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

/** A span whose attribute `style` is set by properties, which the policy permits. */
function spanElement(): HTMLElement {
  const element = createElement('span');
  element.setAttribute = (name, value) => {
    if (name === 'style') element.style.cssText = value;
    else Element.prototype.setAttribute.call(element, name, value);
  };
  return element;
}

// xterm.js makes inline styles, which the policy forbids, with the document of the page.
document.createElement = (name: string, options?: ElementCreationOptions): HTMLElement => {
  if (name === 'style') return styleElement();
  return name === 'span' ? spanElement() : createElement(name, options);
};

adopt(css);

export interface Events {
  /** The connection ended. */
  ended: (reason: string) => void;
  /** The user leaves the terminal by keys. */
  left: () => void;
}

export class HostTerminal {
  #terminal: Terminal;
  #fit = new FitAddon();
  #socket: WebSocket;
  #observer: ResizeObserver;
  #processed = 0;

  constructor(element: HTMLElement, host: string, label: string, events: Events) {
    this.#terminal = new Terminal({
      screenReaderMode: true,
      minimumContrastRatio: 4.5,
      fontSize: 13,
      fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
      theme: { background: BACKGROUND, foreground: FOREGROUND, cursor: FOREGROUND },
    });
    this.#terminal.loadAddon(this.#fit);
    this.#terminal.open(element);
    this.#terminal.textarea?.setAttribute('aria-label', label);
    this.#terminal.attachCustomKeyEventHandler((event) => this.#key(event, events));
    this.#fit.fit();
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    this.#socket = new WebSocket(`${scheme}://${location.host}/terminal`);
    this.#socket.binaryType = 'arraybuffer';
    this.#connect(host, events);
    this.#observer = new ResizeObserver(() => {
      // A hidden terminal keeps its size.
      if (element.clientHeight > 0) this.#fit.fit();
    });
    this.#observer.observe(element);
  }

  #key(event: KeyboardEvent, events: Events): boolean {
    if (!event.ctrlKey || !event.shiftKey || event.type !== 'keydown') return true;
    if (event.code === 'Enter') events.left();
    else if (event.code === 'KeyC') this.#copy();
    else return true;
    event.preventDefault();
    return false;
  }

  #copy(): void {
    void navigator.clipboard.writeText(this.#terminal.getSelection());
  }

  #connect(host: string, events: Events): void {
    const [socket, terminal] = [this.#socket, this.#terminal];
    const size = () => ({ columns: terminal.cols, rows: terminal.rows });
    socket.onopen = () => this.#send({ type: 'open', host, ...size() });
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      const bytes = new Uint8Array(data);
      terminal.write(bytes, () => this.#process(bytes.length));
    };
    socket.onclose = ({ reason }) => {
      terminal.options.disableStdin = true;
      events.ended(reason || 'the connection was lost');
    };
    terminal.onResize(() => this.#send({ type: 'resize', ...size() }));
    const encoder = new TextEncoder();
    terminal.onData((text) => {
      const bytes = encoder.encode(text);
      for (let from = 0; from < bytes.length; from += MAX_INPUT_MESSAGE) {
        this.#input(bytes.subarray(from, from + MAX_INPUT_MESSAGE));
      }
    });
    // Reports of the mouse that are not UTF-8.
    terminal.onBinary((text) => this.#input(Uint8Array.from(text, (each) => each.charCodeAt(0))));
  }

  /** Permits more output when enough of it has been drawn. */
  #process(bytes: number): void {
    this.#processed += bytes;
    if (this.#processed < ACK_BYTES) return;
    this.#send({ type: 'ack', bytes: this.#processed });
    this.#processed = 0;
  }

  #send(request: TerminalRequest): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(request));
  }

  #input(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(bytes);
  }

  focus(): void {
    this.#terminal.focus();
  }

  close(): void {
    this.#observer.disconnect();
    this.#socket.onclose = null;
    this.#socket.close();
    this.#terminal.dispose();
  }
}
