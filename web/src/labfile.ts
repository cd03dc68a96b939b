// The changes of a session as `[[at]]` events of a lab file.

export interface Applied {
  /** Lab time in s. */
  at: number;
  /** Fields and values as in `netarium set`, or the text of a mark. */
  fields: [string, string][];
  mark?: string;
}

/** Lab time to the nanosecond: on the virtual clock, the event then repeats the run. */
const seconds = (at: number): string => at.toFixed(9).replace(/\.?0+$/, '');

/** A basic string of TOML. */
export function quote(text: string): string {
  const escaped = text.replace(/["\\\u0000-\u001f\u007f]/g, (c) => {
    const short: Record<string, string> = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\t': '\\t' };
    return short[c] ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return `"${escaped}"`;
}

/** A field of `netarium set`: `link.NAME.KEY` or `link.NAME.DIRECTION.KEY`. */
function split(field: string): { link: string; direction: string; key: string } | null {
  const match = /^link\.(.+?)(?:\.(up|down))?\.([a-z]+)$/.exec(field);
  return match && { link: match[1], direction: match[2] ?? '', key: match[3] };
}

export function atEvents(lab: string, changes: Applied[]): string {
  const parts = [`# Changes made in the live view of lab ${quote(lab)}: append them to its file.`];
  for (const { at, fields, mark } of changes) {
    const head = `\n[[at]]\ntime = ${quote(`${seconds(at)} s`)}\n`;
    if (mark !== undefined) {
      parts.push(`\n# ${seconds(at)} s: mark ${quote(mark)}`);
    }
    const links = new Map<string, Map<string, string[]>>();
    for (const [field, value] of fields) {
      const { link, direction, key } = split(field) ?? {};
      if (link === undefined || key === undefined) continue;
      if (key === 'state') {
        parts.push(`${head}link = ${quote(link)}\n${value === 'up' ? 'up' : 'down'} = true`);
        continue;
      }
      const directions = links.get(link) ?? new Map<string, string[]>();
      links.set(link, directions);
      const entries = directions.get(direction ?? '') ?? [];
      directions.set(direction ?? '', [...entries, `${key} = ${quote(value)}`]);
    }
    for (const [link, directions] of links) {
      const tables = [...directions].map(([direction, entries]) =>
        direction ? `${direction} = { ${entries.join(', ')} }` : entries.join(', '),
      );
      parts.push(`${head}link = ${quote(link)}\nset = { ${tables.join(', ')} }`);
    }
  }
  return `${parts.join('\n')}\n`;
}
