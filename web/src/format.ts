// Numbers with units, as in the terminal and the report: SI prefixes, three significant digits.

/** Three significant digits, or all of the integer part, without an exponent. */
function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 99.95) return value.toFixed(0);
  return value.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3).replace(/\.?0+$/, '');
}

function scaled(value: number, units: [number, string][]): string {
  const size = Math.abs(value);
  const [factor, unit] = units.find(([each]) => size >= each * 0.9995) ?? units.at(-1)!;
  return `${digits(value / factor)} ${unit}`;
}

const known = (value: number | null | undefined): value is number =>
  typeof value === 'number' && Number.isFinite(value);

export function rate(value: number | null | undefined): string {
  if (!known(value)) return value === null ? 'unlimited' : '–';
  return scaled(value, [
    [1e9, 'Gbit/s'],
    [1e6, 'Mbit/s'],
    [1e3, 'kbit/s'],
    [1, 'bit/s'],
  ]);
}

export function bytes(value: number | null | undefined): string {
  if (!known(value)) return value === null ? 'unlimited' : '–';
  return scaled(value, [
    [1e9, 'GB'],
    [1e6, 'MB'],
    [1e3, 'kB'],
    [1, 'B'],
  ]);
}

export function duration(value: number | null | undefined): string {
  if (!known(value)) return '–';
  if (value === 0) return '0 ms';
  return scaled(value, [
    [1, 's'],
    [1e-3, 'ms'],
    [1e-6, 'µs'],
    [1e-9, 'ns'],
  ]);
}

export function percent(value: number | null | undefined): string {
  return known(value) ? `${digits(value * 100)} %` : '–';
}

export function count(value: number | null | undefined): string {
  return known(value) ? digits(value) : '–';
}

export function perSecond(value: number | null | undefined): string {
  return known(value) ? `${digits(value)}/s` : '–';
}

/** Lab time in s with at most three decimals, for files. */
export function seconds(value: number): string {
  return value.toFixed(3).replace(/\.?0+$/, '');
}

/** Lab time for people: `12.3 s`, `2:05.0` or `1:02:05`. */
export function moment(value: number): string {
  if (value < 60) return `${value.toFixed(1)} s`;
  const tenths = Math.round(value * 10);
  const two = (n: number) => String(n).padStart(2, '0');
  const [hours, minutes] = [Math.floor(tenths / 36_000), Math.floor(tenths / 600) % 60];
  if (hours > 0) return `${hours}:${two(minutes)}:${two(Math.floor(tenths / 10) % 60)}`;
  return `${minutes}:${((tenths % 600) / 10).toFixed(1).padStart(4, '0')}`;
}

/** Lab time on an axis. */
export function tick(value: number): string {
  if (value < 60) return `${seconds(value)} s`;
  return moment(value).replace(/\.0$/, '');
}

export function plural(n: number, noun: string): string {
  return `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`;
}
